import { expect, it } from "vitest";
import { remarksOf, type Listing } from "./remarks";

const listing: Listing = {
  beyond: [2, -3],
  sign: "both",
  limits: { triples: 1000, each: 4, k: 64 },
  sort: "lift",
  write: String,
};

it("tells of the side that was asked for, whatever tokens it was asked of", () => {
  const first = (changes: Partial<Listing>) => remarksOf({ ...listing, ...changes })[0];
  expect(first({})).toBe("Every skip-trigram of what was asked for with a lift above 2 or below -3 is listed.");
  expect(first({ sign: "raising" })).toBe("Every skip-trigram of what was asked for with a lift above 2 is listed.");
  expect(first({ sign: "lowering" })).toBe("Every skip-trigram of what was asked for with a lift below -3 is listed.");
  expect(first({ beyond: null })).toContain("the 1,000 strongest of all, the best 4");
});

it("says what another order does not change, and nothing of an atlas whose limits are not known", () => {
  expect(remarksOf(listing)).toHaveLength(2);
  expect(remarksOf({ ...listing, sort: "-lift" })).toHaveLength(2);
  expect(remarksOf({ ...listing, sort: "attention" })[2]).toContain("whatever they are sorted by");
  expect(remarksOf({ ...listing, limits: {} })).toEqual([]);
});
