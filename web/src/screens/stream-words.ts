/** The words of the stream's screen. */

import { speech } from "../lib/words.svelte";

const en = {
  follow: "Follow the token",
  followHint:
    "The exact text of one token (many begin with a space), or #id; its probability and rank are told at every stage.",
  go: "Follow",
  ownToken: "Back to the next token",
  beside: "Beside it",
  nobody: "nobody",
  same: (order: string) => `the same weights, ${order}-norm`,
  alone: "Without the other one",
  lastPosition: "Back to the last position",
  positions: "Position",
  at: (position: number) => `Position ${position}:`,
  told: "p and rank are those of",
  why: {
    asked: "as chosen",
    next: "the next token of the text",
    likeliest: "the likeliest next token",
    same: "the same token",
  },
  besideIs: "Beside it:",
  ownWord: "p and rank of",
  course: "The course",
  courseHint:
    "From the embedding down to what the unembedding reads, in the documents' letters. Attention and feed-forward read a copy (dashed) and their writes (+) join the stream; a black bar is a norm. The river is as wide as the vector is long, on a log scale. Click a stage to mark it everywhere, a token to follow it.",
  differences: "Beside each other",
  times: "other ÷ first",
  shares: "Who wrote it",
  sharesHint:
    "Shares ⟨write, x⟩/⟨x, x⟩ of every component in each stage; they add up to 1. Below zero: writes that point away from what the stream became.",
  copies: "copies too",
  wrote: "Who wrote",
  everywhere: "All positions",
  measure: "Measure",
  measures: {
    norm: "length",
    cosine_before: "cosine with the stage before",
    cosine_embed: "cosine with the embedding",
    cosine_final: "cosine with the final stream",
    p: "probability of the token",
    rank: "rank of the token",
    entropy: "entropy of what it would say",
  },
  scales: {
    norm: "Darker is longer, on a log scale from the shortest to the longest.",
    cosine_before: "Blue is +1, vermilion −1, blank 0 or no number. Click a cell to go there; arrow keys move.",
    cosine_embed: "Blue is +1, vermilion −1, blank 0. Click a cell to go there; arrow keys move.",
    cosine_final: "Blue is +1, vermilion −1, blank 0. Click a cell to go there; arrow keys move.",
    p: "Of the followed token, or at each position of the next one. Blank is 0, full blue 1.",
    rank: "Of the followed token, or at each position of the next one. Full blue is rank 1, blank the last, on a log scale.",
    entropy: "In nats: blank is 0, full blue the largest in sight.",
  },
  piece: (first: number, last: number) => `Positions ${first} to ${last}: the lens of all of them at once would take too long.`,
  curves: "Along the stream",
  dashed: (name: string, order: string) => `Dashed: ${name} · ${order}.`,
  numbers: "All numbers",
};

const pt: typeof en = {
  follow: "Acompanhar o token",
  followHint:
    "O texto exato de um token (muitos começam com espaço), ou #id; sua probabilidade e seu posto são ditos em cada estágio.",
  go: "Acompanhar",
  ownToken: "Voltar ao próximo token",
  beside: "Ao lado",
  nobody: "ninguém",
  same: (order) => `os mesmos pesos, ${order}-norm`,
  alone: "Sem o outro",
  lastPosition: "Voltar à última posição",
  positions: "Posição",
  at: (position) => `Posição ${position}:`,
  told: "p e posto são os de",
  why: {
    asked: "como escolhido",
    next: "o próximo token do texto",
    likeliest: "o próximo token mais provável",
    same: "o mesmo token",
  },
  besideIs: "Ao lado:",
  ownWord: "p e posto de",
  course: "O curso",
  courseHint:
    "Do embedding até o que o unembedding lê, com as letras dos documentos. A atenção e a feedforward leem uma cópia (tracejada) e suas escritas (+) se juntam ao fluxo; uma barra preta é uma norma. O rio é tão largo quanto o vetor é longo, em escala logarítmica. Clique num estágio para marcá-lo em toda parte, num token para acompanhá-lo.",
  differences: "Lado a lado",
  times: "outro ÷ primeiro",
  shares: "Quem o escreveu",
  sharesHint:
    "Parcelas ⟨escrita, x⟩/⟨x, x⟩ de cada componente em cada estágio; elas somam 1. Abaixo de zero: escritas que apontam para longe do que o fluxo se tornou.",
  copies: "também as cópias",
  wrote: "Quem escreveu",
  everywhere: "Todas as posições",
  measure: "Medida",
  measures: {
    norm: "comprimento",
    cosine_before: "cosseno com o estágio anterior",
    cosine_embed: "cosseno com o embedding",
    cosine_final: "cosseno com o fluxo final",
    p: "probabilidade do token",
    rank: "posto do token",
    entropy: "entropia do que diria",
  },
  scales: {
    norm: "Mais escuro é mais longo, em escala logarítmica do menor ao maior.",
    cosine_before: "Azul é +1, vermelhão −1, vazio 0 ou nenhum número. Clique numa célula para ir até lá; as setas movem.",
    cosine_embed: "Azul é +1, vermelhão −1, vazio 0. Clique numa célula para ir até lá; as setas movem.",
    cosine_final: "Azul é +1, vermelhão −1, vazio 0. Clique numa célula para ir até lá; as setas movem.",
    p: "Do token acompanhado, ou em cada posição do próximo. Vazio é 0, azul cheio 1.",
    rank: "Do token acompanhado, ou em cada posição do próximo. Azul cheio é o posto 1, vazio o último, em escala logarítmica.",
    entropy: "Em nats: vazio é 0, azul cheio a maior à vista.",
  },
  piece: (first, last) => `Posições ${first} a ${last}: a lente de todas de uma vez demoraria demais.`,
  curves: "Ao longo do fluxo",
  dashed: (name, order) => `Tracejado: ${name} · ${order}.`,
  numbers: "Todos os números",
};

/** In the language of the page. */
export const t = new Proxy(en, { get: (_, name) => (speech.language === "pt" ? pt : en)[name as keyof typeof en] });
