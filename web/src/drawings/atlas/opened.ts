/** Rows of a list in which one may be open: what it opens to stands below it as lines of the same height. */

export interface Named {
  text: string | null;
  id: number;
}
export interface Trigram {
  head: string;
  source: Named;
  dest: Named;
  out: Named;
}
/** What a search finds: a skip-trigram with numbers by their names. */
export type FoundRow = Trigram & { [column: string]: unknown };
/** A place in a text: tokens around source and dest, null for what is left out. */
export interface Quoted {
  measured: number;
  measured_attention: number;
  source_position: number;
  dest_position: number;
  before: (Named | null)[];
  source: Named;
  between: (Named | null)[];
  dest: Named;
  after: (Named | null)[];
  text: string;
  is_whole: boolean;
}
export interface Opened<Place> {
  has_text: boolean;
  places: Place[];
}
export type Item<Row, Place> =
  | { kind: "row"; row: Row; number: number }
  | { kind: "place"; row: Row; place: Place }
  | { kind: "waiting" | "none" | "no-text"; row: Row };

export const keyOf = (row: Trigram): string => `${row.head}.${row.source.id}.${row.dest.id}.${row.out.id}`;

/** The rows, with the places of the open one after it; null where they are on their way. */
export function interleaved<Row extends Trigram, Place>(
  rows: readonly Row[],
  open: string | null,
  opened: Opened<Place> | null,
): Item<Row, Place>[] {
  const items: Item<Row, Place>[] = [];
  rows.forEach((row, number) => {
    items.push({ kind: "row", row, number });
    if (keyOf(row) !== open) return;
    if (!opened) items.push({ kind: "waiting", row });
    else if (!opened.has_text) items.push({ kind: "no-text", row });
    else if (!opened.places.length) items.push({ kind: "none", row });
    else items.push(...opened.places.map((place) => ({ kind: "place" as const, row, place })));
  });
  return items;
}
