/** Which statements of a document are meant, and the table that is saved of them. */

import type { Schema } from "../../lib/ask";
import type { Cell } from "../../lib/save";

type Claim = Schema["ClaimTold"];
/** What is read: a document, and which of its statements. */
export interface Read {
  told: Schema["Documents"];
  document: Schema["Documents"]["documents"][number];
  verdict: string | null;
  find: string;
  claims: Claim[];
}
type Pieces = Schema["Piece"][];

export const plainText = (pieces: Pieces): string =>
  pieces.map((piece) => (piece.kind === "math" ? `$${piece.text}$` : piece.text)).join("");

const folded = (text: string): string =>
  text
    .normalize("NFD")
    .replace(/\p{Diacritic}/gu, "")
    .toLowerCase();

/** Those of a verdict that have all the words somewhere: in the id, the place, the statement, the formula or the reasons. */
export function meant(claims: readonly Claim[], verdict: string | null, find: string): Claim[] {
  const words = folded(find).split(/\s+/).filter(Boolean);
  return claims.filter((claim) => {
    if (verdict !== null && claim.verdict !== verdict) return false;
    if (!words.length) return true;
    const told = [claim.place, claim.statement, claim.why, claim.correction, claim.answer, claim.supports].map(plainText);
    const text = folded([claim.id, claim.formula?.latex ?? "", ...told].join(" "));
    return words.every((word) => text.includes(word));
  });
}

/** A row for each number that was measured; for a statement that was not, one without. */
export function table(claims: readonly Claim[], found: Record<string, Schema["Measured"]>): Cell[][] {
  const names = ["id", "line", "kind", "recorded", "found", "as recorded", "on", "what", "role", "measured", "relation", "bound", "met", "statement"]; // prettier-ignore
  const rows = claims.flatMap((claim): Cell[][] => {
    const statement = plainText(claim.statement);
    const measured = found[claim.id];
    const begins = [claim.id, claim.line, claim.kind, claim.verdict];
    if (!measured) return [[...begins, ...Array<Cell>(9).fill(null), statement]];
    return measured.facts.map((fact) => [
      ...begins,
      ...[measured.verdict, measured.ok, measured.on, plainText(fact.label), fact.role, fact.measured],
      ...[fact.relation === "none" ? null : fact.relation, fact.bound, fact.passes, statement],
    ]);
  });
  return [names, ...rows];
}
