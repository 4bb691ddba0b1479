/** Words of the screen River. */

import { speaks } from "../lib/words.svelte";

export const t = speaks({
  en: {
    strip: "The text: each token with all that it comes to in the logit; choose the one after which to look",
    tokensSum: "tokens",
    other: "Any other token",
    logitOf: "logit of",
    aboveMean: "above the mean of all",
    legend:
      "Widths are sizes. Point at a part to see its whole course; click it to split it further upstream (⊕) or to close it.",
    certificates: (main: string, count: string): string =>
      `The logit's own parts miss the model's number by ${main}; the certificate above is the largest difference of all ${count} flows drawn here.`,
    empty: "Type a text above and see where the model's next word comes from.",
  },
  pt: {
    strip: "O texto: cada token com tudo o que contribui para o logit; escolha depois de qual deles olhar",
    tokensSum: "tokens",
    other: "Qualquer outro token",
    logitOf: "logit de",
    aboveMean: "acima da média de todos",
    legend:
      "As larguras são tamanhos. Aponte para uma parte para ver todo o seu curso; clique para dividi-la mais rio acima (⊕) ou fechá-la.",
    certificates: (main: string, count: string): string =>
      `As partes do próprio logit diferem do número do modelo em ${main}; o certificado acima é a maior diferença entre todos os ${count} fluxos aqui desenhados.`,
    empty: "Escreva um texto acima e veja de onde vem a próxima palavra do modelo.",
  },
});
