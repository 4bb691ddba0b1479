/** Sizes and cuts of a pattern's drawing: pure functions. */

import { ARROWS } from "../../lib/arrows";

/** The side of one cell, so that a pattern of so many tokens fills what there is and a short one does not become coarse. */
export function cellSize(count: number, room: number, largest = 60): number {
  return Math.max(room / Math.max(1, count) >= 1 ? 1 : 0, Math.min(largest, room / Math.max(1, count)));
}

/** Which positions have a label: all where there is room, else every so many, by a round number. */
export function labelled(count: number, cell: number, needs = 13): { every: number; words: boolean } {
  if (cell >= needs) return { every: 1, words: true };
  const rounds = [2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const every = rounds.find((each) => each * cell >= 2.2 * needs) ?? 2000;
  return { every: Math.min(every, Math.max(1, count)), words: false };
}

/** A stretch of so many positions around one, within the text. */
export function around(position: number, count: number, length: number): number {
  return Math.max(0, Math.min(length - count, position - Math.floor(count / 2)));
}

/** A square piece of a square grid. */
export function piece(values: Float32Array, length: number, row: number, column: number, count: number): Float32Array {
  const found = new Float32Array(count * count);
  for (let at = 0; at < count; at += 1) {
    const start = (row + at) * length + column;
    found.set(values.subarray(start, start + count), at * count);
  }
  return found;
}

/** The source that a destination looks at most; NaN, where it may not look, never counts. */
export function strongest(values: Float32Array, length: number, dest: number): number {
  let best = 0;
  let most = -Infinity;
  for (let source = 0; source < length; source += 1) {
    const value = values[dest * length + source]!;
    if (value > most) [best, most] = [source, value];
  }
  return best;
}

const PLACES = ["previous", "own", "first"] as const;
/** Of a head's attention: what the library calls a place where it looks gets more than half (`atlas/about_heads.py`). */
const MOSTLY = 0.5;

/** Where a head looks, if it pays most of its attention there. */
export function mostly(looks: Record<(typeof PLACES)[number], number | null>): (typeof PLACES)[number] | null {
  const best = PLACES.reduce((one, other) => ((looks[other] ?? 0) > (looks[one] ?? 0) ? other : one));
  return (looks[best] ?? 0) > MOSTLY ? best : null;
}

/** A head's neighbour by an arrow key, or null where there is none. */
export function neighbour(
  key: string,
  layer: number,
  head: number,
  layers: number,
  heads: number,
): { layer: number; head: number } | null {
  const step = { ...ARROWS, Home: [0, -head] as const, End: [0, heads - 1 - head] as const }[key];
  if (!step) return null;
  const [to, number] = [layer + step[0], head + step[1]];
  return to < 0 || to >= layers || number < 0 || number >= heads ? null : { layer: to, head: number };
}
