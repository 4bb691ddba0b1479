/** Words of the Atlas, in both languages. */

import { speaks } from "../../lib/words.svelte";
import { english } from "./english";
import { portuguese } from "./portuguese";

export const words = speaks({ en: english, pt: portuguese });

type Key = Extract<keyof typeof words, string>;

/** A word by a name that the library has, such as a verdict or a behaviour; the name itself where there is none. */
export function named(prefix: string, name: string | null | undefined): string {
  if (!name) return "";
  const found: unknown = words[(prefix + name) as Key];
  return typeof found === "string" ? found : name;
}

/** What a build is doing, in words. */
export function stepNamed(what: string): string {
  if (what === "reading" || what === "evidence") return named("s_", what);
  return what === "heads.json" ? words.s_summary : words.s_tables;
}
