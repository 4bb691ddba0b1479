import { expect, test } from "vitest";
import {
  apart,
  legendRows,
  moved,
  nearest,
  nicely,
  path,
  places,
  pointAt,
  range,
  scaled,
  ticksIn,
  written,
  type Series,
} from "./chart";

const series = (id: string, points: [number, number][]): Series => ({
  id,
  label: id,
  points: points.map(([x, y]) => ({ x, y })),
  colour: 0,
  dash: 0,
});

test("the readout goes from point to point of all curves and stays at the ends", () => {
  const at = places([series("a", [[1, 5], [10, 4]]), series("b", [[4, 3], [10, 2]])]); // prettier-ignore
  expect(at).toEqual([1, 4, 10]);
  expect([nearest(at, 5), nearest(at, 99), nearest([], 1)]).toEqual([4, 10, null]);
  expect([moved(at, null, 1), moved(at, null, -1), moved(at, 4, 1), moved(at, 10, 1), moved(at, 1, -10)]).toEqual([
    1, 10, 10, 10, 1,
  ]);
});

test("a curve is read at its last point so far, and not before its first", () => {
  const { points } = series("a", [[4, 3], [10, 2]]); // prettier-ignore
  expect([pointAt(points, 3), pointAt(points, 4)?.y, pointAt(points, 9)?.y, pointAt(points, 50)?.y]).toEqual([null, 3, 3, 2]);
});

test("ranges and marks, linear and logarithmic", () => {
  expect(range([3, 1, 2], false)).toEqual([1, 3]);
  expect(range([0, -1, 4, 2], true)).toEqual([2, 4]);
  expect(range([], false)).toEqual([0, 1]);
  expect(nicely([0.3, 9.7], false, 5)).toEqual([0, 10]);
  expect(ticksIn([0, 10], false, 5)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(nicely([2, 1500], true, 5)).toEqual([2, 1500]);
  // No mark lies beyond the end of the axis.
  expect(ticksIn([0, 1500], false, 8)).toEqual([0, 200, 400, 600, 800, 1000, 1200, 1400]);
  expect(ticksIn([1, 2400], true, 8)).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000]);
  expect(written([0, 1000, 2000], false)).toEqual(["0", "1,000", "2,000"]);
  expect(written([0.001, 0.01, 1, 10], true)).toEqual(["0.001", "0.01", "1", "10"]);
  expect(written([-1, -0.5, 0], false)).toEqual(["−1.0", "−0.5", "0.0"]);
});

test("labels keep their distance, stay inside, and keep their order", () => {
  const found = apart([50, 52, 10, 99], 14, [0, 100]);
  expect(found[2]).toBe(10);
  const sorted = [...found].sort((a, b) => a - b);
  sorted.slice(1).forEach((height, number) => expect(height - sorted[number]!).toBeGreaterThanOrEqual(14));
  expect(Math.max(...found)).toBeLessThanOrEqual(100);
});

test("a legend breaks into rows, and a logarithm has no place for zero", () => {
  expect(legendRows(["aaaa", "bbbb", "cccc"], 160).map((each) => each.row)).toEqual([0, 0, 1]);
  const x = scaled([1, 100], [0, 200], true);
  expect(path([{ x: 0, y: 1 }, { x: 10, y: 2 }], x, (y) => y, { x: true, y: false })).toBe("M100.0 2.0"); // prettier-ignore
});
