import { expect, test } from "vitest";
import { along, groupOf, pieceOf, rangeOf, readBy, rowsOf, shade, stacked, type Stage, type Stream } from "./facts";

const stage = (name: string, role: Stage["role"], also: string[] = []): Stage => {
  const [block, letter] = name.includes(".") ? name.split(".") : [null, name];
  return { name, also, role, letter, layer: block ? Number(block.slice(1)) : null } as unknown as Stage;
};
const stream = (norms: string, layers: number, stages: Stage[]): Stream => ({ norms, layers, stages }) as unknown as Stream;

const pre = stream("pre-norm", 1, [
  stage("embed", "stream", ["L0.t0"]),
  stage("L0.t1", "copy"),
  stage("L0.t2", "write"),
  stage("L0.t3", "stream", ["L0.h"]),
  stage("final", "copy"),
]);
const post = stream("post-norm", 1, [
  stage("embed", "stream", ["L0.t0"]),
  stage("L0.t1", "write"),
  stage("L0.t2", "stream"),
  stage("L0.t3", "stream", ["L0.h", "final"]),
]);

test("a component reads the stage that the documents number one lower", () => {
  expect(readBy(pre, pre.stages[2]!)?.name).toBe("L0.t1");
  expect(readBy(post, post.stages[1]!)?.name).toBe("embed");
  expect(readBy(post, post.stages[0]!)).toBeNull();
});

test("blocks of two streams stand at the same height", () => {
  const { y, tops, height } = rowsOf([pre, post], { row: 10, head: 5 });
  expect(groupOf(pre.stages[4]!, 1)).toBe(2);
  expect(y[0]![1]).toBe(y[1]![1]);
  expect(tops).toEqual([0, 15, 50]);
  expect(height).toBe(65);
  expect(rowsOf([stream("no-norm", 0, [stage("embed", "stream", ["final"])])], { row: 10, head: 5 }).height).toBe(15);
});

test("what comes after all blocks stands at the same height, however many blocks there are", () => {
  const deep = stream("no-norm", 2, [
    stage("embed", "stream"),
    stage("L0.t3", "stream"),
    stage("L1.t3", "stream"),
    stage("final", "copy"),
  ]);
  const { y, tops } = rowsOf([pre, deep], { row: 10, head: 5 });
  expect(y[0]!.at(-1)).toBe(y[1]!.at(-1));
  expect(y[0]!.at(-1)).toBeGreaterThan(tops[groupOf(pre.stages[4]!, 2)]!);
});

test("stages lie along the model in order, whatever their letters", () => {
  expect(post.stages.map((each) => along(post, each))).toEqual([0, 0.25, 0.4, 1]);
  expect(along(pre, pre.stages[3]!)).toBe(1);
  expect(along(pre, pre.stages[4]!)).toBe(1.25);
  const bare = stream("no-norm", 2, [
    stage("embed", "stream", ["L0.t0", "L0.t1"]),
    stage("L0.t3", "stream", ["L0.h", "L1.t0", "L1.t1"]),
  ]);
  expect(bare.stages.map((each) => along(bare, each))).toEqual([0, 1]);
});

test("stacked shares still add up, on both sides of zero", () => {
  const found = stacked([0.7, -0.2, 0.5, 0.001, -0.001, null, 0]);
  expect(found.map((each) => each.component)).toEqual([0, 1, 2, null, null]);
  expect(found.reduce((sum, each) => sum + each.value, 0)).toBeCloseTo(1, 12);
  expect(found[2]).toMatchObject({ from: 0.7, to: 1.2 });
  expect(found[4]!.to).toBeCloseTo(-0.201);
});

test("cells are shaded from the least to the most in sight, and what is no number is none", () => {
  const dark = (values: number[], measure: string, vocab = 5, others: number[] = []): number[] => {
    const maps = [new Float32Array(values), new Float32Array(others)];
    return [...shade(maps[0]!, measure, vocab, rangeOf(maps))];
  };
  const length = dark([1, 10, 100], "length");
  [0.08, 0.54, 1].forEach((value, at) => expect(length[at]).toBeCloseTo(value));
  expect(dark([1, 10], "length", 5, [100])[1]).toBeCloseTo(0.54);
  expect(dark([NaN, -0.5], "cosine_before")).toEqual([0, -0.5]);
  expect(dark([1, 8], "rank", 8)).toEqual([1, 0]);
  expect(dark([2, 4], "entropy")).toEqual([0.5, 1]);
  expect(dark([3, 3], "length")).toEqual([1, 1]);
  expect(dark([0], "length")).toEqual([0]);
});

test("a long text is looked at in pieces that hold the position", () => {
  expect(pieceOf(3, 10, 20)).toEqual({ first: 0, count: 10 });
  expect(pieceOf(37, 100, 20)).toEqual({ first: 20, count: 20 });
  expect(pieceOf(99, 105, 20)).toEqual({ first: 80, count: 20 });
  expect(pieceOf(104, 105, 20)).toEqual({ first: 85, count: 20 });
});
