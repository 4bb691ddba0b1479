/** Numbers as pixels: one for each cell, coloured from the paper to blue, or to vermilion below zero. */

import { colour } from "./theme.svelte";

export interface Grid {
  values: Float32Array | Uint8Array;
  rows: number;
  columns: number;
  scale: "signed" | "amount";
  most: number | null;
}
export type Rgb = [number, number, number];

export function rgb(hex: string): Rgb {
  const given = hex.replace("#", "");
  // A style sheet that was made small writes #fff for #ffffff.
  const digits = given.length === 3 ? [...given].map((digit) => digit + digit).join("") : given;
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16)) as Rgb;
}

export function largest(values: Float32Array | Uint8Array): number {
  let most = 0;
  for (const value of values) if (Math.abs(value) > most) most = Math.abs(value);
  return most || 1;
}

/** The colours of all cells, four bytes each. */
export function pixels(grid: Grid, paper: Rgb, raises: Rgb, lowers: Rgb): Uint8ClampedArray<ArrayBuffer> {
  const most = grid.most ?? largest(grid.values);
  const found = new Uint8ClampedArray(4 * grid.rows * grid.columns);
  for (let cell = 0; cell < grid.rows * grid.columns; cell += 1) {
    const value = grid.values[cell]!;
    const share = Math.min(1, Math.abs(value) / most);
    const end = value < 0 ? lowers : raises;
    for (let part = 0; part < 3; part += 1) found[4 * cell + part] = paper[part]! + (end[part]! - paper[part]!) * share;
    found[4 * cell + 3] = 255;
  }
  return found;
}

export function paint(canvas: HTMLCanvasElement, grid: Grid): void {
  if (canvas.width !== grid.columns) canvas.width = grid.columns;
  if (canvas.height !== grid.rows) canvas.height = grid.rows;
  const [paper, raises, lowers] = ["card", "raises", "lowers"].map((name) => rgb(colour(name, canvas))) as [Rgb, Rgb, Rgb];
  const data = new ImageData(pixels(grid, paper, raises, lowers), grid.columns, grid.rows);
  canvas.getContext("2d")?.putImageData(data, 0, 0);
}
