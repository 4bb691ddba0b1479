import { afterEach, expect, test, vi } from "vitest";
import { addressOf, ask, failed, Failure, OFFLINE } from "./ask";

afterEach(() => vi.unstubAllGlobals());
const answering = (answer: () => Promise<Response>) => vi.stubGlobal("fetch", answer);

test("a studio that cannot be reached does not answer, nor does one that goes away while it does", async () => {
  answering(() => Promise.reject(new TypeError("Failed to fetch")));
  await expect(ask("/api/shelf", {})).rejects.toMatchObject({ status: OFFLINE });
  const broken = new ReadableStream({ pull: (control) => control.error(new TypeError("network error")) });
  answering(() => Promise.resolve(new Response(broken)));
  await expect(ask("/api/shelf", {})).rejects.toMatchObject({ status: OFFLINE });
});

test("what the server refuses is told in its words, and a mistake of the page as what it is", async () => {
  const told = { given: "a", needed: "b", do: "c" };
  answering(() => Promise.resolve(new Response(JSON.stringify(told), { status: 422 })));
  await expect(ask("/api/shelf", {})).rejects.toMatchObject({ status: 422, given: "a", needed: "b", todo: "c" });
  const mistake = failed(new RangeError("too long"));
  expect(mistake.status).not.toBe(OFFLINE);
  expect(mistake.given).toContain("too long");
  const known = new Failure(409, "", "", "");
  expect(failed(known)).toBe(known);
});

test("choices that have not been made are not asked about", () => {
  expect(addressOf("/api/river", { model: "a b", token: null, text: "", position: 0 })).toBe("/api/river?model=a+b&position=0");
});

/** Never called: it is enough that it compiles, and that the lines marked so would not. */
export function asked(): void {
  const river = ask("/api/river", { model: "m", text: "t", position: null });
  void river.then((told) => told.certificate.toFixed());
  // @ts-expect-error: a river has no tokens of its own.
  void river.then((told) => told.tokens);
  // @ts-expect-error: there is no such route.
  void ask("/api/rivers", {});
  // @ts-expect-error: it answers in bytes.
  void ask("/api/attention/pattern", { model: "m", text: "t", head: "L0H0" });
  // @ts-expect-error: a position is a number.
  void ask("/api/river", { model: "m", text: "t", position: "last" });
  // @ts-expect-error: without a text there is nothing to ask.
  void ask("/api/river", { model: "m" });
}
