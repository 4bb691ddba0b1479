/** What a list of skip-trigrams leaves out, in words: for the search and for tables in notebooks. */

import { whole } from "../../lib/numbers";
import { speaks } from "../../lib/words.svelte";

const t = speaks({
  en: {
    listed: (triples: string, each: string, k: string) =>
      `Listed are, of each head, raising and lowering: the ${triples} strongest of all, the best ${each} for every source and every out, and for every dest the best ${each} among the ${k} sources that it scores highest.`,
    whole: (beyond: string) => `Every skip-trigram of what was asked for with a lift ${beyond} is listed.`,
    above: (value: string) => `above ${value}`,
    below: (value: string) => `below ${value}`,
    or: " or ",
    forLift: "Rows are listed for their lift, whatever they are sorted by.",
  },
  pt: {
    listed: (triples: string, each: string, k: string) =>
      `Estão listados, de cada cabeça, dos que aumentam e dos que diminuem: os ${triples} mais fortes de todos, os ${each} melhores de cada fonte e de cada saída, e de cada destino os ${each} melhores entre as ${k} fontes a que ele dá maior escore.`,
    whole: (beyond: string) => `Todo skip-trigrama do que se pediu com ganho ${beyond} está listado.`,
    above: (value: string) => `acima de ${value}`,
    below: (value: string) => `abaixo de ${value}`,
    or: " ou ",
    forLift: "As linhas estão listadas pelo ganho, seja qual for a ordem.",
  },
});

export interface Listing {
  /** Every row with a lift above the first, or below the second, is listed; null where that is not known. */
  beyond: readonly [number, number] | null;
  /** Which rows were asked for: those that raise, those that lower, or both. */
  sign: string | null;
  limits: { triples?: number | null; each?: number | null; k?: number | null };
  sort: string | null;
  write: (lift: number) => string;
}

export function remarksOf({ beyond, sign, limits, sort, write }: Listing): string[] {
  const { triples, each, k } = limits;
  if (triples == null || each == null || k == null) return [];
  const sides = beyond
    ? [...(sign === "lowering" ? [] : [t.above(write(beyond[0]))]), ...(sign === "raising" ? [] : [t.below(write(beyond[1]))])]
    : [];
  return [
    ...(sides.length ? [t.whole(sides.join(t.or))] : []),
    t.listed(whole(triples), whole(each), whole(k)),
    ...(sort?.replace(/^-/, "") === "lift" ? [] : [t.forLift]),
  ];
}
