/** What the studio serves, asked once; and which model and text are chosen. */

import { address } from "./address.svelte";
import { ask, failed, type Failure, type Schema } from "./ask";

class Shelf {
  told = $state.raw<Schema["ShelfTold"] | null>(null);
  failure = $state.raw<Failure | null>(null);

  async fetch(): Promise<void> {
    this.failure = null;
    try {
      this.told = await ask("/api/shelf", {});
    } catch (reason) {
      this.failure = failed(reason);
    }
  }

  get models(): Schema["ModelTold"][] {
    return this.told?.models ?? [];
  }

  /** The chosen model; the first of the shelf unless the address says otherwise. */
  get model(): Schema["ModelTold"] | null {
    return this.models.find((each) => each.id === address.get("model")) ?? this.models[0] ?? null;
  }

  /** The chosen training, by its id; the first of the shelf unless the address says otherwise. */
  get training(): string | null {
    return address.get("training") ?? this.told?.trainings[0]?.id ?? null;
  }

  /** The chosen text; the model's first example unless the address says otherwise. */
  get text(): string {
    return address.get("text") ?? this.model?.texts[0] ?? "";
  }
}

export const shelf = new Shelf();
