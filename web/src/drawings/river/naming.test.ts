import { expect, test } from "vitest";
import type { Box, RiverNode } from "./layout";
import { label } from "./naming";

const box = (kind: RiverNode["kind"], more: Partial<RiverNode> = {}): Box => {
  const blank = { value: 0, name: null, layer: null, position: null, token: null, id: null, count: null, of: null };
  const node: RiverNode = { key: kind, kind, ...blank, ways: [], by: null, ...more };
  return { key: kind, node, nodes: [node], value: 0, column: 1, x: 0, y: 0, height: 0, space: 0, opens: false, open: false };
};

test("what tells places apart is never cut", () => {
  const feeds = [1, 2, 3].map((position) => box("feed-forward", { layer: 0, position }));
  expect(feeds.map((each) => label(each, 4, 6))).toEqual(["FF@1", "FF@2", "FF@3"]);
  expect(label(box("feed-forward", { layer: 0, position: 4 }), 4, 6)).toBe("FF");
  expect(label(box("head", { name: "L10H11", position: 1023 }), 4, 11)).toBe("L10H11@1023");
  expect(label(box("stream", { token: " remainder", position: 700 }), 4, 9)).toBe("·rem…@700");
  expect(label(box("embedding", { token: "🙂🙂🙂🙂🙂", position: 7 }), 4, 5)).toBe("🙂🙂…@7");
});

test("remainders of one column are counted together", () => {
  const one = box("remainder", { count: 1_200 });
  expect(label({ ...one, nodes: [one.node, { ...one.node, count: 34 }] }, 4, 13)).toBe("1,234 smaller");
});
