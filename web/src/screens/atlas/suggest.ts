/** What fields and lists of several parts of the atlas share. */

import { words as t } from "../../drawings/atlas/words";
import { ask } from "../../lib/ask";

/** Tokens of an atlas that begin so. */
export const suggestIn = (atlas: string) => async (start: string, signal: AbortSignal) =>
  (await ask("/api/atlas/suggest", { atlas, start: start.slice(0, 200) }, signal)).tokens;

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
