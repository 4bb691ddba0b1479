/** A list that comes page by page as somebody scrolls. */

interface Page<Row> {
  total: number;
  rows: Row[];
}

export class Pages<P extends Page<Row>, Row> {
  rows = $state.raw<Row[]>([]);
  #first: P | null = null;
  #busy: AbortController | null = null;

  /** Another first page: what came after the old one is forgotten. */
  begin(first: P | null): void {
    if (first === this.#first) return;
    this.#busy?.abort();
    this.#busy = null;
    this.#first = first;
    this.rows = first?.rows ?? [];
  }

  /** Ask for the next page, unless it is on its way or there is none. */
  async more(ask: (offset: number, signal: AbortSignal) => Promise<P>): Promise<void> {
    if (!this.#first || this.#busy || this.rows.length >= this.#first.total) return;
    const mine = (this.#busy = new AbortController());
    try {
      const next = await ask(this.rows.length, mine.signal);
      if (!mine.signal.aborted && next.rows.length) this.rows = [...this.rows, ...next.rows];
    } catch {
      // The next scroll asks again.
    } finally {
      if (this.#busy === mine) this.#busy = null;
    }
  }
}
