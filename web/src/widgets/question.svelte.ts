/** One question of a drawing: under way, long under way, answered, or refused. */

import { Refusal } from "./asking";

/** Seconds after which a person is told that nobody answers. */
const LONG = 6;

export class Question {
  waiting = $state(false);
  silent = $state(false);
  refused = $state.raw<Refusal | null>(null);

  /** Ask; what comes is given to `use`. A second question waits for nobody: it is dropped while the first is under way. */
  async put<T>(asked: () => Promise<T>, use: (answer: T) => void): Promise<void> {
    if (this.waiting) return;
    this.waiting = true;
    this.refused = null;
    const timer = setTimeout(() => (this.silent = true), 1000 * LONG);
    try {
      use(await asked());
    } catch (reason) {
      this.refused = reason instanceof Refusal ? reason : new Refusal(String(reason));
    }
    clearTimeout(timer);
    this.waiting = this.silent = false;
  }
}
