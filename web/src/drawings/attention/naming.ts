/** Parts and places in words of the page's language, made from what they are and never from the library's own labels. */

import type { Schema } from "../../lib/ask";
import { fixed, whole } from "../../lib/numbers";
import { cut, legible } from "../../lib/tokens";
import { words as t } from "./words";

export type Part = Schema["AttentionPart"];
export type Place = Schema["Place"];
const LONGEST = 24;

/** ‘ open’@3, kept apart from its surroundings whatever direction its letters have. */
export const placed = (place: Place, most = LONGEST): string =>
  `\u2068‘${cut(legible(place.token.text, place.token.id), most)}’\u2069@${place.position}`;

/** What a difference of two scores comes to in attention; in words where so many digits would tell nothing. */
export function timesAsMuch(difference: number): string {
  const times = Math.exp(difference);
  if (times > 1e6) return t.farMore;
  if (times < 1e-3) return t.farLess;
  return t.times(fixed(times, times < 0.01 ? 4 : times < 100 ? 2 : 0));
}

/** A part of a query or key. */
export function partName(part: Part, most = LONGEST): string {
  switch (part.kind) {
    case "embedding":
      return part.place ? t.embeddingOf(placed(part.place, most)) : t.embeddings;
    case "position":
      return part.place ? t.positionOf(part.place.position) : t.positions;
    case "source":
    case "token":
      return part.place ? placed(part.place, most) : part.name;
    case "feed-forward":
      return t.feedForward(part.name.replace(".feed_forward", ""));
    case "bias":
      return t.bias(part.name);
    case "remainder":
      return t.others(whole(part.count));
    case "edit":
      return t.edits;
    default:
      return part.name;
  }
}

/** The same for the head of a row or column, where the place is known already. */
export function partHead(part: Part): string {
  if (part.kind === "embedding") return part.place ? t.embedding : t.embeddings;
  if (part.kind === "bias") return part.name;
  if (part.kind === "position") return part.place ? t.position : t.positions;
  return partName(part, 12);
}
