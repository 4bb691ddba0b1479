/** A river as geometry: columns from the tokens to the logit, boxes in them, and bands between the boxes. Nothing here knows of the page. */

import type { Schema } from "../../lib/ask";
import { room, settle, type Slot } from "./settle";

export type RiverNode = Schema["RiverNode"];
export type RiverLink = Schema["RiverLink"];

export interface Box {
  key: string;
  /** The places that are drawn as this box: one, or all remainders of a column. */
  nodes: RiverNode[];
  node: RiverNode;
  value: number;
  column: number;
  x: number;
  y: number;
  height: number;
  /** From this bar to the next, for its label. */
  space: number;
  opens: boolean;
  open: boolean;
}
export interface Point {
  x: number;
  y: number;
}
export interface Band {
  id: string;
  link: RiverLink;
  source: string;
  target: string;
  width: number;
  /** Middle lines of its ends, and of the columns that it passes. */
  points: Point[];
}
export interface Column {
  x: number;
  kind: "tokens" | "stream" | "heads" | "feed-forward" | "other" | "logit";
  layer: number | null;
}
export interface Drawn {
  width: number;
  height: number;
  boxes: Box[];
  bands: Band[];
  columns: Column[];
}

export const BAR = 10;
export const TOP = 34;
const LEFT = 160;
const RIGHT = 172;
const NARROWEST = 154;
const LEAVES = new Set(["embedding", "position", "bias"]);

export const layerOf = (node: RiverNode): number => node.layer ?? Number(/L(\d+)/.exec(node.name ?? node.key)?.[1] ?? 0);

/** Where a place comes on the way from the tokens to the logit; what has no place of its own comes just before what it flows into. */
export function stages(nodes: readonly RiverNode[], links: readonly RiverLink[]): Map<string, number> {
  const own: Partial<Record<RiverNode["kind"], number>> = { stream: 1, head: 2, "feed-forward": 3, layer: 3.5 };
  const found = new Map<string, number>();
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const into = new Map<string, string[]>();
  for (const link of links) into.set(link.source, [...(into.get(link.source) ?? []), link.target]);
  const stage = (key: string): number => {
    const known = found.get(key);
    if (known !== undefined) return known;
    const node = byKey.get(key)!;
    const kind = own[node.kind];
    const value = LEAVES.has(node.kind)
      ? 0
      : node.kind === "logit"
        ? 1e6
        : kind !== undefined
          ? kind + 4 * layerOf(node)
          : Math.min(...(into.get(key) ?? []).map(stage)) - 0.25;
    found.set(key, value);
    return value;
  };
  nodes.forEach((node) => stage(node.key));
  return found;
}

interface Placed {
  columns: Column[];
  /** By key of a place: its column. */
  of: Map<string, number>;
}

function placed(nodes: readonly RiverNode[], links: readonly RiverLink[]): Placed {
  const found = stages(nodes, links);
  const real = nodes.filter((node) => node.kind !== "remainder");
  const order = [...new Set([0, ...real.map((node) => found.get(node.key)!)])].sort((a, b) => a - b);
  const of = new Map(real.map((node) => [node.key, order.indexOf(found.get(node.key)!)]));
  for (const node of nodes) {
    if (node.kind === "remainder") of.set(node.key, Math.max(0, (of.get(node.of ?? "logit") ?? 1) - 1));
  }
  const kinds = ["tokens", "stream", "heads", "feed-forward"] as const;
  const columns = order.map((stage): Column => {
    if (stage === 0) return { x: 0, kind: "tokens", layer: null };
    if (stage >= 1e6) return { x: 0, kind: "logit", layer: null };
    const within = (stage - 1) % 4;
    return {
      x: 0,
      kind: Number.isInteger(within) ? (kinds[within + 1] ?? "other") : "other",
      layer: Math.floor((stage - 1) / 4),
    };
  });
  return { columns, of };
}

/** All remainders of a column are one box: each flows its own way from there. */
function boxed(nodes: readonly RiverNode[], of: Map<string, number>): { boxes: Box[]; boxOf: Map<string, Box> } {
  const boxes = new Map<string, Box>();
  const boxOf = new Map<string, Box>();
  for (const node of nodes) {
    const column = of.get(node.key)!;
    const key = node.kind === "remainder" ? `…${column}` : node.key;
    const box = boxes.get(key);
    if (box) {
      box.nodes.push(node);
      box.value += node.value;
    } else {
      const opens = node.ways.length > 0 || node.kind === "remainder";
      const blank = { x: 0, y: 0, height: 0, space: 0 };
      boxes.set(key, { key, node, nodes: [node], value: node.value, column, opens, open: node.by !== null, ...blank });
    }
    boxOf.set(node.key, boxes.get(key)!);
  }
  return { boxes: [...boxes.values()], boxOf };
}

const bottom: Partial<Record<RiverNode["kind"], number>> = { position: 1e7, bias: 2e7, remainder: 3e7 };

/** Tokens stand in the order of the text, the rest below them. */
export const inText = (box: Box): number => bottom[box.node.kind] ?? box.node.position ?? 0;

export function layout(nodes: readonly RiverNode[], links: readonly RiverLink[], wanted: number): Drawn {
  const { columns, of } = placed(nodes, links);
  const width = Math.max(wanted, LEFT + RIGHT + NARROWEST * (columns.length - 1));
  const gap = columns.length > 1 ? (width - LEFT - RIGHT - BAR) / (columns.length - 1) : 0;
  columns.forEach((column, number) => (column.x = LEFT + gap * number));
  const { boxes, boxOf } = boxed(nodes, of);
  const slots: Slot[][] = columns.map(() => []);
  const slotOf = new Map<Box, Slot>();
  for (const box of boxes) {
    const slot: Slot = { size: 0, least: 19, apart: 7, y: 0, height: 0, order: box.value, near: [] };
    slotOf.set(box, slot);
    slots[box.column]!.push(slot);
  }
  const ways = links.map((link) => passage(link, boxOf, slotOf, slots));
  for (const box of boxes)
    slotOf.get(box)!.size = Math.max(...["source", "target"].map((end) => through(box, links, boxOf, end)));
  slots[0] = boxes
    .filter((box) => box.column === 0)
    .sort((a, b) => inText(a) - inText(b))
    .map((box) => slotOf.get(box)!);
  const height = room(slots);
  const scale = settle(slots, height);
  for (const box of boxes) {
    const slot = slotOf.get(box)!;
    const thick = Math.max(3, slot.size * scale);
    Object.assign(box, {
      x: columns[box.column]!.x,
      y: TOP + slot.y + (slot.height - thick) / 2,
      height: thick,
      space: gap - BAR,
    });
  }
  return { width, height: height + TOP + 12, boxes, bands: banded(ways, slotOf, columns, scale), columns };
}

const through = (box: Box, links: readonly RiverLink[], boxOf: Map<string, Box>, end: string): number =>
  links.reduce((sum, link) => sum + (boxOf.get(link[end as "source" | "target"]) === box ? Math.abs(link.value) : 0), 0);

interface Passage {
  link: RiverLink;
  from: Box;
  to: Box;
  /** Room that it has in each column that it passes. */
  past: Slot[];
}

function passage(link: RiverLink, boxOf: Map<string, Box>, slotOf: Map<Box, Slot>, slots: Slot[][]): Passage {
  const [from, to] = [boxOf.get(link.source)!, boxOf.get(link.target)!];
  const past: Slot[] = [];
  let last = slotOf.get(from)!;
  const join = (next: Slot) => {
    last.near.push({ slot: next, weight: Math.abs(link.value) });
    next.near.push({ slot: last, weight: Math.abs(link.value) });
    last = next;
  };
  for (let column = from.column + 1; column < to.column; column += 1) {
    const slot: Slot = { size: Math.abs(link.value), least: 1, apart: 3, y: 0, height: 0, order: link.value, near: [] };
    slots[column]!.push(slot);
    past.push(slot);
    join(slot);
  }
  join(slotOf.get(to)!);
  return { link, from, to, past };
}

/** Bands leave and enter a box in the order of where they come from and go to, so that they do not cross there. */
function banded(ways: Passage[], slotOf: Map<Box, Slot>, columns: Column[], scale: number): Band[] {
  const middle = (slot: Slot) => TOP + slot.y + slot.height / 2;
  const bands = ways.map((way): Band => {
    const points = [
      { x: way.from.x + BAR, y: 0 },
      ...way.past.map((slot, number) => ({ x: columns[way.from.column + 1 + number]!.x + BAR / 2, y: middle(slot) })),
      { x: way.to.x, y: 0 },
    ];
    const { source, target } = way.link;
    const width = Math.max(0.8, Math.abs(way.link.value) * scale);
    return { id: `${source}>${target}`, link: way.link, source: way.from.key, target: way.to.key, width, points };
  });
  const ends = (at: "from" | "to") => {
    const groups = new Map<Box, number[]>();
    ways.forEach((way, number) => groups.set(way[at], [...(groups.get(way[at]) ?? []), number]));
    for (const [box, numbers] of groups) {
      const other = (number: number) => {
        const way = ways[number]!;
        const slot = at === "from" ? (way.past[0] ?? slotOf.get(way.to)!) : (way.past.at(-1) ?? slotOf.get(way.from)!);
        return middle(slot);
      };
      numbers.sort((a, b) => other(a) - other(b));
      let y = box.y + box.height / 2 - numbers.reduce((sum, number) => sum + bands[number]!.width, 0) / 2;
      for (const number of numbers) {
        bands[number]!.points.at(at === "from" ? 0 : -1)!.y = y + bands[number]!.width / 2;
        y += bands[number]!.width;
      }
    }
  };
  ends("from");
  ends("to");
  return bands.sort((a, b) => b.width - a.width);
}

/** A band's outline: both banks, with level tangents wherever it passes a column. */
export function outline(points: readonly Point[], width: number): string {
  const half = width / 2;
  const bank = (some: readonly Point[], off: number): string =>
    some
      .slice(1)
      .map((to, number) => {
        const from = some[number]!;
        const middle = ((from.x + to.x) / 2).toFixed(1);
        return `C${middle} ${(from.y + off).toFixed(2)} ${middle} ${(to.y + off).toFixed(2)} ${to.x.toFixed(1)} ${(to.y + off).toFixed(2)}`;
      })
      .join("");
  const back = [...points].reverse();
  const [first, last] = [points[0]!, back[0]!];
  const start = `M${first.x.toFixed(1)} ${(first.y - half).toFixed(2)}`;
  return `${start}${bank(points, -half)}L${last.x.toFixed(1)} ${(last.y + half).toFixed(2)}${bank(back, half)}Z`;
}

/** All boxes and bands upstream and downstream of a box or a band. */
export function course(bands: readonly Band[], chosen: { box: string } | { band: string }): Set<string> {
  const found = new Set<string>();
  const follow = (key: string, from: "source" | "target", to: "source" | "target"): void => {
    found.add(key);
    for (const band of bands) {
      if (band[from] !== key || found.has(band.id)) continue;
      found.add(band.id);
      follow(band[to], from, to);
    }
  };
  if ("band" in chosen) {
    const band = bands.find((each) => each.id === chosen.band);
    if (!band) return found;
    found.add(band.id);
    follow(band.source, "target", "source");
    follow(band.target, "source", "target");
  } else {
    follow(chosen.box, "target", "source");
    follow(chosen.box, "source", "target");
  }
  return found;
}
