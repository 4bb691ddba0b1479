/** A list that comes page by page as somebody scrolls; all of its pages are answers to one question. */

import { failed, type Failure } from "../../lib/ask";
import type { Asked } from "../../lib/asked.svelte";
import { poses } from "../posed.svelte";

interface Page {
  total: number;
  rows: unknown[];
}
interface First<Q, P> {
  query: Q;
  told: P;
}

export class Pages<Q extends object, P extends Page> {
  asked: Asked<First<Q, P>>;
  /** Why the page after these did not come. */
  failure = $state.raw<Failure | null>(null);
  /** What came after the first page, and after which one. */
  #after = $state.raw<{ of: First<Q, P> | null; rows: P["rows"] }>({ of: null, rows: [] });
  #coming: First<Q, P> | null = null;
  #ask: (query: Q & { offset?: number }, signal?: AbortSignal) => Promise<P>;

  /** To be made while a component is; `make` reads what is asked. */
  constructor(ask: (query: Q & { offset?: number }, signal?: AbortSignal) => Promise<P>, make: () => Q | null, pause = 0) {
    this.#ask = ask;
    this.asked = poses(async (query: Q, signal) => ({ query, told: await ask(query, signal) }), make, pause);
  }

  /** The first page, with what it tells of the whole. */
  get told(): P | null {
    return this.asked.value?.told ?? null;
  }

  get rows(): P["rows"] {
    return this.#rowsOf(this.asked.value);
  }

  /** Ask for the next page, unless it is on its way or there is none. */
  async more(): Promise<void> {
    const first = this.asked.value;
    const rows = this.#rowsOf(first);
    if (!first || this.#coming === first || rows.length >= first.told.total) return;
    [this.#coming, this.failure] = [first, null];
    try {
      const next = await this.#ask({ ...first.query, offset: rows.length });
      // Another question may have been answered meanwhile: these rows are not for its list.
      if (this.asked.value === first && next.rows.length) this.#after = { of: first, rows: [...rows, ...next.rows] };
    } catch (reason) {
      if (this.asked.value === first) this.failure = failed(reason);
    } finally {
      if (this.#coming === first) this.#coming = null;
    }
  }

  #rowsOf(first: First<Q, P> | null): P["rows"] {
    if (!first) return [];
    return this.#after.of === first ? this.#after.rows : first.told.rows;
  }
}
