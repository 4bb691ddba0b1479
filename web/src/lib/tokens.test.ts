import { expect, test } from "vitest";
import { legible, visible } from "./tokens";

test("what would be invisible, or would turn what stands around it, can be seen", () => {
  expect(legible(" a b ")).toBe("·a b·");
  expect(legible("\u202ex\u0000\n")).toBe("⟨202E⟩x⟨0000⟩⏎");
  expect(legible("</script>")).toBe("</script>");
  expect(visible("").length).toBe(0);
  expect(legible(null, 7)).toBe("#7");
});
