/** What is said around a river in a notebook. */

import { speaks } from "../lib/words.svelte";

export const riverWords = speaks({
  en: {
    logitOf: "logit of",
    aboveMean: "above the mean of all",
    by: "split by",
    reset: "As at first",
    legend:
      "Widths are sizes. Point at a part to see its whole course; click it to split it further upstream (⊕) or to close it.",
    component: "component",
    head: "head",
    layer: "layer",
    source: "source",
    token: "token",
    order: "number of heads",
    neuron: "neuron",
  },
  pt: {
    logitOf: "logit de",
    aboveMean: "acima da média de todos",
    by: "dividir por",
    reset: "Como no início",
    legend:
      "Larguras são tamanhos. Aponte para uma parte para ver todo o seu curso; clique para dividi-la mais a montante (⊕) ou fechá-la.",
    component: "componente",
    head: "cabeça",
    layer: "camada",
    source: "origem",
    token: "token",
    order: "número de cabeças",
    neuron: "neurônio",
  },
});

/** A way to take a number apart, in the reader's language. */
export const wayName = (way: string): string => (riverWords as Record<string, string>)[way] ?? way;
