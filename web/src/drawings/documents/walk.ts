/** Where the steps of a block stand in its diagram: the stream is a trunk on the left, what reads from it and writes to it stands on the right. */

import type { Schema } from "../../lib/ask";

export interface Step {
  letters: readonly string[];
  role: "stream" | "write" | "copy";
  operation: string;
  reads: readonly string[];
}
export interface Place {
  x: number;
  y: number;
}
export interface Way {
  from: string;
  to: string;
  path: string;
  /** Along the trunk, or on a loop beside it. */
  trunk: boolean;
}

/** The word for what a step does: it depends on what heads may see, and on which norm it is. */
export function saysOf(
  operation: Schema["StepTold"]["operation"],
  block: Pick<Schema["Walked"], "mask" | "norm">,
): "inSays" | "attentionSays" | "fullAttentionSays" | "addSays" | "normSays" | "rmsNormSays" | "feed_forwardSays" {
  if (operation === "attention" && block.mask === "full") return "fullAttentionSays";
  if (operation === "norm" && block.norm === "rms-norm") return "rmsNormSays";
  return `${operation}Says`;
}

export const BOX = { width: 215, height: 54, gap: 20, trunk: 8, branch: 268 };

export function places(steps: readonly Step[]): Place[] {
  return steps.map((step, row) => ({
    x: step.role === "stream" ? BOX.trunk : BOX.branch,
    y: 8 + row * (BOX.height + BOX.gap),
  }));
}

export const tall = (steps: readonly Step[]): number => 16 + steps.length * (BOX.height + BOX.gap) - BOX.gap;

/** From every step to those that are made of it. */
export function ways(steps: readonly Step[]): Way[] {
  const where = places(steps);
  const row = (letter: string): number => steps.findIndex((step) => step.letters.includes(letter));
  return steps.flatMap((step, to) =>
    step.reads.flatMap((letter): Way[] => {
      const from = row(letter);
      if (from < 0) return [];
      const trunk = where[from]!.x === where[to]!.x;
      return [{ from: letter, to: step.letters[0]!, path: pathOf(where[from]!, where[to]!), trunk }];
    }),
  );
}

function pathOf(from: Place, to: Place): string {
  const middle = (place: Place): number => place.x + BOX.width / 2;
  if (from.x === to.x) return `M${middle(from)} ${from.y + BOX.height}V${to.y}`;
  // To the right it leaves at the side and comes in at the top; to the left it leaves at the foot and comes in at the side.
  if (from.x < to.x) return `M${from.x + BOX.width} ${from.y + BOX.height / 2}H${middle(to)}V${to.y}`;
  return `M${middle(from)} ${from.y + BOX.height}V${to.y + BOX.height / 2}H${to.x + BOX.width}`;
}
