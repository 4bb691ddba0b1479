import { expect, test } from "vitest";
import { cut, legible, visible } from "./tokens";

test("what would be invisible, or would turn what stands around it, can be seen", () => {
  expect(legible(" a b ")).toBe("·a b·");
  expect(legible("\u202ex\u0000\n")).toBe("⟨202E⟩x⟨0000⟩⏎");
  expect(legible("\u3164\u2800\uffa0\u{e0041}\u{110bd}\u00a0\u1680")).toBe("⟨3164⟩⟨2800⟩⟨FFA0⟩⟨E0041⟩⟨110BD⟩⟨00A0⟩⟨1680⟩");
  expect(legible("é ☃ e\u0301 🙂")).toBe("é ☃ e\u0301 🙂");
  expect(legible("</script>")).toBe("</script>");
  expect(visible("").length).toBe(0);
  expect(legible(null, 7)).toBe("#7");
});

test("a long token is cut by letters, not by halves of them", () => {
  expect(cut("abc", 3)).toBe("abc");
  expect(cut("abcd", 3)).toBe("ab…");
  expect(cut("🙂🙂🙂🙂", 3)).toBe("🙂🙂…");
  expect(cut("x".repeat(10_000), 5)).toBe("xxxx…");
  // An e with its accent, and a family, are one letter each.
  expect(cut("e\u0301e\u0301e\u0301", 2)).toBe("e\u0301…");
  expect(cut("👨‍👩‍👧x", 2)).toBe("👨‍👩‍👧x");
});
