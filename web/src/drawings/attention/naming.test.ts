import { expect, test } from "vitest";
import { speech } from "../../lib/words.svelte";
import { timesAsMuch } from "./naming";

test("a difference of scores is told as so many times the attention, and in words where it is beyond counting", () => {
  expect([0, 2, 10, -5].map(timesAsMuch)).toEqual(
    ["1.00", "7.39", "22026", "0.0067"].map((times) => `${times} times as much attention`),
  );
  // exp(800) is more than a number of the page can hold.
  expect([20, 800].map(timesAsMuch)).toEqual(Array(2).fill("more than a million times as much attention"));
  expect([-20, -800].map(timesAsMuch)).toEqual(Array(2).fill("less than a thousandth of its attention"));
  speech.fixed = "pt";
  expect([2, 800].map(timesAsMuch)).toEqual(["7,39 vezes a atenção", "mais de um milhão de vezes a atenção"]);
  speech.fixed = null;
});
