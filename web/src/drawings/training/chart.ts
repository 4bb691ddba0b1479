/** What a line chart needs to know before it is drawn: ranges, marks on axes, the points at an x, and labels that do not lie on each other. */
import { bisectCenter, bisectRight } from "d3-array";
import { scaleLinear, scaleLog } from "d3-scale";
import { fixed, signed, whole } from "../../lib/numbers";

export interface Point {
  x: number;
  y: number;
}

export interface Series {
  id: string;
  label: string;
  points: readonly Point[];
  /** Which of the style sheet's colours, from 0. */
  colour: number;
  /** One of DASHES: a line can be told by it where its colour cannot. */
  dash: number;
  width?: number;
  /** Points are few and each is worth a mark. */
  dots?: boolean;
}

/** A horizontal line to hold curves against. */
export interface Level {
  id: string;
  label: string;
  value: number;
  dash: number;
}

export const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 3", "4 2 1 2"] as const;
/** How wide a letter of the drawing is, about, where a page's text has 16 pixels. */
export const LETTER = 6.9;

export type Scale = (value: number) => number;

/** The x at which there is a point of any curve, each once and in order. */
export function places(series: readonly Series[]): number[] {
  const found = new Set<number>();
  for (const each of series) for (const point of each.points) found.add(point.x);
  return [...found].sort((a, b) => a - b);
}

export const nearest = (sorted: readonly number[], x: number): number | null =>
  sorted.length ? sorted[bisectCenter(sorted as number[], x)]! : null;

/** The place some steps further on; the ends hold it. */
export function moved(sorted: readonly number[], at: number | null, steps: number): number | null {
  if (!sorted.length) return null;
  const now = at === null ? (steps > 0 ? -1 : sorted.length) : bisectCenter(sorted as number[], at);
  return sorted[Math.min(sorted.length - 1, Math.max(0, now + steps))]!;
}

/** The last point of a curve at or before an x. */
export function pointAt(points: readonly Point[], x: number): Point | null {
  const after = bisectRight(
    points.map((point) => point.x),
    x,
  );
  return after > 0 ? points[after - 1]! : null;
}

export function range(values: readonly number[], log: boolean): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (log && value <= 0) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return log ? [1, 10] : [0, 1];
  if (low === high) return log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  return [low, high];
}

export function scaled(domain: [number, number], across: [number, number], log: boolean): Scale {
  const scale = log ? scaleLog(domain, across) : scaleLinear(domain, across);
  return (value) => scale(value);
}

/** Round numbers within a domain, for an axis. */
export function ticksIn([low, high]: [number, number], log: boolean, count: number): number[] {
  if (!log) return scaleLinear([low, high], [0, 1]).ticks(count);
  const decades = Math.log10(high / low);
  const kept = (tick: number) => {
    if (decades < 1) return true;
    const first = Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9));
    return first === 1 || (decades < 4.5 && (first === 2 || first === 5));
  };
  return scaleLog([low, high], [0, 1]).ticks(count).filter(kept);
}

/** A domain that begins and ends at round numbers; one of logarithms stays as it is. */
export function nicely(domain: [number, number], log: boolean, count: number): [number, number] {
  return log ? domain : (scaleLinear(domain, [0, 1]).nice(count).domain() as [number, number]);
}

/** Numbers on an axis, with as many digits as tell them from their neighbours. */
export function written(ticks: readonly number[], log: boolean): string[] {
  const step = Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0)) || 1;
  return ticks.map((tick) => {
    const digits = Math.max(0, Math.ceil(-Math.log10(log ? Math.abs(tick) || 1 : step) - 1e-9));
    const minus = tick < 0;
    if (digits > 4) return tick.toExponential(0).replace("-", "−");
    return digits === 0 ? (minus ? signed(tick, 0) : whole(tick)) : fixed(tick, digits);
  });
}

/** Heights for labels, as near to where they belong as lets none lie on another. */
export function apart(heights: readonly number[], gap: number, [top, bottom]: [number, number]): number[] {
  const order = heights.map((height, number) => ({ height, number })).sort((a, b) => a.height - b.height);
  const found = new Array<number>(heights.length).fill(0);
  let last = top - gap;
  for (const each of order) last = found[each.number] = Math.max(each.height, last + gap);
  let next = bottom + gap;
  for (const each of [...order].reverse()) {
    found[each.number] = Math.min(found[each.number]!, next - gap);
    next = found[each.number]!;
  }
  return found;
}

/** Where the entries of a legend stand, in as many rows as they need. */
export function legendRows(labels: readonly string[], width: number): { x: number; row: number }[] {
  let [x, row] = [0, 0];
  return labels.map((label) => {
    const long = 46 + label.length * LETTER;
    if (x > 0 && x + long > width) [x, row] = [0, row + 1];
    const place = { x, row };
    x += long;
    return place;
  });
}

/** The path of a curve; what a logarithm does not have is left out. */
export function path(points: readonly Point[], x: Scale, y: Scale, log: { x: boolean; y: boolean }): string {
  let drawn = "";
  for (const point of points) {
    if ((log.x && point.x <= 0) || (log.y && point.y <= 0)) continue;
    drawn += `${drawn ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`;
  }
  return drawn;
}
