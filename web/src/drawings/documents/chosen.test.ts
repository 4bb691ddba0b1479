import { expect, test } from "vitest";
import type { Schema } from "../../lib/ask";
import { meant, plainText, table } from "./chosen";

const text = (text: string): Schema["Piece"] => ({ kind: "text", text, mathml: "" });
const claim = (id: string, verdict: Schema["ClaimTold"]["verdict"], statement: Schema["Piece"][]): Schema["ClaimTold"] => ({
  ...{
    id,
    line: 3,
    kind: "lemma",
    verdict,
    ledger: verdict,
    is_figure: false,
    place: [text("Lema 1")],
    statement,
    formula: null,
  },
  ...{ why: [], correction: [], answer: [], supports: [], differs: [], related: [] },
});
const claims = [
  claim("000-L1", "holds", [text("A atenção é "), { kind: "math", text: "x^2", mathml: "<math/>" }]),
  claim("000-E2", "false", [text("Outra")]),
];

test("statements are found by verdict and by words, without their accents", () => {
  expect(meant(claims, null, "").length).toBe(2);
  expect(meant(claims, "false", "").map((each) => each.id)).toEqual(["000-E2"]);
  expect(meant(claims, null, "ATENCAO x^2").map((each) => each.id)).toEqual(["000-L1"]);
  expect(meant(claims, null, "l1").map((each) => each.id)).toEqual(["000-L1"]);
  expect(meant(claims, "false", "atenção")).toEqual([]);
});

test("the table has a row for each number, and one for a statement that was not measured", () => {
  expect(plainText(claims[0]!.statement)).toBe("A atenção é $x^2$");
  const rows = table(claims, {});
  expect(rows.length).toBe(3);
  expect(new Set(rows.map((row) => row.length))).toEqual(new Set([14]));
});
