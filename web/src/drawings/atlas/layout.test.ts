import { describe, expect, it } from "vitest";
import { cellSize, curve, decades, exactly, graphPlaces, isPattern, mostOf, placeOf, reach, readable, shareOf } from "./layout";

describe("heads in a drawing", () => {
  it("reads a head's name", () => {
    expect(placeOf("L12H3")).toEqual({ head: "L12H3", layer: 12, number: 3 });
  });
  it("gives every head of 12 × 12 a place of its own within the drawing, later layers further right", () => {
    const heads = Array.from({ length: 144 }, (_, n) => placeOf(`L${Math.floor(n / 12)}H${n % 12}`));
    const places = graphPlaces(heads, 900, 500);
    const spots = [...places.values()];
    expect(new Set(spots.map(({ x, y }) => `${x} ${y}`)).size).toBe(144);
    expect(spots.every(({ x, y }) => x >= 0 && x <= 900 && y >= 0 && y <= 500)).toBe(true);
    expect(places.get("L3H0")!.x).toBeGreaterThan(places.get("L2H11")!.x);
  });
  it("puts a single head in the middle", () => {
    expect(graphPlaces([placeOf("L0H0")], 100, 60).get("L0H0")).toEqual({ x: 50, y: 30 });
  });
  it("draws from the writer to the reader", () => {
    expect(curve({ x: 0, y: 1 }, { x: 10, y: 5 })).toBe("M0 1C5 1 5 5 10 5");
  });
  it("keeps squares large enough to hit", () => {
    expect(cellSize(64, 600)).toBe(34);
    expect(cellSize(2, 600)).toBe(104);
  });
});

describe("scales", () => {
  it("begins a graph of many lines with those that can be read", () => {
    const values = Array.from({ length: 400 }, (_, n) => 1 / (n + 1));
    const share = readable(values, 20);
    expect(values.filter((value) => value >= share / 100).length).toBeLessThanOrEqual(20);
    expect(readable([3, 2, 1], 80)).toBe(0);
  });
  it("takes shares of the largest", () => {
    expect(mostOf([null, -4, 2])).toBe(4);
    expect(shareOf(-2, 4)).toBe(0.5);
    expect(shareOf(null, 4)).toBe(0);
  });
  it("has powers of ten within a range only", () => {
    expect(decades(0.5, 250)).toEqual([1, 10, 100]);
  });
  it("reaches beyond the largest value, and not far", () => {
    for (const most of [0.3, 1, 7, 239.3, 874, 1e6]) {
      expect(reach([most])).toBeGreaterThan(most);
      expect(reach([-most])).toBeLessThan(most * 1.8);
    }
  });
});

describe("tokens that look like patterns", () => {
  it("are asked for exactly", () => {
    expect(exactly(" self")).toBe(" self");
    expect(exactly("#17")).toBe("exact:#17");
    expect(exactly("prefix:a")).toBe("exact:prefix:a");
    expect(isPattern("prefix:de")).toBe(true);
    expect(isPattern("# 17")).toBe(false);
  });
});
