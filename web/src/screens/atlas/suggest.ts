/** What fields and lists of several parts of the atlas share. */

import { words as t } from "../../drawings/atlas/words";
import { ask, type Schema } from "../../lib/ask";
import type { Asked } from "../../lib/asked.svelte";
import { poses } from "../posed.svelte";

/** Tokens of an atlas that begin so; of no letter at all, the commonest. */
export const suggestIn = (atlas: string) => async (start: string, signal: AbortSignal) =>
  (await ask("/api/atlas/suggest", { atlas, start: start.slice(0, 200) }, signal)).tokens;

type ListAsked = Parameters<typeof ask<"/api/atlas/list">>[1];
/** A token's line of a table, once there is a token. To be made while a component is. */
export const lists = (make: () => ListAsked): Asked<Schema["ListTold"]> =>
  poses(
    (query: ListAsked, signal) => ask("/api/atlas/list", query, signal),
    () => {
      const query = make();
      return query.token ? query : null;
    },
    150,
  );

/** The names of columns in the language of the page. */
export const names = (): Record<string, string> => ({
  lift: t.lift,
  output: t.output,
  score: t.score,
  attention: t.attention,
  log_share: t.logShare,
  count: t.count,
  log_likelihood: t.logLikelihood,
});
