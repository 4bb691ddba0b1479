import { expect, test } from "vitest";
import { lasting } from "./times";

test("times are told in the two units that matter", () => {
  expect([lasting(0.4), lasting(59.6), lasting(200), lasting(7500)]).toEqual(["0 s", "1 min 00 s", "3 min 20 s", "2 h 05 min"]);
});
