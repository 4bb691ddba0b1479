import { expect, test } from "vitest";
import { csv } from "./save";

test("nothing in a file for spreadsheets is taken for a formula, whatever separates cells there", () => {
  const cell = (text: string): string => csv([[text]]).slice(0, -2);
  expect(cell("=1+1")).toBe("'=1+1");
  expect(cell("＝1")).toBe("'＝1");
  expect(cell(";=1")).toBe(";'=1");
  expect(cell("a;@b")).toBe("a;'@b");
  expect(cell("\n=1")).toBe('"\n\'=1"');
  expect(cell("\t=1")).toBe("'\t'=1");
  expect(cell('";-1')).toBe('""";\'-1"');
});

test("numbers, and texts that begin no formula, stay as they are", () => {
  expect(csv([[-1.5, " =", "a=b", "x;y", null]])).toBe("-1.5, =,a=b,x;y,\r\n");
});
