/** Words of the screen River. */

import { speaks } from "../lib/words.svelte";

const ways: Record<"en" | "pt", Record<string, string>> = {
  en: {
    component: "component",
    head: "head",
    layer: "layer",
    source: "source",
    token: "token",
    order: "number of heads",
    neuron: "neuron",
  },
  pt: {
    component: "componente",
    head: "cabeça",
    layer: "camada",
    source: "origem",
    token: "token",
    order: "número de cabeças",
    neuron: "neurônio",
  },
};

export const t = speaks({
  en: {
    strip: "The text: each token with all that it comes to in the logit; choose the one after which to look",
    tokensSum: "tokens",
    then: "then comes",
    other: "Any other token",
    logitOf: "logit of",
    noAgainst: "No difference",
    centred: "Above the mean",
    centredHint: "How far the logit is above the mean of all tokens, which is what a softmax can see",
    aboveMean: "above the mean of all",
    by: "split by",
    way: (way: string): string => ways.en[way] ?? way,
    reset: "As at first",
    legend:
      "Widths are sizes. Point at a part to see its whole course; click it to split it further upstream (⊕) or to close it.",
    writes: "What each layer, head and feed-forward layer comes to, through everything downstream",
    writesHint: "These do not add up: what a head wrote is made of what earlier ones wrote.",
    certificates: (main: string, count: string): string =>
      `The logit's own parts miss the model's number by ${main}; the certificate above is the largest difference of all ${count} flows drawn here.`,
    empty: "Type a text above and see where the model's next word comes from.",
  },
  pt: {
    strip: "O texto: cada token com tudo o que contribui para o logit; escolha aquele depois do qual olhar",
    tokensSum: "tokens",
    then: "depois vem",
    other: "Qualquer outro token",
    logitOf: "logit de",
    noAgainst: "Sem diferença",
    centred: "Acima da média",
    centredHint: "Quanto o logit está acima da média de todos os tokens, que é o que um softmax vê",
    aboveMean: "acima da média de todos",
    by: "dividir por",
    way: (way: string): string => ways.pt[way] ?? way,
    reset: "Como no início",
    legend:
      "As larguras são tamanhos. Aponte para uma parte para ver todo o seu curso; clique para dividi-la mais a montante (⊕) ou fechá-la.",
    writes: "O que cada camada, cabeça e camada feed-forward contribui, por tudo o que vem a jusante",
    writesHint: "Estes não se somam: o que uma cabeça escreveu é feito do que as anteriores escreveram.",
    certificates: (main: string, count: string): string =>
      `As partes do próprio logit diferem do número do modelo em ${main}; o certificado acima é a maior diferença entre todos os ${count} fluxos aqui desenhados.`,
    empty: "Escreva um texto acima e veja de onde vem a próxima palavra do modelo.",
  },
});
