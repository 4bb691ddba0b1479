/** The table behind the figure: every stage of every stream in sight, with who wrote it. */

import type { Cell } from "../../lib/save";
import type { Stream } from "./facts";

const FACTS = ["length", "cosine_before", "cosine_embed", "cosine_final"] as const;

export function tableOf(streams: Stream[]): Cell[][] {
  const writers = [...new Set(streams.flatMap((stream) => stream.components.map((component) => component.name)))];
  const head = [
    "model",
    "order",
    "position",
    "stage",
    "also",
    "role",
    ...FACTS,
    "chosen",
    "chosen_id",
    "probability",
    "rank",
    "entropy",
  ];
  const rows = streams.flatMap((stream) =>
    stream.stages.map((stage): Cell[] => {
      const shares = new Map(stream.components.map((component, at) => [component.name, stage.shares?.[at] ?? null]));
      const top = stage.top[0];
      return [
        ...[stream.name, stream.norms, stream.position, stage.name, stage.also.join(" "), stage.role],
        ...FACTS.map((name) => stage[name]),
        ...[stream.chosen.text ?? "", stream.chosen.id, stage.probability, stage.rank, stage.entropy],
        ...[top?.token.text ?? "", top?.token.id, top?.probability],
        ...writers.map((name) => shares.get(name) ?? null),
      ];
    }),
  );
  return [[...head, "says", "says_id", "says_probability", ...writers.map((name) => `share ${name}`)], ...rows];
}
