import { expect, test } from "vitest";
import { course, inText, layout, outline, TOP, type Drawn, type RiverLink, type RiverNode } from "./layout";
import { midway } from "./motion";
import { rows } from "./tree";

const node = (key: string, kind: RiverNode["kind"], more: Partial<RiverNode> = {}): RiverNode => ({
  ...{ key, kind, value: 0, name: null, layer: null, position: null, token: null, id: null, count: null, of: null },
  ...{ ways: [], by: null },
  ...more,
});
const link = (source: string, target: string, value: number): RiverLink => ({
  ...{ source, target, value, share: 0, attention: null, names: [] },
});

/** A river as the server answers it: random inflows that add up to what flows out, signs and all. */
function made(tokens: number, heads: number, seed: number): { nodes: RiverNode[]; links: RiverLink[] } {
  let state = seed;
  const random = () => ((state = (state * 1103515245 + 12345) % 2147483648) / 2147483648) * 2 - 1;
  const nodes = [node("logit", "logit", { by: "component", ways: ["component"] })];
  const links: RiverLink[] = [];
  for (let at = 0; at < tokens; at += 1)
    nodes.push(node(`token@${at}`, "embedding", { position: at, token: `t${at}`, id: at }));
  const split = (target: string, value: number, sources: string[]) => {
    const values = sources.map(() => random());
    values[0]! += value - values.reduce((sum, each) => sum + each, 0);
    sources.forEach((source, number) => links.push(link(source, target, values[number]!)));
  };
  const all = (kind: string) => nodes.filter((each) => each.key.startsWith(kind)).map((each) => each.key);
  const last = tokens - 1;
  for (let head = 0; head < heads; head += 1) {
    nodes.push(node(`L0H${head}@${last}`, "head", { name: `L0H${head}`, position: last, by: "source", ways: ["source"] }));
    nodes.push(node(`L1H${head}@${last}`, "head", { name: `L1H${head}`, position: last, by: "source", ways: ["source"] }));
  }
  nodes.push(node(`L1@${last}`, "stream", { layer: 1, position: last, by: "component", ways: ["component"] }));
  nodes.push(node("logit…", "remainder", { of: "logit", count: 3 }), node("biases", "bias"));
  split("logit", 3, [...all("L1H"), ...all("L0H"), `token@${last}`, "logit…", "biases"]);
  const flow = (key: string) => links.reduce((sum, each) => sum + (each.source === key ? each.value : 0), 0);
  all("L1H").forEach((head) => split(head, flow(head), [`L1@${last}`, "biases"]));
  split(`L1@${last}`, flow(`L1@${last}`), [...all("L0H"), `token@${last}`]);
  all("L0H").forEach((head) => split(head, flow(head), all("token@").slice(-8)));
  nodes.forEach((each) => (each.value = each.key === "logit" ? 3 : flow(each.key)));
  const used = new Set(links.flatMap((each) => [each.source, each.target]));
  return { nodes: nodes.filter((each) => used.has(each.key)), links };
}
const near = (a: number, b: number) => expect(Math.abs(a - b)).toBeLessThan(1e-9);
const samples = [made(2, 1, 1), made(5, 4, 2), made(5, 12, 3), made(1024, 8, 4)];

test.each(samples)("what is drawn into a box is what is drawn out of it, in signed sum", ({ nodes, links }) => {
  const drawn = layout(nodes, links, 1200);
  expect(drawn.bands.length).toBe(links.length);
  for (const box of drawn.boxes) {
    const sum = (end: "source" | "target") =>
      drawn.bands.reduce((all, band) => all + (band[end] === box.key ? band.link.value : 0), 0);
    if (box.node.key !== "logit") near(sum("source"), box.value);
    if (box.open) near(sum("target"), box.value);
  }
});

test.each(samples)("no two labels of a column overlap, and everything stays inside", ({ nodes, links }) => {
  const drawn = layout(nodes, links, 1000);
  for (const box of drawn.boxes) {
    expect(box.y).toBeGreaterThanOrEqual(TOP - 9);
    expect(box.y + box.height).toBeLessThanOrEqual(drawn.height + 1e-6);
    expect(box.x + 10).toBeLessThanOrEqual(drawn.width);
    for (const other of drawn.boxes) {
      if (other === box || other.column !== box.column) continue;
      expect(Math.abs(box.y + box.height / 2 - other.y - other.height / 2)).toBeGreaterThanOrEqual(18);
      expect(box.y + box.height <= other.y + 1e-6 || other.y + other.height <= box.y + 1e-6).toBe(true);
    }
  }
});

test.each(samples)("bands keep to their boxes, have one scale, and flow from left to right", ({ nodes, links }) => {
  const drawn = layout(nodes, links, 1400);
  const byKey = new Map(drawn.boxes.map((box) => [box.key, box]));
  const scales = drawn.bands.filter((band) => band.width > 0.8).map((band) => band.width / Math.abs(band.link.value));
  expect(Math.max(...scales) / Math.min(...scales)).toBeCloseTo(1, 6);
  for (const band of drawn.bands) {
    const [from, to] = [byKey.get(band.source)!, byKey.get(band.target)!];
    expect(from.column).toBeLessThan(to.column);
    band.points.slice(1).forEach((point, number) => expect(point.x).toBeGreaterThan(band.points[number]!.x));
    for (const [box, point] of [
      [from, band.points[0]!],
      [to, band.points.at(-1)!],
    ] as const) {
      // Bands that are too thin to see are drawn a little wider than they are.
      const slack = 0.8 * drawn.bands.filter((each) => each.source === box.key || each.target === box.key).length;
      expect(point.y - band.width / 2).toBeGreaterThanOrEqual(box.y - slack);
      expect(point.y + band.width / 2).toBeLessThanOrEqual(box.y + box.height + slack);
    }
    expect(outline(band.points, band.width)).not.toMatch(/NaN|undefined/);
  }
});

test("tokens stand in the order of the text, what is no token below them", () => {
  const drawn = layout(samples[1]!.nodes, samples[1]!.links, 1200);
  const first = drawn.boxes.filter((box) => box.column === 0).sort((a, b) => a.y - b.y);
  expect(first.map(inText)).toEqual([...first.map(inText)].sort((a, b) => a - b));
  expect(first.at(-1)!.key).toBe("biases");
});

test("a bigram machine is one band", () => {
  const nodes = [
    node("logit", "logit", { value: -2, by: "component", ways: ["component"] }),
    node("token@0", "embedding", { value: -2, position: 0 }),
  ];
  const drawn = layout(nodes, [link("token@0", "logit", -2)], 900);
  expect(drawn.boxes.length).toBe(2);
  expect(drawn.bands[0]!.width).toBeGreaterThan(200);
});

test("nothing at all flows, and nothing breaks", () => {
  const nodes = [node("logit", "logit", { by: "component" }), node("token@0", "embedding", { position: 0 })];
  const drawn = layout(nodes, [link("token@0", "logit", 0)], 900);
  expect(outline(drawn.bands[0]!.points, drawn.bands[0]!.width)).not.toMatch(/NaN|Infinity/);
});

test("the course of a band is what is upstream of its source and downstream of its target", () => {
  const drawn = layout(samples[1]!.nodes, samples[1]!.links, 1200);
  const found = course(drawn.bands, { band: "L1@4>L1H0@4" });
  expect(found.has("logit")).toBe(true);
  expect(found.has("token@0")).toBe(true);
  expect(found.has("L1H1@4")).toBe(false);
  expect(course(drawn.bands, { box: "logit" }).size).toBe(drawn.boxes.length + drawn.bands.length);
  expect(course(drawn.bands, { band: "nowhere" }).size).toBe(0);
});

test("on its way from one drawing to the next everything has a place", () => {
  const from = layout(samples[0]!.nodes, samples[0]!.links, 1200);
  const to = layout(samples[2]!.nodes, samples[2]!.links, 1200);
  const half: Drawn = midway(from, to, 0.5);
  expect(half.boxes.every((box) => Number.isFinite(box.x + box.y + box.height))).toBe(true);
  expect(half.bands.every((band) => band.points.every((point) => Number.isFinite(point.x + point.y)))).toBe(true);
  expect(midway(from, to, 1)).toBe(to);
});

test("the table has every flow once, and under each part what adds up to it", () => {
  const { nodes, links } = samples[1]!;
  const all = rows(nodes, links);
  expect(all.filter((row) => row.link).length).toBe(links.length);
  for (const row of all.filter((each) => each.open)) {
    near(
      all.filter((each) => each.parent === row.id).reduce((sum, each) => sum + each.link!.value, 0),
      row.node.value,
    );
  }
});
