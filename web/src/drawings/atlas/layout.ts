/** Where things stand in the atlas' drawings: pure functions of numbers. */

export interface HeadPlace {
  head: string;
  layer: number;
  number: number;
}
export interface Spot {
  x: number;
  y: number;
}

/** "L12H3" as numbers. */
export function placeOf(head: string): HeadPlace {
  const found = /^L(\d+)H(\d+)$/.exec(head);
  return { head, layer: Number(found?.[1] ?? 0), number: Number(found?.[2] ?? 0) };
}

/** The side of a head's square: large where there are few, never too small to hit. */
export const cellSize = (columns: number, width: number): number =>
  Math.max(34, Math.min(104, Math.floor(width / Math.max(1, columns))));

/** How much of a colour a value gets: its share of the largest that there is. */
export const shareOf = (value: number | null, most: number): number =>
  value === null || most <= 0 ? 0 : Math.min(1, Math.abs(value) / most);

/** The largest absolute value; scores end at 1 by themselves. */
export const mostOf = (values: (number | null)[]): number => Math.max(1e-12, ...values.map((value) => Math.abs(value ?? 0)));

/** Heads of a graph of composition: layers are columns, from the left. */
export function graphPlaces(heads: HeadPlace[], width: number, height: number, margin = 34): Map<string, Spot> {
  const layers = 1 + Math.max(0, ...heads.map((each) => each.layer));
  const rows = 1 + Math.max(0, ...heads.map((each) => each.number));
  const step = (count: number, room: number) => (count > 1 ? room / (count - 1) : 0);
  return new Map(
    heads.map((each) => [
      each.head,
      {
        x: layers > 1 ? margin + each.layer * step(layers, width - 2 * margin) : width / 2,
        y: rows > 1 ? margin + each.number * step(rows, height - 2 * margin) : height / 2,
      },
    ]),
  );
}

/** A line from one head to another that leaves and arrives level. */
export function curve(from: Spot, to: Spot): string {
  const bend = (to.x - from.x) / 2;
  return `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

/** From which per cent of the largest on no more than so many values are left: a graph of more lines cannot be read. */
export function readable(values: number[], most = 80): number {
  const falling = [...values].sort((one, other) => other - one);
  const first = falling[most];
  return first === undefined ? 0 : Math.min(100, Math.floor((100 * first) / falling[0]!) + 1);
}

/** Powers of ten that lie in a range, for an axis of logarithms. */
export function decades(low: number, high: number): number[] {
  const found: number[] = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power += 1) found.push(10 ** power);
  return found;
}

/** Round ends for an axis that holds all values and zero. */
export function reach(values: number[]): number {
  const most = Math.max(1e-12, ...values.map(Math.abs));
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 7.5, 10].map((step) => step * power).find((end) => end >= most * 1.02) ?? 15 * power;
}

/** Whether a text that somebody types is one of the ways to mean several tokens, or one by its id. */
export const isPattern = (text: string): boolean => /^(#\d{1,9}$|(exact|prefix|contains|regex):)/.test(text);

/** A text as it is asked for exactly, whatever it looks like. */
export const exactly = (text: string): string => (isPattern(text) ? `exact:${text}` : text);
