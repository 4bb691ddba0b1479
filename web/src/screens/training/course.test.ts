import { expect, test } from "vitest";
import type { Schema } from "../../lib/ask";
import { joined, outdates, type News } from "./course.svelte";

const curve = (...steps: number[]) => {
  const values = steps.map((step) => step / 10);
  return {
    step: steps,
    loss: values,
    held_out: values.map(() => null),
    bits_per_byte: values.map(() => null),
    gradient_norm: values,
    learning_rate: values,
    seconds: values,
    tokens_per_second: values,
  };
};

test("news is put behind what is known, and not twice", () => {
  expect(joined(curve(1, 2), curve(2, 3, 4)).step).toEqual([1, 2, 3, 4]);
  expect(joined(curve(1, 2), curve(2, 3)).loss).toEqual([0.1, 0.2, 0.3]);
  const known = curve(5);
  expect(joined(known, curve(1))).toBe(known);
  expect(joined(curve(), curve(1)).step).toEqual([1]);
});

const state = (phase: string) => ({ phase }) as Schema["StateTold"];
const known = (...kinds: string[]) =>
  ({
    state: state("running"),
    snapshots: [0, 1],
    baselines: kinds.map((kind) => ({ kind })),
  }) as Schema["TrainingTold"];
const news = (changes: Partial<News> = {}): News => ({
  state: state("running"),
  curve: curve(1, 2),
  snapshots: [0, 1],
  rewound: false,
  ended: false,
  ...changes,
});

test("a line of the log is no reason to ask for everything again, whether there is a text or not", () => {
  for (const now of [known("model_uniform"), known("uniform", "unigram", "bigram")]) {
    expect(outdates(news(), now, 2)).toBe(false);
    expect(outdates(news({ snapshots: null }), now, 2)).toBe(false);
    expect(outdates(news({ rewound: true }), now, 2)).toBe(true);
    expect(outdates(news({ ended: true }), now, 2)).toBe(true);
    expect(outdates(news({ curve: { ...curve(1), held_out: [2.5] } }), now, 2)).toBe(true);
    expect(outdates(news(), now, 10_000)).toBe(true);
  }
});

test("a text that was not there may be when there is a snapshot or another state", () => {
  for (const changes of [{ snapshots: [0, 1, 2] }, { state: state("stopped") }]) {
    expect(outdates(news(changes), known("model_uniform"), 2)).toBe(true);
    expect(outdates(news(changes), known("uniform", "bigram"), 2)).toBe(false);
  }
});
