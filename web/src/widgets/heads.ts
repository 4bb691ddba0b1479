/** What a grid of heads can be coloured by, and who is linked with whom. */

import type { HeadTold, HeadsTold, Link } from "./shapes";

export const MEASURES = [
  "copying_centred",
  "copying",
  "self_match",
  "previous",
  "own",
  "first",
  "induction",
  "ov",
  "qk",
] as const;
export type Measure = (typeof MEASURES)[number];
/** How Python writes each of them. */
export const FORMS: Record<Measure, string> = {
  copying_centred: "+z.2f",
  copying: "+z.2f",
  self_match: "+z.2f",
  previous: ".0%",
  own: ".0%",
  first: ".0%",
  induction: "+z.2f",
  ov: ",.0f",
  qk: ",.0f",
};

export function measured(head: HeadTold, by: Measure): number | null {
  if (by === "ov" || by === "qk") return head[by].norm;
  if (by === "induction") return head.induction?.score ?? null;
  if (by === "previous" || by === "own" || by === "first") return head.attending?.[by] ?? null;
  return head[by];
}

/** Measures that at least one head has. */
export const known = (told: HeadsTold): Measure[] =>
  MEASURES.filter((by) => told.told.some((head) => measured(head, by) !== null));

/** From −1 to 1: scores and shares as they are, norms beside the largest. */
export function strength(told: HeadsTold, head: HeadTold, by: Measure): number {
  const value = measured(head, by) ?? 0;
  if (by !== "ov" && by !== "qk") return Math.max(-1, Math.min(1, value));
  return value / Math.max(1e-300, ...told.told.map((each) => measured(each, by) ?? 0));
}

const component = (name: string): string => name.replace(/\.[QKV]$/, "");

/** The other end of a link, which way it goes, and by what it is read: Q, K or V. */
export function other(link: Link, head: string): { name: string; reads: boolean; mode: string } {
  const mode = /\.([QKV])$/.exec(link.reader)?.[1] ?? "";
  const reads = component(link.reader) === head && link.writer !== head;
  return { name: reads ? link.writer : component(link.reader), reads, mode };
}

/** The next head in a direction; the same where there is none. */
export function next(told: HeadsTold, from: HeadTold, rows: number, columns: number): HeadTold {
  const at = (layer: number, number: number) => told.told.find((each) => each.layer === layer && each.number === number);
  return at(from.layer + rows, from.number + columns) ?? from;
}
