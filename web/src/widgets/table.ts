/** A table's rows: in another order, as wide as they need, as text to paste. */

import { legible } from "../lib/tokens";
import { formatted } from "../lib/python";
import type { Column, Value } from "./shapes";

export const isToken = (value: Value): value is [string | null, number] => Array.isArray(value);

/** A cell as a person reads it. */
export function shown(value: Value, column: Column): string {
  if (value === null) return "";
  if (isToken(value)) return legible(value[0], value[1]);
  return typeof value === "number" ? formatted(value, column.form ?? "+z.4g") : legible(value);
}

/** Rows in the order of a column, unknown values last; equal ones stay as they were. */
export function sorted(rows: Value[][], at: number, falling: boolean): Value[][] {
  const key = (row: Value[]) => {
    const value = row[at] ?? null;
    return isToken(value) ? (value[0] ?? `#${value[1]}`) : value;
  };
  const turn = falling ? -1 : 1;
  return rows
    .map((row, place) => ({ row, place, key: key(row) }))
    .sort((one, other) => {
      if (one.key === null || other.key === null) {
        return Number(one.key === null) - Number(other.key === null) || one.place - other.place;
      }
      const order = one.key < other.key ? -1 : one.key > other.key ? 1 : 0;
      return turn * order || one.place - other.place;
    })
    .map(({ row }) => row);
}

const MOST_LETTERS = 26;

/** How wide each column is, in letters: its name and what stands in the first rows. */
export function widths(columns: Column[], rows: Value[][], names: string[]): number[] {
  return columns.map((column, at) => {
    const cells = rows.slice(0, 200).map((row) => shown(row[at] ?? null, column).length);
    return Math.min(column.kind === "text" ? 60 : MOST_LETTERS, Math.max(names[at]!.length + 1, ...cells)) + 1;
  });
}

/** Rows to be pasted into a sheet: numbers exactly, texts exactly, and none of them a formula. */
export function pasted(columns: Column[], rows: Value[][]): string {
  const cell = (value: Value): string => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const text = isToken(value) ? (value[0] ?? `#${value[1]}`) : value;
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /["\t\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns.map((column) => column.name), ...rows.map((row) => row.map(cell))].map((row) => row.join("\t")).join("\n");
}
