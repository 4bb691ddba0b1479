/** Numbers as pixels: one for each cell, coloured from the paper to blue, or to vermilion below zero. */

import { colour } from "./theme.svelte";

export interface Grid {
  values: Float32Array | Uint8Array;
  rows: number;
  columns: number;
  most: number | null;
  /** Of the share of the darkest: ½ lets small amounts be seen. */
  power?: number;
}
type Rgb = [number, number, number];

function rgb(hex: string): Rgb {
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

/** A grid that has more cells than its picture has pixels, by the largest of each field: none that stands alone is lost. */
export function pooled(grid: Grid, rows: number, columns: number): Grid {
  if (grid.rows <= rows && grid.columns <= columns) return grid;
  const [high, wide] = [Math.min(rows, grid.rows), Math.min(columns, grid.columns)];
  const values = new Float32Array(high * wide).fill(NaN);
  for (let row = 0; row < grid.rows; row += 1) {
    const start = Math.floor((row * high) / grid.rows) * wide;
    for (let column = 0; column < grid.columns; column += 1) {
      const at = start + Math.floor((column * wide) / grid.columns);
      const value = grid.values[row * grid.columns + column]!;
      // Nothing is larger than what is no number, and whatever is one replaces it.
      if (!(Math.abs(value) <= Math.abs(values[at]!)) && !Number.isNaN(value)) values[at] = value;
    }
  }
  return { ...grid, values, rows: high, columns: wide, most: grid.most ?? largest(grid.values) };
}

/** The colours of all cells, four bytes each; none where there is no number. */
function pixels(grid: Grid, paper: Rgb, raises: Rgb, lowers: Rgb): Uint8ClampedArray<ArrayBuffer> {
  const most = grid.most ?? largest(grid.values);
  const found = new Uint8ClampedArray(4 * grid.rows * grid.columns);
  for (let cell = 0; cell < grid.rows * grid.columns; cell += 1) {
    const value = grid.values[cell]!;
    if (Number.isNaN(value)) continue;
    const share = Math.min(1, Math.abs(value) / most) ** (grid.power ?? 1);
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
