import { expect, test } from "vitest";
import { asIs, fixed, percent, signed, tiny, whole } from "./numbers";

test("numbers are those that Python prints, with a true minus sign", () => {
  expect([signed(1.2345), signed(-0.5), signed(-0.0001)]).toEqual(["+1.234", "−0.500", "+0.000"]);
  expect([tiny(9.2e-7), tiny(0), whole(4096), percent(0.123)]).toEqual(["9.2e−07", "0", "4,096", "12.3%"]);
  expect([tiny(-9.2e-7), whole(-1234567)]).toEqual(["−9.2e−07", "−1,234,567"]);
  expect(tiny(null)).toBe("∞");
});

test("halves go to the even digit, as in Python", () => {
  expect([fixed(0.0625), signed(-0.0625), signed(0.1875), percent(0.00125, 2)]).toEqual(["0.062", "−0.062", "+0.188", "0.12%"]);
});

test("a number as it is keeps all its digits, however small it is", () => {
  expect([asIs(0.25), asIs(3e-4), asIs(1e-7), asIs(1.5e-7), asIs(-2)]).toEqual(["0.25", "0.0003", "1e−7", "1.5e−7", "−2"]);
});
