import { afterEach, expect, test, vi } from "vitest";

afterEach(() => vi.unstubAllGlobals());

/** A page at an address; what it was shown last. */
async function at(address: string) {
  const { pathname, search } = new URL(address, "http://studio");
  const location = { pathname, search };
  const pushState = (_state: unknown, _title: string, place: string) =>
    Object.assign(location, new URL(place, "http://studio"));
  vi.stubGlobal("location", location);
  vi.stubGlobal("history", { pushState });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.resetModules();
  return (await import("./address.svelte")).address;
}

test("with another text, what was chosen in the one before is taken back, and how one looks stays", async () => {
  const address = await at("/documents?model=m&text=t&lang=pt&figure=combination&head=L0H1&position=3&off=1%2C2&step=2&open=x");
  address.begin({ text: "u" });
  expect(address.choices).toEqual({ model: "m", text: "u", lang: "pt", figure: "combination", head: "L0H1" });
});

test("another model has other parts", async () => {
  const address = await at("/documents?model=m&text=t&theme=dark&figure=block&layer=1&step=4&of=document");
  address.begin({ model: "n" });
  expect(address.choices).toEqual({ model: "n", text: "t", theme: "dark", figure: "block", of: "document" });
});
