import { expect, test } from "vitest";
import {
  apart,
  combined,
  fromSlider,
  largestRows,
  lengthOf,
  putOut,
  readTemperature,
  softmax,
  toSlider,
  without,
} from "./softmax";

test("a softmax adds up to one, is even at β = 0 and hard at large β", () => {
  const scores = [3.2, 700, -5, 699];
  for (const beta of [0, 0.1, 1, 16, 1e4]) expect(softmax(scores, beta).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  expect(softmax(scores, 0)).toEqual([0.25, 0.25, 0.25, 0.25]);
  expect(softmax(scores, 1e4)).toEqual([0, 1, 0, 0]);
  expect(softmax([0, Math.log(3)])[1]).toBeCloseTo(0.75, 12);
});

test("vectors are added by their weights, and lengths are Euclid's", () => {
  expect(combined([0.25, 0.75], [[4, 0], [0, 4]])).toEqual([1, 3]); // prettier-ignore
  expect([lengthOf([3, 4]), apart([1, 1], [4, 5])]).toEqual([5, 5]);
});

test("weights that are put out leave the others to share", () => {
  expect(without([0.5, 0.25, 0.25], new Set([0]))).toEqual([0, 0.5, 0.5]);
  expect(without([0.5, 0.5], new Set([0, 1]))).toEqual([0, 0]);
});

test("only what is there can be put out", () => {
  expect([...putOut("1.4", 5)]).toEqual([1, 4]);
  expect([...putOut("1.4.99.x.-1", 4)]).toEqual([1]);
  expect([...putOut("1", 0), ...putOut(null, 5), ...putOut("", 5)]).toEqual([]);
});

test("of many rows the largest are shown in the order of the text, and all are somewhere", () => {
  const { shown, rest } = largestRows([0.1, 0.5, 0.05, 0.3, 0.05], 3);
  expect(shown).toEqual([1, 3]);
  expect([...shown, ...rest].sort()).toEqual([0, 1, 2, 3, 4]);
  expect(largestRows([0.5, 0.5], 3)).toEqual({ shown: [0, 1], rest: [] });
});

test("temperatures go to the slider and back", () => {
  for (const temperature of [0.01, 0.25, 0.5, 1, 4, 100]) expect(fromSlider(toSlider(temperature))).toBe(temperature);
  expect(["0.5", "x", "-3", "1e9", null].map((each) => readTemperature(each))).toEqual([0.5, 1, 1, 1, 1]);
});
