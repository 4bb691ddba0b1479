import { expect, it } from "vitest";
import { interleaved, keyOf } from "./opened";

const row = (id: number) => ({
  head: "L0H1",
  source: { text: "a", id },
  dest: { text: "b", id: 2 },
  out: { text: null, id: 3 },
});

it("opens one row to its places, and leaves the others", () => {
  const rows = [row(0), row(1)];
  const open = keyOf(rows[0]!);
  expect(open).toBe("L0H1.0.2.3");
  const kinds = (opened: { has_text: boolean; places: string[] } | null) =>
    interleaved(rows, open, opened).map((item) => item.kind);
  expect(kinds(null)).toEqual(["row", "waiting", "row"]);
  expect(kinds({ has_text: false, places: [] })).toEqual(["row", "no-text", "row"]);
  expect(kinds({ has_text: true, places: [] })).toEqual(["row", "none", "row"]);
  expect(kinds({ has_text: true, places: ["x", "y"] })).toEqual(["row", "place", "place", "row"]);
  expect(interleaved(rows, null, null).map((item) => item.kind)).toEqual(["row", "row"]);
});
