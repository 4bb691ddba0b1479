/** The documents that Python sends: see `headwater.atlas.found`, `headwater.circuits.all_heads`, `headwater.trace.patterns` and `headwater.trace.river`. */

import type { Schema } from "../lib/ask";

/** A token: its exact text, null where it has none, and its id. */
export type Token = [string | null, number];
export type Value = Token | string | number | null;

export interface Column {
  name: string;
  kind: "token" | "text" | "number";
  /** How Python writes its numbers. */
  form: string | null;
  /** Whether the whole answer can be asked for again in its order. */
  sorts: boolean;
}

export interface Page {
  title: string;
  columns: Column[];
  rows: Value[][];
  total: number;
  offset: number;
  has_more: boolean;
  sort: string | null;
  remarks: string[];
  limits: { k?: number; each?: number; triples?: number };
  beyond: [number, number] | null;
  sign: "both" | "raising" | "lowering" | null;
}

export type Entry = [Token, Token, number];
export interface Link {
  writer: string;
  reader: string;
  score: number;
  excess: number;
}
export interface Strength {
  norm: number;
  effective_rank: number;
  singular_values: number[];
}
export interface HeadTold {
  head: string;
  layer: number;
  number: number;
  copying: number;
  copying_centred: number;
  verdict: string;
  own_first: number | null;
  own_top_10: number | null;
  self_match: number;
  ov: Strength;
  qk: Strength;
  attending: { previous: number; own: number; first: number; even: number } | null;
  induction: { score: number; fed_by: string; match: number; attention: number; copying: number } | null;
  partners: Link[];
  says: Entry[];
  seeks: Entry[];
}
export interface HeadsTold {
  layers: number;
  heads: number;
  chance: number;
  given: string[];
  told: HeadTold[];
}

/** As the studio answers, but for what a notebook knows anyway. */
export type RiverTold = Omit<Schema["River"], "model" | "lines">;
export type WhyTold = Schema["Why"];
export interface Looked {
  head: string;
  view: "pattern" | "weighted" | "scores";
  /** float32, dest by source; no number where the mask forbids to look. */
  values: unknown;
}
export interface Surveyed {
  facts: Schema["HeadLooks"][];
  /** Cells on each side of a small picture. */
  side: number;
  small_pattern: unknown;
  small_weighted: unknown;
}
export interface AttentionTold {
  layers: number;
  heads: number;
  mask: "causal" | "full";
  tokens: Schema["TokenTold"][];
  chosen: { head: string; dest: number | null; source: number | null; against: number | null };
  why: WhyTold | null;
  pattern: Looked | null;
  facts: Schema["HeadLooks"][] | null;
}
