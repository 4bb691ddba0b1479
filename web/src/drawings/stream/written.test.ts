import { expect, test } from "vitest";
import { chance, cosine, general, mean } from "./written";

test("numbers are written as Python's tables have them", () => {
  expect([2.1649, 19, 0.381, 1234, 0.00001234, 100, 0.0039, 999.7].map((value) => general(value))).toEqual(
    ["2.16", "19", "0.381", "1.23e+03", "1.23e−05", "100", "0.0039", "1e+03"], // prettier-ignore
  );
  expect([0.2542, 0.00004, 0, null].map(chance)).toEqual(["25.4%", "4e−05", "0.0%", "–"]);
  expect([1, -0.094, -0.001].map(cosine)).toEqual(["+1.00", "−0.09", "+0.00"]);
  expect([0.0039, -0.15].map(mean)).toEqual(["+0.0039", "−0.15"]);
});
