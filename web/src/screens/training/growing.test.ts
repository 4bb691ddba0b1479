import { expect, test } from "vitest";
import { grown } from "./growing.svelte";

const asked = async (...lefts: number[]) => {
  const seen: number[] = [];
  await grown(
    async () => ({ left: lefts[seen.length]! }),
    (found) => seen.push(found.left),
  );
  return seen;
};

test("it is asked for until nothing is left", async () => {
  expect(await asked(4, 2, 0)).toEqual([4, 2, 0]);
  expect(await asked(0)).toEqual([0]);
});

test("what does not become less is not asked for without end", async () => {
  expect(await asked(4, 1, 1, 1)).toEqual([4, 1, 1]);
});
