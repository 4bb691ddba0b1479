/** What is opened and closed by hand, as it stands in the address: KEY, KEY:way, -KEY, +KEY, with commas between. */

import type { RiverNode } from "./layout";

const WAY = /:(component|source|head|layer|order|neuron|token)$/;
const keyOf = (item: string): string => item.replace(/^-/, "").replace(WAY, "");
const listed = (open: string): string[] => open.split(",").filter(Boolean);
const without = (items: string[], key: string): string[] => items.filter((item) => item.startsWith("+") || keyOf(item) !== key);

/** Open what is closed, close what is open; of a remainder, tell more parts apart. */
export function toggled(open: string, nodes: readonly RiverNode[]): string {
  const opening = nodes.some((node) => node.by === null);
  return nodes
    .reduce((items, node) => {
      if (node.kind === "remainder") return [...items, `+${node.of}`];
      return [...without(items, node.key), opening ? node.key : `-${node.key}`];
    }, listed(open))
    .join(",");
}

/** Take a place apart in another way. */
export const split = (open: string, key: string, way: string): string =>
  [...without(listed(open), key), `${key}:${way}`].join(",");
