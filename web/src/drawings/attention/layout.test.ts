import { expect, test } from "vitest";
import { pooled } from "../../lib/heat";
import { around, cellSize, labelled, mostly, neighbour, piece, strongest } from "./layout";

test("a short text has large cells, a long one fills what there is, and labels stand only where they fit", () => {
  expect(cellSize(4, 480)).toBe(60);
  expect(cellSize(480, 480)).toBe(1);
  expect(cellSize(1000, 480)).toBeCloseTo(0.48);
  expect(labelled(4, 60)).toEqual({ every: 1, words: true });
  expect(labelled(480, 1)).toEqual({ every: 50, words: false });
});

test("a close-up stays within the text and holds the cells that it shows", () => {
  expect([around(0, 4, 10), around(5, 4, 10), around(9, 4, 10)]).toEqual([0, 3, 6]);
  const values = Float32Array.from({ length: 25 }, (_, number) => number);
  expect([...piece(values, 5, 1, 2, 2)]).toEqual([7, 8, 12, 13]);
});

test("what may not be looked at is never the strongest", () => {
  const values = new Float32Array([-3, NaN, NaN, -5, -2, NaN, 1, 2, 0]);
  expect([0, 1, 2].map((dest) => strongest(values, 3, dest))).toEqual([0, 1, 1]);
});

test("a head looks where more than half of its attention goes", () => {
  expect(mostly({ previous: 0.5, own: 0.2, first: 0.1 })).toBeNull();
  expect(mostly({ previous: 0.1, own: 0.51, first: 0.1 })).toBe("own");
  // Of two tokens, the first is the previous one as well: what is named is the larger one.
  expect(mostly({ previous: 0.6, own: 0.1, first: 0.8 })).toBe("first");
  expect(mostly({ previous: null, own: null, first: null })).toBeNull();
});

test("arrow keys end at the edges", () => {
  expect(neighbour("ArrowRight", 0, 1, 2, 4)).toEqual({ layer: 0, head: 2 });
  expect(neighbour("ArrowDown", 1, 1, 2, 4)).toBeNull();
  expect(neighbour("End", 1, 1, 2, 4)).toEqual({ layer: 1, head: 3 });
  expect(neighbour("x", 0, 0, 2, 4)).toBeNull();
});

test("a grid that is larger than its picture is shown by the largest of each field, whatever its sign", () => {
  const values = new Float32Array([0, 1, 0, 0, -2, 0, 0, 0, NaN, NaN, 3, NaN, NaN, NaN, 0, 0]);
  const small = pooled({ values, rows: 4, columns: 4, most: null }, 2, 2);
  expect([...small.values]).toEqual([-2, 0, NaN, 3]);
  expect([small.rows, small.columns, small.most]).toEqual([2, 2, 3]);
});
