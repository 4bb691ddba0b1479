import { expect, test } from "vitest";
import { percent, signed, tiny, whole } from "./numbers";

test("numbers are those that Python prints, with a true minus sign", () => {
  expect([signed(1.2345), signed(-0.5), signed(-0.0001)]).toEqual(["+1.234", "−0.500", "+0.000"]);
  expect([tiny(9.2e-7), tiny(0), whole(4096), percent(0.123)]).toEqual(["9.2e−07", "0", "4,096", "12.3%"]);
});
