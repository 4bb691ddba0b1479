/** The table behind the figure: every stage of every stream in sight, with who wrote it. */

import type { Cell } from "../../lib/save";
import type { Stream } from "./facts";

const FACTS = ["norm", "cosine_before", "cosine_embed", "cosine_final"] as const;

export function tableOf(streams: Stream[]): Cell[][] {
  const writers = [...new Set(streams.flatMap((stream) => stream.components.map((component) => component.name)))];
  const head = ["model", "order", "position", "stage", "also", "role", ...FACTS, "chosen", "chosen_id", "p", "rank", "entropy"];
  const rows = streams.flatMap((stream) =>
    stream.stages.map((stage): Cell[] => {
      const shares = new Map(stream.components.map((component, at) => [component.name, stage.shares?.[at] ?? null]));
      const top = stage.top[0];
      return [
        ...[stream.name, stream.norm, stream.position, stage.name, stage.also.join(" "), stage.role],
        ...FACTS.map((name) => stage[name]),
        ...[stream.chosen.text ?? "", stream.chosen.id, stage.p, stage.rank, stage.entropy],
        ...[top?.token.text ?? "", top?.token.id, top?.p],
        ...writers.map((name) => shares.get(name) ?? null),
      ];
    }),
  );
  return [[...head, "says", "says_id", "says_p", ...writers.map((name) => `share ${name}`)], ...rows];
}
