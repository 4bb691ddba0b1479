/** What the drawings of the stream are laid out by: pure functions of an answer's facts. */

import type { Schema } from "../../lib/ask";

export type Stream = Schema["OneStream"];
export type Stage = Schema["StageTold"];
export type Component = Schema["ComponentTold"];

/** Where a stage stands: before all blocks, in one, or after so many of them. */
export const groupOf = (stage: Stage, layers: number): number =>
  stage.layer !== null ? stage.layer + 1 : stage.letter === "final" ? layers + 1 : 0;

export const named = (stream: Stream, name: string | null): Stage | null =>
  (name && stream.stages.find((stage) => stage.name === name || stage.also.includes(name))) || null;

/** The stage that a write's component reads: the documents number it one lower. */
export function readBy(stream: Stream, write: Stage): Stage | null {
  const letter = /^t([1-5])$/.exec(write.letter);
  return letter && write.layer !== null ? named(stream, `L${write.layer}.t${Number(letter[1]) - 1}`) : null;
}

/** The stage of the stream that a write joins. */
export const joins = (stream: Stream, write: Stage): Stage | null =>
  stream.stages.slice(stream.stages.indexOf(write) + 1).find((stage) => stage.role === "stream") ?? null;

export interface Heights {
  row: number;
  head: number;
}

/** The middle of each stage's row, and where each block begins; blocks of the same number, and what comes after all of them, stand at the same height. */
export function rowsOf(streams: Stream[], { row, head }: Heights): { y: number[][]; tops: number[]; height: number } {
  const most = Math.max(...streams.map((stream) => stream.layers));
  const groups = most + 2;
  const counts = streams.map((stream) => {
    const found = new Array<number>(groups).fill(0);
    for (const stage of stream.stages) found[groupOf(stage, most)]! += 1;
    return found;
  });
  const tops: number[] = [];
  let at = 0;
  for (let group = 0; group < groups; group += 1) {
    tops.push(at);
    const rows = Math.max(...counts.map((each) => each[group]!));
    at += rows ? head + rows * row : 0;
  }
  const y = streams.map((stream) => {
    const placed = new Array<number>(groups).fill(0);
    return stream.stages.map((stage) => {
      const group = groupOf(stage, most);
      placed[group]! += 1;
      return tops[group]! + head + (placed[group]! - 0.5) * row;
    });
  });
  return { y, tops, height: at };
}

const WITHIN: Record<string, Record<string, number>> = {
  "post-norm": { t0: 0, t2: 0.4, t3: 0.6, t5: 0.85, h: 1 },
  "pre-norm": { t0: 0, t3: 0.5, h: 1 },
  "no-norm": { t0: 0, t3: 0.5, h: 1 },
};

/** How far along the model a stage is, in blocks; where it goes by several names of the stream, the last of them counts. */
export function along(stream: Stream, stage: Stage): number {
  const places = [stage.name, ...stage.also].map((name) => {
    const found = /^L(\d+)\.(t\d|h)$/.exec(name);
    if (!found) return name === "final" ? stream.layers + (stage.role === "copy" ? 0.25 : 0) : -0.25;
    const within = WITHIN[stream.norms]?.[found[2]!];
    return within === undefined ? -Infinity : Number(found[1]) + within;
  });
  const last = Math.max(...places);
  return last === -Infinity ? (stage.layer ?? 0) + 0.25 : last;
}

/** Stages that lie in the stream itself, and what the unembedding reads; copies within blocks only where they are wanted. */
export function inStream(stream: Stream, copies = false): Stage[] {
  const found = stream.stages.filter(
    (stage) => stage.role === "stream" || stage.letter === "final" || (copies && stage.role === "copy"),
  );
  return found.length ? found : stream.stages.slice(0, 1);
}

export interface Segment {
  /** The component's number; null for all small ones together. */
  component: number | null;
  value: number;
  from: number;
  to: number;
}

/** Shares stacked from zero: positive ones upward, negative ones downward. What is smaller than `least` everywhere in the stack is one segment on each side. */
export function stacked(shares: readonly (number | null)[], least = 0.004): Segment[] {
  const found: Segment[] = [];
  let [up, down] = [0, 0];
  const put = (component: number | null, value: number): void => {
    const from = value > 0 ? up : down;
    found.push({ component, value, from, to: from + value });
    if (value > 0) up += value;
    else down += value;
  };
  let [little, less] = [0, 0];
  shares.forEach((value, component) => {
    if (!value) return;
    if (Math.abs(value) >= least) put(component, value);
    else if (value > 0) little += value;
    else less += value;
  });
  if (little) put(null, little);
  if (less) put(null, less);
  return found;
}

export function extent(streams: Stream[], copies: boolean): [number, number] {
  let [low, high] = [0, 1];
  for (const stream of streams)
    for (const stage of inStream(stream, copies))
      for (const segment of stacked(stage.shares ?? [])) {
        low = Math.min(low, segment.to);
        high = Math.max(high, segment.to);
      }
  return [low, high];
}

export interface Range {
  low: number;
  high: number;
}

/** The least and the largest number above zero in all maps in sight. */
export function rangeOf(maps: (Float32Array | Uint8Array)[]): Range {
  let [low, high] = [Infinity, 0];
  for (const values of maps)
    for (const value of values) {
      if (value > 0 && value < low) low = value;
      if (value > high) high = value;
    }
  return { low, high };
}

/** How dark a cell is, from 0 to 1 (below 0 where a cosine is negative). */
export function shade(values: Float32Array | Uint8Array, measure: string, vocab: number, range: Range): Float32Array {
  const { low, high } = range;
  const [far, most] = [Math.log(high / low), Math.log(Math.max(2, vocab))];
  const dark: Record<string, (value: number) => number> = {
    rank: (value) => Math.max(0, 1 - Math.log(Math.max(1, value)) / most),
    length: (value) => (value <= 0 ? 0 : far > 0 ? 0.08 + (0.92 * Math.log(value / low)) / far : 1),
    entropy: (value) => (high > 0 ? value / high : 0),
  };
  const found = new Float32Array(values.length);
  const one = dark[measure] ?? ((value: number) => value);
  values.forEach((value, at) => (found[at] = Number.isNaN(value) ? 0 : one(value)));
  return found;
}

/** Positions of an overview by the lens: as many as can be had at once, in pieces that do not move with every step. */
export function pieceOf(position: number, length: number, most: number): { first: number; count: number } {
  if (length <= most) return { first: 0, count: length };
  const first = Math.min(Math.floor(position / most) * most, length - most);
  return { first, count: most };
}
