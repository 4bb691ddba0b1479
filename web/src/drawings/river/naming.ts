/** What a river is of, and what stands beside its places in a drawing: short enough for their columns. */

import { percent, whole } from "../../lib/numbers";
import { cut, legible } from "../../lib/tokens";
import { layerOf, type Box, type RiverNode } from "./layout";
import { short, t } from "./words";

interface Token {
  text: string | null;
  id: number;
}
/** What a river says of itself, in the studio and in notebooks. */
interface About {
  token: Token;
  against: Token | null;
  centred: boolean;
  dest: Token;
  position: number;
  probability: number;
}

const quoted = (token: Token): string => (token.text === null ? legible(null, token.id) : `‘${legible(token.text)}’`);

/** logit of ‘ open’ above ‘ close’ after ‘ in’@2 */
export function titled({ token, against, centred, dest, position }: About): string {
  const above = centred ? ` ${t.minus} ${t.mean}` : against ? ` ${t.minus} ${quoted(against)}` : "";
  return `${t.logitOf} ${quoted(token)}${above} ${t.after} ${quoted(dest)}@${position}`;
}

/** What stands beside the logit. */
export const ending = ({ token, against, centred, probability }: About): { name: string; note: string } => ({
  name: legible(token.text, token.id),
  note: against ? `${t.minus} ${quoted(against)}` : centred ? t.aboveMean : `p = ${percent(probability, 2)}`,
});

function naked(node: RiverNode, count: number): string {
  switch (node.kind) {
    case "embedding":
    case "stream":
    case "source":
      return node.position === null ? t.embedding : legible(node.token, node.id ?? undefined);
    case "head":
      return node.name ?? `L${layerOf(node)}`;
    case "feed-forward":
      return t.feedShort;
    case "group":
      return node.key.endsWith("/feed-forward layers") ? t.feedShort : short(node, null);
    case "remainder":
      return t.smallerShort(whole(count));
    case "order":
      return t.orderShort(/\d+$/.exec(node.key)?.[0] ?? "");
    default:
      return short(node, null);
  }
}

const TOKENS = new Set(["embedding", "stream", "source"]);
const WRITERS = new Set(["head", "feed-forward"]);

/** A place in so many letters. What is cut is its name: where it is tells it from others of that name. */
export function label(box: Box, dest: number, letters: number): string {
  const { node } = box;
  const tells = TOKENS.has(node.kind) || (WRITERS.has(node.kind) && node.position !== dest);
  const place = tells && node.position !== null ? `@${node.position}` : "";
  const count = box.nodes.reduce((sum, each) => sum + (each.count ?? 0), 0);
  return cut(naked(node, count), Math.max(1, letters - place.length)) + place;
}
