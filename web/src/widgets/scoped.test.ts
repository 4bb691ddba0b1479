import { expect, test } from "vitest";
import { inside } from "./scoped";

test("rules of the page hold inside the widget only", () => {
  expect(inside(":root", ".w")).toBe(".w");
  expect(inside("body", ".w")).toBe(".w");
  expect(inside(':root[data-theme="dark"]', ".w")).toBe('.w[data-theme="dark"]');
  expect(inside("button:hover:not(:disabled)", ".w")).toBe(".w button:hover:not(:disabled)");
  expect(inside("*", ".w")).toBe(".w *");
});
