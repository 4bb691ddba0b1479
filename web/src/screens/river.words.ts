/** Words of the screen River. */

import { speaks } from "../lib/words.svelte";

export const t = speaks({
  en: {
    strip: "The text: each token with all that it comes to in the logit; choose the one after which to look",
    tokensSum: "tokens",
    other: "Any other token",
    certificates: (main: string, count: string, one: boolean): string =>
      `The logit's own parts miss the model's number by ${main}; the certificate above is ${one ? "the difference of the one flow" : `the largest difference of all ${count} flows`} drawn here.`,
    empty: "Type a text above and see where the model's next word comes from.",
  },
  pt: {
    strip: "O texto: cada token com tudo o que contribui para o logit; escolha depois de qual deles olhar",
    tokensSum: "tokens",
    other: "Qualquer outro token",
    certificates: (main: string, count: string, one: boolean): string =>
      `As partes do próprio logit diferem do número do modelo em ${main}; o certificado acima é ${one ? "a diferença do único fluxo aqui desenhado" : `a maior diferença entre todos os ${count} fluxos aqui desenhados`}.`,
    empty: "Escreva um texto acima e veja de onde vem a próxima palavra do modelo.",
  },
});
