import { expect, test } from "vitest";
import { asking, bytesOf, Refusal } from "./asking";
import type { Model } from "./model";

function standIn() {
  const sent: { question: number; request: Record<string, unknown> }[] = [];
  const ears: ((reply: unknown, buffers?: unknown[]) => void)[] = [];
  const model = {
    send: (content: never) => sent.push(content),
    on: (_: string, heard: never) => ears.push(heard),
    off: (_: string, heard: never) => ears.splice(ears.indexOf(heard), 1),
  } as unknown as Model;
  return { model, sent, ears, reply: (content: unknown, buffers?: unknown[]) => ears.forEach((ear) => ear(content, buffers)) };
}

test("each question gets its own reply, in whatever order they come", async () => {
  const { model, sent, reply } = standIn();
  const { ask } = asking(model);
  const [first, second] = [ask<{ at: number }>({ ask: "one" }), ask<{ at: number }>({ ask: "two" })];
  reply({ question: sent[1]!.question, answer: { at: 2 } });
  reply({ question: sent[0]!.question, answer: { at: 1 } });
  reply({ question: 1, answer: { at: 9 } });
  expect([(await first).at, (await second).at]).toEqual([1, 2]);
});

test("an error comes with its three parts", async () => {
  const { model, sent, reply } = standIn();
  const asked = asking(model).ask({ ask: "one" });
  reply({ question: sent[0]!.question, error: { given: "no", needed: "yes", do: "try" } });
  const reason = await asked.catch((error: Refusal) => error);
  expect(reason).toMatchObject({ given: "no", needed: "yes", todo: "try" });
});

test("arrays are put where they belong", async () => {
  const { model, sent, reply } = standIn();
  const asked = asking(model).ask<{ values: Uint8Array; shape: number[] }>({ ask: "one" });
  const view = new DataView(new Uint8Array([9, 1, 2, 3]).buffer, 1);
  reply({ question: sent[0]!.question, answer: { shape: [3] }, arrays: ["values"] }, [view]);
  expect([...(await asked).values]).toEqual([1, 2, 3]);
  expect(bytesOf("nothing").length).toBe(0);
});

test("a question can be taken back, and a line that is down says so", async () => {
  const { model, ears } = standIn();
  const { ask, end } = asking(model);
  const control = new AbortController();
  const asked = ask({ ask: "one" }, control.signal);
  control.abort();
  await expect(asked).rejects.toThrow("taken back");
  end();
  expect(ears).toEqual([]);
  const dead = { ...model, send: () => { throw new Error("no comm"); } } as Model; // prettier-ignore
  await expect(asking(dead).ask({ ask: "one" })).rejects.toBeInstanceOf(Refusal);
});
