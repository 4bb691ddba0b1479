/** Every choice is in the address: reload and back work, and an address can be sent to somebody. */

export const SCREENS = ["river", "attention", "stream", "atlas", "training", "documents"] as const;
export type Screen = (typeof SCREENS)[number];
type Choices = Record<string, string>;
/** Choices that belong to the text and the reader and go along from screen to screen. */
const SHARED = ["model", "text", "lang", "theme"];
/** How one looks, whatever the model and the text. */
const LOOKS = ["view", "shape", "direction", "centred", "copies", "measure", "figure", "of", "temperature"];
/** Parts of a model, which are there with another text too. */
const PARTS = ["head", "layer", "stage", "other"];

function read(): { screen: Screen; choices: Choices } {
  const screen = SCREENS.find((each) => `/${each}` === location.pathname) ?? "river";
  return { screen, choices: Object.fromEntries(new URLSearchParams(location.search)) };
}

function written(screen: Screen, choices: Choices): string {
  const query = new URLSearchParams(choices).toString();
  return `/${screen}${query ? `?${query}` : ""}`;
}

class Address {
  screen = $state<Screen>("river");
  choices = $state.raw<Choices>({});

  constructor() {
    if (typeof location === "undefined") return;
    Object.assign(this, read());
    addEventListener("popstate", () => Object.assign(this, read()));
  }

  /** A choice, or the given default where it has not been made. */
  get(name: string): string | null;
  get(name: string, otherwise: string): string;
  get(name: string, otherwise: string | null = null): string | null {
    return this.choices[name] ?? otherwise;
  }

  /** A choice that is a whole number. */
  number(name: string): number | null {
    const given = this.choices[name];
    return given !== undefined && /^-?\d{1,9}$/.test(given) ? Number(given) : null;
  }

  /** Make choices; null takes one back. A step of its own in the history, unless it only refines the last ("replace"). */
  set(changes: Record<string, string | number | null | undefined>, how: "push" | "replace" = "push"): void {
    const next = { ...this.choices };
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") delete next[name];
      else next[name] = String(value);
    }
    this.#show(this.screen, next, how);
  }

  /** Another text, another model, or another atlas: what was chosen in the one before is taken back. */
  begin(changes: { text: string } | { model: string } | { atlas: string }): void {
    const kept = [...SHARED, ...LOOKS, ...("text" in changes ? PARTS : [])];
    const gone = Object.keys(this.choices).filter((name) => !kept.includes(name));
    this.set({ ...Object.fromEntries(gone.map((name) => [name, null])), ...changes });
  }

  /** The address of another screen about the same text, for a link. */
  of(screen: Screen, choices: Choices = {}): string {
    const kept = Object.fromEntries(Object.entries(this.choices).filter(([name]) => SHARED.includes(name)));
    return written(screen, { ...kept, ...choices });
  }

  /** Go to another screen. */
  go(screen: Screen, choices: Choices = {}): void {
    history.pushState(null, "", this.of(screen, choices));
    Object.assign(this, read());
  }

  #show(screen: Screen, choices: Choices, how: "push" | "replace"): void {
    const place = written(screen, choices);
    if (place === location.pathname + location.search) return;
    if (how === "push") history.pushState(null, "", place);
    else history.replaceState(null, "", place);
    this.screen = screen;
    this.choices = choices;
  }
}

export const address = new Address();
