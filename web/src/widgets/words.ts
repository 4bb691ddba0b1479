/** What the widgets say. */

import { speaks } from "../lib/words.svelte";

export const words = speaks({
  en: {
    copy: "Copy",
    copied: "Copied",
    copyHint: "Copy these rows, to be pasted into a sheet",
    rows: (first: string, last: string, total: string) => `rows ${first} to ${last} of ${total}`,
    allRows: (total: string) => `${total} rows`,
    noRows: "no rows",
    more: (count: string) => `${count} more`,
    sortBy: (name: string) => `Sort by ${name}`,
    notes: "What is listed",
    allHeads: "All heads",
    whyHint: "Choose a cell of the pattern: who else competes for that attention, and what in the query met what in the key.",
    waiting: "Working …",
    silent: "The kernel does not answer: it is busy, or it has ended. Run the cell again to have this drawing answer.",
    failed: "That did not work",
  },
  pt: {
    copy: "Copiar",
    copied: "Copiado",
    copyHint: "Copiar estas linhas para colar em uma planilha",
    rows: (first: string, last: string, total: string) => `linhas ${first} a ${last} de ${total}`,
    allRows: (total: string) => `${total} linhas`,
    noRows: "nenhuma linha",
    more: (count: string) => `mais ${count}`,
    sortBy: (name: string) => `Ordenar por ${name}`,
    notes: "O que está na lista",
    allHeads: "Todas as cabeças",
    whyHint: "Escolha uma célula do padrão: quem mais disputa essa atenção, e o que na query encontrou o quê na key.",
    waiting: "Calculando …",
    silent: "O kernel não responde: está ocupado, ou foi encerrado. Execute a célula de novo para que este desenho responda.",
    failed: "Isso não funcionou",
  },
});

/** Columns of tables, by the names that they have in files and in Python. */
const columnWords = speaks({
  en: {
    head: "head",
    source: "source",
    dest: "dest",
    out: "out",
    token: "token",
    place: "place",
    score: "score",
    output: "output",
    attention: "attention",
    lift: "lift",
    chances: "places",
    occurs: "occurs",
    fires: "fires",
    expected: "expected",
    measured: "measured",
    measured_attention: "measured attention",
    nats: "nats",
    value: "value",
    share: "share",
    text: "text",
  },
  pt: {
    head: "cabeça",
    source: "fonte",
    dest: "destino",
    out: "saída",
    token: "token",
    place: "lugar",
    score: "escore",
    output: "dito",
    attention: "atenção",
    lift: "ganho",
    chances: "lugares",
    occurs: "ocorre",
    fires: "dispara",
    expected: "esperado",
    measured: "medido",
    measured_attention: "atenção medida",
    nats: "nats",
    value: "valor",
    share: "fração",
    text: "texto",
  },
});

/** A column's name in the reader's language; one that we do not know as it is. */
export const columnName = (name: string): string => (columnWords as Record<string, string>)[name] ?? name;
