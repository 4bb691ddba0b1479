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
  columns.forEach((column, number) => {
    if (number) column.sort((a, b) => b.order - a.order);
    for (const slot of column) slot.height = Math.max(slot.least, slot.size * scale);
    stack(column, height);
  });
  for (let round = 0; round < ROUNDS; round += 1) {
    const strength = 1 - round / (2 * ROUNDS);
    const order = round % 2 ? columns : [...columns].reverse();
    for (const column of order) {
      for (const slot of column) pull(slot, strength);
      // Only while they are still finding their places: later, orders would flicker.
      if (column !== columns[0] && round < ROUNDS - 6) column.sort((a, b) => a.y + a.height / 2 - (b.y + b.height / 2));
      separate(column, height);
    }
  }
  return scale;
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
