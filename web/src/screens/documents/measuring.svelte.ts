/** What has been measured since the page was opened, one statement at a time or a whole document in a process of its own. */

import { ask, failed, Failure, follow, type Schema } from "../../lib/ask";
import type { Language } from "../../lib/words.svelte";

export type Measured = Schema["Measured"];
export interface Tally {
  asked: number;
  answered: number;
  as_recorded: number;
  refused: number;
  seconds: number;
}
interface Event {
  what?: string;
  share?: number;
  answer?: Measured;
  refused?: { id: string };
  done?: Tally;
  error?: { given: string; needed: string; do: string };
}

export class Measuring {
  found = $state.raw<Record<string, Measured>>({});
  failures = $state.raw<Record<string, Failure>>({});
  waiting = $state.raw<ReadonlySet<string>>(new Set());
  /** Of which whole document the rest tells: which statement, how far, and what came of it. */
  document = $state<string | null>(null);
  what = $state<string | null>(null);
  share = $state(0);
  tally = $state.raw<Tally | null>(null);
  failure = $state.raw<Failure | null>(null);
  stopped = $state(false);
  #running = $state.raw<AbortController | null>(null);
  #asked = new AbortController();

  get busy(): boolean {
    return this.#running !== null;
  }

  /** One statement, now. */
  async one(id: string, lang: Language, model: string | null): Promise<void> {
    const { signal } = this.#asked;
    this.waiting = new Set([...this.waiting, id]);
    this.#failed(id, null);
    try {
      this.#keep(await ask("/api/documents/claim", { id, lang, model }, signal));
    } catch (reason) {
      if (!signal.aborted) this.#failed(id, failed(reason));
    }
    this.waiting = new Set([...this.waiting].filter((each) => each !== id));
  }

  /** All of a document; each answer is shown as it comes. */
  async all(document: string, lang: Language, model: string | null): Promise<void> {
    this.stop();
    const control = new AbortController();
    this.#running = control;
    this.document = document;
    [this.what, this.share, this.tally, this.failure, this.stopped] = [null, 0, null, null, false];
    try {
      for await (const event of follow<Event>("/api/documents/measure", { document, lang, model }, control.signal, "POST"))
        this.#told(event);
    } catch (reason) {
      if (!control.signal.aborted) this.failure = failed(reason);
    }
    if (this.#running === control) this.#running = null;
  }

  /** Let go: the process behind it ends. */
  stop(): void {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.stopped = true;
  }

  /** Nobody looks any more. */
  leave(): void {
    this.stop();
    this.#asked.abort();
    this.#asked = new AbortController();
  }

  /** Numbers in another language, or of another model, are other answers. */
  forget(): void {
    this.leave();
    [this.found, this.failures, this.waiting] = [{}, {}, new Set()];
    [this.tally, this.failure, this.stopped] = [null, null, false];
  }

  #told(event: Event): void {
    if (event.what !== undefined) [this.what, this.share] = [event.what, event.share ?? 0];
    if (event.answer) this.#keep(event.answer);
    if (event.done) this.tally = event.done;
    if (event.error) this.failure = new Failure(422, event.error.given, event.error.needed, event.error.do);
  }

  #keep(answer: Measured): void {
    this.found = { ...this.found, [answer.id]: answer };
  }

  #failed(id: string, failure: Failure | null): void {
    const { [id]: _, ...rest } = this.failures;
    this.failures = failure ? { ...rest, [id]: failure } : rest;
  }
}
