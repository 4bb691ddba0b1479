import { expect, test } from "vitest";
import { known, measured, next, other, strength } from "./heads";
import type { HeadTold, HeadsTold } from "./shapes";

const head = (layer: number, number: number, norm: number): HeadTold =>
  ({ head: `L${layer}H${number}`, layer, number, copying: 0.5, copying_centred: -0.25, self_match: 0, ov: { norm }, qk: { norm: 1 }, attending: null, induction: null }) as unknown as HeadTold; // prettier-ignore
const TOLD = { layers: 2, heads: 2, chance: 0, given: [], told: [head(0, 0, 4), head(0, 1, 2), head(1, 0, 1)] } as HeadsTold;

test("only what some head has can be chosen", () => {
  expect(known(TOLD)).toEqual(["copying_centred", "copying", "self_match", "ov", "qk"]);
  expect(measured(TOLD.told[0]!, "induction")).toBeNull();
});

test("scores are as they are, norms beside the largest", () => {
  expect(strength(TOLD, TOLD.told[1]!, "copying_centred")).toBe(-0.25);
  expect(strength(TOLD, TOLD.told[1]!, "ov")).toBe(0.5);
});

test("a link is told from either end", () => {
  const link = { writer: "L0H1", reader: "L1H0.K", score: 0.2, excess: 0.1 };
  expect(other(link, "L1H0")).toEqual({ name: "L0H1", reads: true, mode: "K" });
  expect(other(link, "L0H1")).toEqual({ name: "L1H0", reads: false, mode: "K" });
});

test("keys lead to heads that are there", () => {
  expect(next(TOLD, TOLD.told[0]!, 0, 1).head).toBe("L0H1");
  expect(next(TOLD, TOLD.told[1]!, 1, 0).head).toBe("L0H1");
  expect(next(TOLD, TOLD.told[0]!, 1, 0).head).toBe("L1H0");
});
