/** Questions to the kernel: each has a number, and one reply or none, if the kernel is gone or busy. */

import type { Ask, Model } from "./model";

/** An error as the library tells it: what was given, what is needed, what to do. */
export class Refusal extends Error {
  constructor(
    readonly given: string,
    readonly needed = "",
    readonly todo = "",
  ) {
    super(given);
  }
}

interface Reply {
  question?: number;
  answer?: Record<string, unknown>;
  arrays?: string[];
  error?: { given?: string; needed?: string; do?: string };
}
interface Waiting {
  done: (answer: never) => void;
  failed: (reason: unknown) => void;
}

/** Bytes as they come: a DataView in most places, a buffer in others. */
export function bytesOf(given: unknown): Uint8Array {
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  if (ArrayBuffer.isView(given)) return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  return new Uint8Array();
}

export function asking(model: Model): { ask: Ask; end: () => void } {
  const waiting = new Map<number, Waiting>();
  // Several views may show one object: their questions must not be taken for each other's.
  let last = Math.floor(Math.random() * 2 ** 40);

  function heard(reply: Reply, buffers: unknown[] = []): void {
    const one = waiting.get(reply?.question ?? -1);
    if (!one) return;
    waiting.delete(reply.question!);
    if (reply.error) one.failed(new Refusal(reply.error.given ?? "", reply.error.needed, reply.error.do));
    else {
      const arrays = (reply.arrays ?? []).map((name, number) => [name, bytesOf(buffers[number])]);
      one.done({ ...reply.answer, ...Object.fromEntries(arrays) } as never);
    }
  }
  model.on("msg:custom", heard as never);

  const ask: Ask = (request, signal) =>
    new Promise((done, failed) => {
      const question = (last += 1);
      waiting.set(question, { done, failed });
      signal?.addEventListener("abort", () => {
        waiting.delete(question);
        failed(new DOMException("taken back", "AbortError"));
      });
      try {
        model.send({ question, request });
      } catch (reason) {
        waiting.delete(question);
        failed(new Refusal(String(reason)));
      }
    });

  return {
    ask,
    end: () => {
      model.off("msg:custom", heard as never);
      waiting.clear();
    },
  };
}
