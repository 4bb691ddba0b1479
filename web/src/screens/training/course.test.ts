import { expect, test } from "vitest";
import { joined } from "./course.svelte";

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
