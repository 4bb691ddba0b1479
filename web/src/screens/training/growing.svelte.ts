/** An answer that grows: some snapshots at a time, so that others have their turn and there is soon something to see. */
import { ask, type Query } from "../../lib/ask";
import { asks, type Asked } from "../../lib/asked.svelte";

const AT_ONCE = 2;

/** Ask for more until nothing is left, or until asking makes it no less: a snapshot that cannot be looked at is not asked for without end. */
export async function grown<T extends { left: number }>(next: () => Promise<T>, grew: (found: T) => void): Promise<T> {
  for (let left = Infinity; ;) {
    const found = await next();
    grew(found);
    if (!found.left || found.left >= left) return found;
    left = found.left;
  }
}

export class Growing<T extends { left: number }> {
  asked: Asked<T>;
  value = $state.raw<T | null>(null);

  /** To be made while a component is; `make` reads what the question depends on. */
  constructor(route: string, make: () => Query | null) {
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
      const { snapshots: _, ...asked } = query;
      return (signal) =>
        grown(
          () => ask<T>(route, { ...asked, fresh: AT_ONCE }, signal),
          (found) => {
            if (!signal.aborted) this.value = found;
          },
        );
    });
  }
}
