/** A river as an indented list: under each part what flows into it. A part that flows into several is taken apart where most of it goes. */

import type { RiverLink, RiverNode } from "./layout";

export interface TreeRow {
  id: string;
  depth: number;
  node: RiverNode;
  /** None for the logit itself. */
  link: RiverLink | null;
  /** Whether its own parts stand below it. */
  open: boolean;
  /** Its parts stand below another row. */
  elsewhere: string | null;
  /** Of the row that it stands below. */
  parent: string | null;
}

export function rows(nodes: readonly RiverNode[], links: readonly RiverLink[]): TreeRow[] {
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const into = new Map<string, RiverLink[]>();
  const main = new Map<string, RiverLink>();
  for (const link of links) {
    into.set(link.target, [...(into.get(link.target) ?? []), link]);
    const most = main.get(link.source);
    if (!most || Math.abs(link.value) > Math.abs(most.value)) main.set(link.source, link);
  }
  const last = (link: RiverLink): number => (byKey.get(link.source)!.kind === "remainder" ? 1 : 0);
  const found: TreeRow[] = [];
  const add = (node: RiverNode, link: RiverLink | null, depth: number, parent: string | null): void => {
    const here = link === null || main.get(node.key) === link;
    const id = link ? `${link.target}<${link.source}` : node.key;
    const opened = node.by !== null;
    const elsewhere = opened && !here ? `${main.get(node.key)!.target}<${node.key}` : null;
    found.push({ id, depth, node, link, open: opened && here, elsewhere, parent });
    if (!opened || !here) return;
    const inflow = [...(into.get(node.key) ?? [])].sort((a, b) => last(a) - last(b) || Math.abs(b.value) - Math.abs(a.value));
    for (const each of inflow) add(byKey.get(each.source)!, each, depth + 1, id);
  };
  const root = byKey.get("logit");
  if (root) add(root, null, 0, null);
  return found;
}
