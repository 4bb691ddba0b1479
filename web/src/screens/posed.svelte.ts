/** A question by its words: asked again when they change, and not with every choice that the address takes up. */

import { asks, type Asked } from "../lib/asked.svelte";

/** To be called while a component is being made. `make` reads what is asked, or returns null where there is nothing to ask yet. */
export function poses<Q, T>(ask: (query: Q, signal: AbortSignal) => Promise<T>, make: () => Q | null, pause = 0): Asked<T> {
  // As a string: one that only opens a row or marks a stage is the same.
  const words = $derived(JSON.stringify(make()));
  return asks(() => {
    const query: Q | null = JSON.parse(words);
    return query && ((signal) => ask(query, signal));
  }, pause);
}
