/** Where things stand in their columns: near what they are joined to, in one order, and never on top of each other. */

export interface Slot {
  /** What it carries; its height is that times the scale. */
  size: number;
  /** Pixels that it has at least: a label needs them. */
  least: number;
  /** Pixels to the next one. */
  apart: number;
  y: number;
  height: number;
  /** To begin with, the largest stands on top. */
  order: number;
  near: { slot: Slot; weight: number }[];
}

const LOW = 380;
const HIGH = 1400;
const ROUNDS = 24;

const spaces = (column: Slot[]): number => column.reduce((sum, slot, number) => sum + (number ? slot.apart : 0), 0);
const filled = (column: Slot[], scale: number): number =>
  column.reduce((sum, slot) => sum + Math.max(slot.least, slot.size * scale), 0) + spaces(column);

/** How high a drawing has to be for everything to have room. */
export function room(columns: Slot[][]): number {
  const needed = Math.max(...columns.map((column) => column.reduce((sum, slot) => sum + slot.least, 0) + spaces(column)));
  return Math.min(Math.max(LOW, 1.45 * needed + 60), Math.max(HIGH, needed + 60));
}

/** The largest scale at which every column fits. */
function scaled(columns: Slot[][], height: number): number {
  let [low, high] = [0, height / Math.max(1e-30, ...columns.map((column) => column.reduce((sum, slot) => sum + slot.size, 0)))];
  // Not all of the height: a river has banks.
  high = Math.min(
    high,
    (0.8 * height) / Math.max(1e-30, ...columns.map((column) => Math.max(0, ...column.map((slot) => slot.size)))),
  );
  for (let round = 0; round < 40; round += 1) {
    const middle = (low + high) / 2;
    if (columns.every((column) => filled(column, middle) <= height)) low = middle;
    else high = middle;
  }
  return low;
}

/** Choose places; the first column keeps its order. The scale is returned. */
export function settle(columns: Slot[][], height: number): number {
  const scale = scaled(columns, height);
  for (const slot of columns.flat()) slot.height = Math.max(slot.least, slot.size * scale);
  // From several beginnings: which one ends with the shortest ways is not to be known before.
  const begun: ((column: Slot[], number: number) => void)[] = [
    (column) => column.sort((a, b) => b.order - a.order),
    (column, number) => byNeighbours(columns, column, number, -1),
    (column, number) => byNeighbours(columns, column, number, 1),
  ];
  let best: { cost: number; order: Slot[][]; y: number[] } | null = null;
  for (const begin of begun) {
    columns.forEach((column) => stack(column, height));
    const numbers = columns.map((_, number) => number);
    for (const number of begin === begun[2] ? numbers.reverse() : numbers) {
      if (number) begin(columns[number]!, number);
      stack(columns[number]!, height);
    }
    relax(columns, height);
    const cost = detours(columns);
    if (!best || cost < best.cost)
      best = { cost, order: columns.map((column) => [...column]), y: columns.flat().map((slot) => slot.y) };
  }
  best!.order.forEach((column, number) => columns[number]!.splice(0, column.length, ...column));
  columns.flat().forEach((slot, number) => (slot.y = best!.y[number]!));
  return scale;
}

const centre = (slot: Slot): number => slot.y + slot.height / 2;

/** How far up and down everything goes, in all. */
const detours = (columns: Slot[][]): number =>
  columns
    .flat()
    .reduce(
      (sum, slot) => sum + slot.near.reduce((more, each) => more + each.weight * Math.abs(centre(each.slot) - centre(slot)), 0),
      0,
    );

/** In the order of what they are joined to in the column before or after. */
function byNeighbours(columns: Slot[][], column: Slot[], number: number, side: -1 | 1): void {
  const beside = new Set(columns[number + side] ?? []);
  const wanted = new Map(
    column.map((slot) => {
      const some = slot.near.filter((each) => beside.has(each.slot));
      const weight = some.reduce((sum, each) => sum + each.weight, 0);
      return [slot, weight ? some.reduce((sum, each) => sum + each.weight * centre(each.slot), 0) / weight : centre(slot)];
    }),
  );
  column.sort((a, b) => wanted.get(a)! - wanted.get(b)!);
}

function relax(columns: Slot[][], height: number): void {
  for (let round = 0; round < ROUNDS; round += 1) {
    const strength = 1 - round / (2 * ROUNDS);
    const order = round % 2 ? columns : [...columns].reverse();
    for (const column of order) {
      for (const slot of column) pull(slot, strength);
      // Only while they are still finding their places.
      if (column !== columns[0] && round < ROUNDS - 6) column.sort((a, b) => centre(a) - centre(b));
      separate(column, height);
    }
  }
}

function stack(column: Slot[], height: number): void {
  const whole = column.reduce((sum, slot) => sum + slot.height, 0) + spaces(column);
  let y = Math.max(0, (height - whole) / 2);
  for (const slot of column) {
    slot.y = y;
    y += slot.height + slot.apart;
  }
}

function pull(slot: Slot, strength: number): void {
  let [sum, weight] = [0, 0];
  for (const each of slot.near) {
    sum += (each.slot.y + each.slot.height / 2) * (each.weight + 1e-12);
    weight += each.weight + 1e-12;
  }
  if (weight) slot.y += (sum / weight - slot.height / 2 - slot.y) * strength;
}

/** Push down what overlaps, then up again what has left the drawing. */
function separate(column: Slot[], height: number): void {
  let y = 0;
  for (const slot of column) {
    slot.y = Math.max(slot.y, y);
    y = slot.y + slot.height + slot.apart;
  }
  let end = height;
  for (const slot of [...column].reverse()) {
    slot.y = Math.min(slot.y, end - slot.height);
    end = slot.y - slot.apart;
  }
}
