/** From one drawing to the next: what stays moves, what is new comes out of what it flows into. */

import { BAR, type Band, type Box, type Drawn } from "./layout";

const between = (a: number, b: number, share: number): number => a + (b - a) * share;
export const eased = (share: number): number => (share < 0.5 ? 4 * share ** 3 : 1 - (-2 * share + 2) ** 3 / 2);

/** A drawing that is a share of the way from an old one to a new one. */
export function midway(from: Drawn, to: Drawn, share: number): Drawn {
  if (share >= 1) return to;
  const boxes = new Map(from.boxes.map((box) => [box.key, box]));
  const bands = new Map(from.bands.map((band) => [band.id, band]));
  const parents = new Map(to.bands.map((band) => [band.source, band.target]));
  const nextBoxes = new Map(to.boxes.map((box) => [box.key, box]));
  const begin = (box: Box): Box => {
    const old = boxes.get(box.key);
    if (old) return old;
    const parent = parents.get(box.key) ?? "";
    const out = boxes.get(parent) ?? nextBoxes.get(parent) ?? box;
    return { ...box, x: between(box.x, out.x, 0.6), y: out.y + out.height / 2, height: 0 };
  };
  const start = new Map(to.boxes.map((box) => [box.key, begin(box)]));
  const move = (box: Box): Box => {
    const old = start.get(box.key)!;
    return {
      ...box,
      x: between(old.x, box.x, share),
      y: between(old.y, box.y, share),
      height: between(old.height, box.height, share),
    };
  };
  const flow = (band: Band): Band => {
    const old = bands.get(band.id);
    const same = old && old.points.length === band.points.length;
    const [source, target] = [start.get(band.source), start.get(band.target)];
    const from = same
      ? old.points
      : band.points.map((_, number) => {
          const along = number / (band.points.length - 1);
          const [a, b] = [source ?? target!, target ?? source!];
          return {
            x: between(a.x + BAR, b.x, along),
            y: between(a.y + a.height / 2, b.y + b.height / 2, along),
          };
        });
    const points = band.points.map((point, number) => ({
      x: between(from[number]!.x, point.x, share),
      y: between(from[number]!.y, point.y, share),
    }));
    return { ...band, points, width: between(old?.width ?? 0.5, band.width, share) };
  };
  return {
    width: to.width,
    height: between(from.height, to.height, share),
    columns: to.columns,
    boxes: to.boxes.map(move),
    bands: to.bands.map(flow),
  };
}
