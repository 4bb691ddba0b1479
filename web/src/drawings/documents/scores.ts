/** How scores become bars, and numbers that are what they are. */

import { max, min } from "d3-array";
import type { Schema } from "../../lib/ask";
import { spoken } from "../../lib/python";
import { cut, legible } from "../../lib/tokens";

export interface Bars {
  zero: number;
  of: (score: number) => { x: number; width: number };
}

/** Bars from a common zero within `width`: at the left where no score is negative, at the right where none is positive. */
export function bars(scores: readonly number[], x: number, width: number): Bars {
  const [low, high] = [Math.min(0, min(scores) ?? 0), Math.max(0, max(scores) ?? 0)];
  const unit = width / (high - low || 1);
  const zero = x - low * unit;
  return { zero, of: (score) => ({ x: score < 0 ? zero + score * unit : zero, width: Math.abs(score) * unit }) };
}

/** A token that is looked at, with its position, in so many letters. */
export const sourceName = ({ token, position }: Schema["Source"], letters: number): string =>
  `${position} ${cut(legible(token.text, token.id), letters)}`;

/** 0.25, and 0,25 for readers of Portuguese; no digit more than it has. */
export const asIs = (value: number): string => spoken(String(value));
