/** An answer that grows: some snapshots at a time, so that others have their turn and there is soon something to see. */
import { asks, type Asked } from "../../lib/asked.svelte";

const AT_ONCE = 2;

export class Growing<T extends { left: number }, Q extends { snapshots: number }> {
  asked: Asked<T>;
  value = $state.raw<T | null>(null);

  /** To be made while a component is; `make` reads what the question depends on. */
  constructor(ask: (query: Omit<Q, "snapshots"> & { fresh: number }, signal: AbortSignal) => Promise<T>, make: () => Q | null) {
    let before = "";
    this.asked = asks(() => {
      const query = make();
      if (!query) {
        this.value = null;
        return null;
      }
      const key = JSON.stringify({ ...query, snapshots: null });
      if (key !== before) this.value = null;
      before = key;
      return async (signal) => {
        for (;;) {
          const { snapshots: _, ...asked } = query;
          const found = await ask({ ...asked, fresh: AT_ONCE }, signal);
          if (signal.aborted) return found;
          this.value = found;
          if (!found.left) return found;
        }
      };
    });
  }
}
