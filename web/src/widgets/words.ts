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
    listed: (triples: string, each: string, k: string) =>
      `Listed are, of each head, raising and lowering: the ${triples} strongest of all, the best ${each} for every source and every out, and for every dest the best ${each} among the ${k} sources that it scores highest.`,
    whole: (beyond: string) => `Every skip-trigram of what was asked for with a lift ${beyond} is listed.`,
    above: (value: string) => `above ${value}`,
    below: (value: string) => `below ${value}`,
    or: " or ",
    forLift: "Rows are listed for their lift, whatever they are sorted by.",
    waiting: "Working …",
    silent: "The kernel does not answer: it is busy, or it has ended. Run the cell again to have this drawing answer.",
    failed: "That did not work",
  },
  pt: {
    copy: "Copiar",
    copied: "Copiado",
    copyHint: "Copiar estas linhas, para colar numa planilha",
    rows: (first: string, last: string, total: string) => `linhas ${first} a ${last} de ${total}`,
    allRows: (total: string) => `${total} linhas`,
    noRows: "nenhuma linha",
    more: (count: string) => `mais ${count}`,
    sortBy: (name: string) => `Ordenar por ${name}`,
    notes: "O que está na lista",
    listed: (triples: string, each: string, k: string) =>
      `Estão na lista, de cada cabeça, elevando e reduzindo: os ${triples} mais fortes de todos, os ${each} melhores para cada origem e cada saída, e para cada destino os ${each} melhores entre as ${k} origens às quais ele dá mais pontos.`,
    whole: (beyond: string) => `Todo skip-trigrama do que se pediu com lift ${beyond} está na lista.`,
    above: (value: string) => `acima de ${value}`,
    below: (value: string) => `abaixo de ${value}`,
    or: " ou ",
    forLift: "As linhas estão na lista por seu lift, qualquer que seja a ordem.",
    waiting: "Calculando …",
    silent: "O kernel não responde: está ocupado, ou foi encerrado. Execute a célula de novo para que este desenho responda.",
    failed: "Isso não funcionou",
  },
});

/** Columns of tables, by the names that they have in files and in Python. */
export const columnWords = speaks({
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
    chances: "chances",
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
    source: "origem",
    dest: "destino",
    out: "saída",
    token: "token",
    place: "lugar",
    score: "escore",
    output: "escreve",
    attention: "atenção",
    lift: "lift",
    chances: "ocasiões",
    occurs: "ocorre",
    fires: "dispara",
    expected: "esperado",
    measured: "medido",
    measured_attention: "atenção medida",
    nats: "nats",
    value: "valor",
    share: "parcela",
    text: "texto",
  },
});

/** A column's name in the reader's language; one that we do not know as it is. */
export const columnName = (name: string): string => (columnWords as Record<string, string>)[name] ?? name;
