import { expect, test } from "vitest";
import { formatted, plain } from "./python";

// What Python 3.11 prints for these.
const PRINTED: [number, string, string][] = [
  [1.23456, "+z.4g", "+1.235"],
  [-0.00001234567, "+z.4g", "-1.235e-05"],
  [0.0001234567, "+z.4g", "+0.0001235"],
  [12345.678, "+z.4g", "+1.235e+04"],
  [1234.5, "+z.4g", "+1234"],
  [12345, ".4g", "1.234e+04"],
  [12355, ".4g", "1.236e+04"],
  [0.125, ".2f", "0.12"],
  [0.375, ".2f", "0.38"],
  [2.5, ".0f", "2"],
  [9999.6, "+z.4g", "+1e+04"],
  [0, "+z.4g", "+0"],
  [-0, "+z.4g", "+0"],
  [2, "+z.4g", "+2"],
  [100, ".2g", "1e+02"],
  [0.034, ".2g", "0.034"],
  [0.5732, ".3f", "0.573"],
  [-0.0001, "+z.2f", "+0.00"],
  [-1.005, "+z.2f", "-1.00"],
  [1234567, ",", "1,234,567"],
  [0.4254, ".1%", "42.5%"],
  [5.04e-7, ".1e", "5.0e-07"],
  [-2.5e-9, ".1e", "-2.5e-09"],
  [-Infinity, "+z.3f", "-inf"],
  [NaN, ".2f", "nan"],
];

test.each(PRINTED)("%f as %s is %s", (value, spec, printed) => {
  expect(plain(value, spec)).toBe(printed);
});

test("every minus is a true one", () => {
  expect(formatted(-2.5e-9, ".1e")).toBe("−2.5e−09");
});
