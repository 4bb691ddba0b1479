import { expect, test } from "vitest";
import { speech } from "../../lib/words.svelte";
import { training } from "./words";

test("one layer is a layer, in both languages", () => {
  const said = (["en", "pt"] as const).map((language) => {
    speech.fixed = language;
    return [training.sizes("1", "8", "256", "99", "64"), training.sizes("2", "1", "256", "99", "64")];
  });
  speech.fixed = null;
  expect(said).toEqual([
    ["1 layer, 8 heads each, 256 wide, 99 tokens, context 64", "2 layers, 1 head each, 256 wide, 99 tokens, context 64"],
    [
      "1 camada, 8 cabeças em cada, largura 256, 99 tokens, contexto 64",
      "2 camadas, 1 cabeça em cada, largura 256, 99 tokens, contexto 64",
    ],
  ]);
});
