import { expect, test } from "vitest";
import type { Column, Value } from "./shapes";
import { pasted, shown, sorted, widths } from "./table";

const TOKEN: Column = { name: "source", kind: "token", form: null, sorts: false };
const NUMBER: Column = { name: "lift", kind: "number", form: "+z.4g", sorts: true };
const ROWS: Value[][] = [
  [["b", 1], 2],
  [[null, 7], null],
  [["a", 3], -1.5],
];

test("unknown values are last, whichever way round", () => {
  const order = (falling: boolean) => sorted(ROWS, 1, falling).map((row) => row[1]);
  expect(order(true)).toEqual([2, -1.5, null]);
  expect(order(false)).toEqual([-1.5, 2, null]);
  expect(sorted(ROWS, 0, false).map((row) => (row[0] as [string, number])[1])).toEqual([7, 3, 1]);
});

test("cells are what Python prints, and tokens are seen", () => {
  expect(shown(-1.5, NUMBER)).toBe("−1.5");
  expect(shown([" open", 5], TOKEN)).toBe("·open");
  expect(shown([null, 5], TOKEN)).toBe("#5");
  expect(shown(null, NUMBER)).toBe("");
  expect(widths([TOKEN, NUMBER], [[["x".repeat(10_000), 1], 2]], ["source", "lift"])).toEqual([27, 6]);
});

test("what is pasted is exact and no formula", () => {
  const rows: Value[][] = [[["=1+1", 1], 0.1], [['a\t"b"', 2], null]]; // prettier-ignore
  expect(pasted([TOKEN, NUMBER], rows)).toBe(`source\tlift\n'=1+1\t0.1\n"a\t""b"""\t`);
});
