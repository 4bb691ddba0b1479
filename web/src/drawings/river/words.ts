/** What places of a river are called, in both languages. */

import { fixed, percent, signed, whole } from "../../lib/numbers";
import { legible } from "../../lib/tokens";
import { speaks } from "../../lib/words.svelte";
import { layerOf, type Box, type Column, type RiverLink, type RiverNode } from "./layout";

const ways: Record<"en" | "pt", Record<string, string>> = {
  en: {
    component: "component",
    head: "head",
    layer: "layer",
    source: "source",
    token: "token",
    order: "number of heads",
    neuron: "neuron",
  },
  pt: {
    component: "componente",
    head: "cabeça",
    layer: "camada",
    source: "fonte",
    token: "token",
    order: "número de cabeças",
    neuron: "neurônio",
  },
};

/** What the library takes together, by its own names for them. */
const groups: Record<string, string> = { biases: "bias", "feed-forward layers": "camadas feed-forward" };

export const t = speaks({
  en: {
    tokens: "tokens",
    logit: "logit",
    stream: (layer: number) => `stream into layer ${layer}`,
    heads: (layer: number) => `heads of layer ${layer}`,
    feed: (layer: number) => `feed-forward ${layer}`,
    feedName: (layer: number) => `L${layer} feed-forward`,
    feedShort: "FF",
    positions: "positions",
    biases: "biases",
    smaller: (count: string, one: boolean) => (one ? "1 smaller part" : `${count} smaller parts`),
    smallerShort: (count: string) => `${count} smaller`,
    layer: (layer: number) => `layer ${layer}`,
    order: (order: string) => `by way of heads: ${order}`,
    orderShort: (order: string) => `${order} ${order === "1" ? "head" : "heads"}`,
    group: (name: string): string => name,
    embedding: "embedding",
    streamAt: (place: string, layer: number) => `stream at ${place}, as layer ${layer} reads it`,
    headAt: (head: string, place: string) => `${head} at ${place}`,
    opens: "Enter or a click splits it further upstream",
    closes: "Enter or a click closes it again",
    more: "Enter or a click tells more of them apart",
    share: "of what flows into",
    attention: "attention",
    flowsInto: "into",
    raises: "raises",
    lowers: "lowers",
    legend:
      "Widths are sizes. Point at a part to see its whole course; click it to split it further upstream (⊕) or to close it.",
    picture:
      "The river: from the tokens on the left to the logit on the right. Arrow keys go from part to part, Enter splits one.",
    minus: "above",
    logitOf: "logit of",
    aboveMean: "above the mean of all",
    mean: "the mean of all tokens",
    after: "after",
    part: "part",
    value: "value",
    shareShort: "share",
    inAll: "in all",
    elsewhere: "taken apart where more of it flows",
    table: "The parts as a table",
    by: "split by",
    reset: "As at first",
    way: (way: string): string => ways.en[way] ?? way,
    tableHint: "Arrow keys move; → splits a part, ← closes it.",
  },
  pt: {
    tokens: "tokens",
    logit: "logit",
    stream: (layer: number) => `fluxo até a camada ${layer}`,
    heads: (layer: number) => `cabeças da camada ${layer}`,
    feed: (layer: number) => `feed-forward ${layer}`,
    feedName: (layer: number) => `L${layer} feed-forward`,
    feedShort: "FF",
    positions: "posições",
    biases: "bias",
    smaller: (count: string, one: boolean) => (one ? "1 parte menor" : `${count} partes menores`),
    smallerShort: (count: string) => `${count} ${count === "1" ? "menor" : "menores"}`,
    layer: (layer: number) => `camada ${layer}`,
    order: (order: string) => `passando por cabeças: ${order}`,
    orderShort: (order: string) => `${order} ${order === "1" ? "cabeça" : "cabeças"}`,
    group: (name: string): string => groups[name] ?? name,
    embedding: "embedding",
    streamAt: (place: string, layer: number) => `fluxo em ${place}, como a camada ${layer} o lê`,
    headAt: (head: string, place: string) => `${head} em ${place}`,
    opens: "Enter ou um clique divide mais rio acima",
    closes: "Enter ou um clique fecha de novo",
    more: "Enter ou um clique separa mais delas",
    share: "do que flui para",
    attention: "atenção",
    flowsInto: "para",
    raises: "aumenta",
    lowers: "diminui",
    legend:
      "As larguras são tamanhos. Aponte para uma parte para ver todo o seu curso; clique para dividi-la mais rio acima (⊕) ou fechá-la.",
    picture: "O rio: dos tokens à esquerda ao logit à direita. As setas vão de parte em parte, Enter divide uma.",
    minus: "acima de",
    logitOf: "logit de",
    aboveMean: "acima da média de todos",
    mean: "a média de todos os tokens",
    after: "depois de",
    part: "parte",
    value: "valor",
    shareShort: "fração",
    inAll: "ao todo",
    elsewhere: "dividida onde flui a maior parte dela",
    table: "As partes em tabela",
    by: "dividir por",
    reset: "Como no início",
    way: (way: string): string => ways.pt[way] ?? way,
    tableHint: "As setas movem; → divide uma parte, ← a fecha.",
  },
});

const placeOf = (node: RiverNode): string => `${legible(node.token, node.id ?? undefined)}@${node.position}`;

/** A place's name, as short as can be beside its column's. */
export function short(node: RiverNode, dest: number | null): string {
  switch (node.kind) {
    case "logit":
      return t.logit;
    case "embedding":
    case "stream":
    case "source":
      return node.position === null ? t.embedding : placeOf(node);
    case "head":
      return `${node.name}${node.position === null || node.position === dest ? "" : `@${node.position}`}`;
    case "feed-forward":
      return `${t.feedName(layerOf(node))}${node.position === null || node.position === dest ? "" : `@${node.position}`}`;
    case "position":
      return t.positions;
    case "bias":
      return t.biases;
    case "remainder":
      return t.smaller(whole(node.count ?? 0), node.count === 1);
    case "layer":
      return t.layer(layerOf(node));
    case "order":
      return t.order(/\d+$/.exec(node.key)?.[0] ?? "");
    case "group":
      return t.group(node.key.split("/").at(-1)!);
    default:
      return node.name ?? node.key.split("/").at(-1)!;
  }
}

/** In full, for tooltips and readers. */
export function long(node: RiverNode): string {
  if (node.kind === "stream") return t.streamAt(placeOf(node), layerOf(node));
  if (node.kind === "embedding" && node.position !== null) return `${t.embedding} ${placeOf(node)}`;
  if (node.kind === "head" && node.position !== null) return t.headAt(node.name ?? "", `@${node.position}`);
  return short(node, null);
}

export function boxName(box: Box, dest: number | null): string {
  if (box.node.kind !== "remainder") return short(box.node, dest);
  const count = box.nodes.reduce((sum, node) => sum + (node.count ?? 0), 0);
  return t.smaller(whole(count), count === 1);
}

export const boxSays = (box: Box, dest: number | null): string => {
  const name = box.node.kind === "remainder" ? boxName(box, dest) : long(box.node);
  const hint = box.node.kind === "remainder" ? t.more : box.open ? t.closes : box.opens ? t.opens : "";
  return `${name}: ${signed(box.value)}${hint ? `. ${hint}` : ""}`;
};

export function columnName(column: Column): string {
  if (column.kind === "tokens") return t.tokens;
  if (column.kind === "logit") return t.logit;
  if (column.kind === "stream") return t.stream(column.layer ?? 0);
  if (column.kind === "heads") return t.heads(column.layer ?? 0);
  return column.kind === "feed-forward" ? t.feed(column.layer ?? 0) : "";
}

export const linkDetails = (link: RiverLink, target: string): string[] => [
  `${percent(link.share)} ${t.share} ${target}`,
  ...(link.attention === null ? [] : [`${t.attention} ${fixed(link.attention)}`]),
  ...(link.names.length ? [link.names.slice(0, 4).join(", ") + (link.names.length > 4 ? " …" : "")] : []),
];
