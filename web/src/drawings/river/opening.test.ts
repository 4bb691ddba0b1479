import { expect, test } from "vitest";
import type { RiverNode } from "./layout";
import { split, toggled } from "./opening";

const node = (key: string, more: Partial<RiverNode> = {}): RiverNode => ({
  ...{ key, kind: "head", value: 1, name: key, layer: null, position: null, token: null, id: null, count: null, of: null },
  ...{ ways: ["source"], by: null },
  ...more,
});

test("a click opens, the next one closes, and only the last word on a place stays", () => {
  const opened = toggled("", [node("L0H1@4")]);
  expect(opened).toBe("L0H1@4");
  const closed = toggled(opened, [node("L0H1@4", { by: "source" })]);
  expect(closed).toBe("-L0H1@4");
  expect(toggled(closed, [node("L0H1@4")])).toBe("L0H1@4");
  expect(toggled("L0H10@4", [node("L0H1@4")])).toBe("L0H10@4,L0H1@4");
});

test("a remainder tells more each time", () => {
  const rest = node("logit…", { kind: "remainder", of: "logit", ways: [] });
  expect(toggled(toggled("", [rest]), [rest])).toBe("+logit,+logit");
});

test("another way replaces the one before", () => {
  expect(split("logit:layer,+logit,L0H1@4", "logit", "token")).toBe("+logit,L0H1@4,logit:token");
});
