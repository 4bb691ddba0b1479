/** Light or dark: as the address says, as it was last, or as the system is. */

import { address } from "./address.svelte";

export type Theme = "light" | "dark";

function remembered(): Theme {
  const said = localStorage.getItem("headwater-theme");
  if (said === "light" || said === "dark") return said;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

class Look {
  /** Set where there is no address to read it from: in a notebook. */
  fixed = $state<Theme | null>(null);
  get theme(): Theme {
    if (this.fixed) return this.fixed;
    const asked = address.get("theme");
    return asked === "light" || asked === "dark" ? asked : remembered();
  }
  choose(theme: Theme): void {
    localStorage.setItem("headwater-theme", theme);
    address.set({ theme }, "replace");
  }
}

export const look = new Look();

/** A colour of the style sheet as it is now, for what is drawn on a canvas. */
export function colour(name: string, from: Element = document.documentElement): string {
  return getComputedStyle(from).getPropertyValue(`--${name}`).trim();
}

/** How large the page's text is, where 1 is 16 pixels: a projector has larger letters, and drawings have too. */
export const enlarged = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
