/** What the interactive figures compute in the page, from the exact numbers that the server sent. */

import { max, sum } from "d3-array";

/** `softmax(β · scores)`, by differences to the best so that large β do not overflow. */
export function softmax(scores: readonly number[], beta = 1): number[] {
  const best = max(scores) ?? 0;
  const powers = scores.map((score) => Math.exp(beta * (score - best)));
  const all = sum(powers);
  return powers.map((power) => power / all);
}

/** The sum of vectors, each by its weight. */
export function combined(weights: readonly number[], vectors: readonly (readonly number[])[]): number[] {
  const found = new Array<number>(vectors[0]?.length ?? 0).fill(0);
  vectors.forEach((vector, row) => vector.forEach((value, at) => (found[at]! += weights[row]! * value)));
  return found;
}

export const lengthOf = (vector: readonly number[]): number => Math.sqrt(sum(vector, (value) => value * value));

export const apart = (one: readonly number[], other: readonly number[]): number =>
  lengthOf(one.map((value, at) => value - other[at]!));

/** Weights when some are put out: what is left is divided by its sum; nothing is left where all are out. */
export function without(weights: readonly number[], out: ReadonlySet<number>): number[] {
  const kept = weights.map((weight, at) => (out.has(at) ? 0 : weight));
  const all = sum(kept);
  return kept.map((weight) => (all > 0 ? weight / all : 0));
}

/** Sources that an address puts out, as `1.4`: of so many, those that there are. */
export function putOut(given: string | null, count: number): Set<number> {
  const named = (given ?? "").split(".").filter((each) => /^\d{1,5}$/.test(each));
  return new Set(named.map(Number).filter((each) => each < count));
}

/** The rows that there is room for, in the order of the text: the largest, and the rest in one. */
export function largestRows(weights: readonly number[], most: number): { shown: number[]; rest: number[] } {
  const order = weights.map((_, at) => at).sort((a, b) => weights[b]! - weights[a]! || a - b);
  if (order.length <= most) return { shown: [...order].sort((a, b) => a - b), rest: [] };
  const shown = order.slice(0, most - 1).sort((a, b) => a - b);
  return { shown, rest: order.slice(most - 1).sort((a, b) => a - b) };
}

/** The slider's way from 100 to 0.01, in logarithms; a temperature of three digits, so that what is shown is what is meant. */
export const HOTTEST = 2;
const rounded = (temperature: number): number => Number(temperature.toPrecision(3));
export const fromSlider = (place: number): number => rounded(10 ** place);
export const toSlider = (temperature: number): number => Math.min(HOTTEST, Math.max(-HOTTEST, Math.log10(temperature)));

/** A temperature from an address; 1 where it is none. */
export function readTemperature(given: string | null): number {
  const found = given === null ? 1 : Number(given);
  return Number.isFinite(found) && found >= 10 ** -HOTTEST && found <= 10 ** HOTTEST ? found : 1;
}
