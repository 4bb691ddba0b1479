import { expect, test } from "vitest";
import { bars } from "./scores";

test("bars have a common zero and stay within their room", () => {
  for (const scores of [[1, 2, 4], [-1, -4], [-3, 5], [0, 0]]) {
    const found = bars(scores, 100, 80);
    for (const score of scores) {
      const { x, width } = found.of(score);
      expect(x).toBeGreaterThanOrEqual(100);
      expect(x + width).toBeLessThanOrEqual(180 + 1e-9);
      expect(score < 0 ? x + width : x).toBeCloseTo(found.zero, 9);
    }
  }
  expect(bars([1, 4], 100, 80).of(4)).toEqual({ x: 100, width: 80 });
}); // prettier-ignore
