import { expect, test } from "vitest";
import { columns, shownLayers, WIDTHS } from "./overview";

test("columns stand side by side and none over another, however many blocks there are", () => {
  for (const count of [0, 1, 2, 3, 30]) {
    const layers = shownLayers(count);
    const found = columns(layers);
    const all = [found.tokens, found.embedding, ...found.blocks, found.logits];
    const widths = [WIDTHS.tokens, WIDTHS.embedding, ...found.blocks.map(() => WIDTHS.block), WIDTHS.logits];
    all.slice(1).forEach((x, at) => expect(x).toBeGreaterThan(all[at]! + widths[at]!));
    expect(found.logits + WIDTHS.logits).toBeLessThan(found.width);
  }
  expect(shownLayers(30)).toEqual([0, 1, 29]);
});
