/** A question that follows what it depends on: asked again when that changes, and the outdated one is called off. */

import { failed, type Failure } from "./ask";

export class Asked<T> {
  /** The last answer; it stays while the next one is on its way, and where that fails. */
  value = $state.raw<T | null>(null);
  failure = $state.raw<Failure | null>(null);
  waiting = $state(false);
  #again = $state(0);

  /** Ask once more, as after an error. */
  again(): void {
    this.#again += 1;
  }

  /** Whether the last answer is one to a question before this one. */
  get stale(): boolean {
    return this.waiting || this.failure !== null;
  }

  get turn(): number {
    return this.#again;
  }
}

/**
 * `make` reads what it depends on and returns how to ask, or null where there is nothing to ask yet.
 * To be called while a component is being made. `pause` waits for a person to finish typing.
 */
export function asks<T>(make: () => ((signal: AbortSignal) => Promise<T>) | null, pause = 0): Asked<T> {
  const asked = new Asked<T>();
  $effect(() => {
    void asked.turn;
    const question = make();
    if (!question) {
      asked.value = null;
      asked.failure = null;
      asked.waiting = false;
      return;
    }
    const control = new AbortController();
    asked.waiting = true;
    const timer = setTimeout(async () => {
      try {
        const value = await question(control.signal);
        if (control.signal.aborted) return;
        asked.value = value;
        asked.failure = null;
      } catch (reason) {
        if (control.signal.aborted) return;
        asked.failure = failed(reason);
      }
      asked.waiting = false;
    }, pause);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  });
  return asked;
}
