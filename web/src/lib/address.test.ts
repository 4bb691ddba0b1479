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

test("another atlas has other heads, and another model is not looked at through the last atlas", async () => {
  const address = await at("/atlas?model=m&lang=pt&view=search&head=L0H1&source=x&kind=Q&sort=lift");
  address.begin({ atlas: "deep" });
  expect(address.choices).toEqual({ model: "m", lang: "pt", view: "search", atlas: "deep" });
  address.begin({ model: "n" });
  expect(address.choices).toEqual({ model: "n", lang: "pt", view: "search" });
});
