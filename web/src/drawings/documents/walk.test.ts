import { expect, test } from "vitest";
import { BOX, places, saysOf, tall, ways, type Step } from "./walk";

const step = (letters: string[], role: Step["role"], operation: string, reads: string[]): Step => ({
  letters,
  role,
  operation,
  reads,
});
const post: Step[] = [
  step(["t0"], "stream", "in", []),
  step(["t1"], "write", "attention", ["t0"]),
  step(["t2"], "stream", "add", ["t0", "t1"]),
  step(["t3", "h"], "stream", "norm", ["t2"]),
];

test("no two boxes overlap, and all are within the drawing", () => {
  const found = places(post);
  expect(new Set(found.map((each) => each.y)).size).toBe(post.length);
  for (const place of found) expect(place.y + BOX.height).toBeLessThanOrEqual(tall(post));
  expect(found.map((each) => each.x === BOX.trunk)).toEqual([true, false, true, true]);
});

test("there is a way for each thing that a step is made of", () => {
  const found = ways(post);
  expect(found.map((each) => `${each.from} ${each.to}`)).toEqual(["t0 t1", "t0 t2", "t1 t2", "t2 t3"]);
  expect(found.map((each) => each.trunk)).toEqual([false, true, false, true]);
});

test("what a step does is said of this block's own mask and norm", () => {
  expect(saysOf("attention", { mask: "causal", norm: "layer-norm" })).toBe("attentionSays");
  expect(saysOf("attention", { mask: "full", norm: "rms-norm" })).toBe("fullAttentionSays");
  expect(saysOf("norm", { mask: "full", norm: "layer-norm" })).toBe("normSays");
  expect(saysOf("norm", { mask: "causal", norm: "rms-norm" })).toBe("rmsNormSays");
});
