/** English and Portuguese: each module brings its own words, in pairs, and reads them in the language of the page. */

import { address } from "./address.svelte";

export type Language = "en" | "pt";
type Entry = string | ((...given: never[]) => string);
type Same<T> = { [K in keyof T]: T[K] extends string ? string : T[K] };

function remembered(): Language {
  if (typeof localStorage === "undefined") return "en";
  const said = localStorage.getItem("headwater-language") ?? navigator.language.slice(0, 2);
  return said === "pt" ? "pt" : "en";
}

class Speech {
  /** Set where there is no address to read it from: in a notebook. */
  fixed = $state<Language | null>(null);
  get language(): Language {
    if (this.fixed) return this.fixed;
    const asked = address.get("lang");
    return asked === "pt" || asked === "en" ? asked : remembered();
  }
}

export const speech = new Speech();

/** Words in both languages; `t.title` is the one of the page's language, and changes with it. */
export function speaks<T extends Record<string, Entry>>(both: { en: T; pt: Same<T> }): T {
  return new Proxy(both.en, { get: (_, name: string) => (both[speech.language] as T)[name as keyof T] });
}

export function chooseLanguage(language: Language): void {
  localStorage.setItem("headwater-language", language);
  address.set({ lang: language }, "replace");
}
