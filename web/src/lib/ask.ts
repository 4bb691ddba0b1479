/** How the page asks the server: JSON of the type that the route is described with, arrays as bytes, and progress as it comes. */

import type { components, paths } from "./api";

export type Schema = components["schemas"];
export type Route = keyof paths;
export type Query = Record<string, string | number | boolean | null | undefined>;

type Answering<Kind extends string> = { responses: { 200: { content: Record<Kind, unknown> } } };
/** The routes whose answer is of this kind. */
type RouteTo<Kind extends string, Method extends "get" | "post" = "get"> = {
  [R in Route]: paths[R] extends Record<Method, Answering<Kind>> ? R : never;
}[Route];
type Json = RouteTo<"application/json">;
type Drawing = RouteTo<"image/svg+xml">;
type Bytes = RouteTo<"application/octet-stream">;
type Streamed = RouteTo<"text/event-stream"> | RouteTo<"text/event-stream", "post">;
type AnswerOf<R extends Json> = paths[R]["get"]["responses"][200]["content"]["application/json"];
type Asked<R extends Json | Drawing | Bytes> = NonNullable<paths[R]["get"]["parameters"]["query"]>;
/** What may be asked of a route; null where nothing has been chosen. */
type QueryOf<R extends Json | Drawing | Bytes> = {
  [Name in keyof Asked<R>]: Asked<R>[Name] | null | undefined;
};
/** A route with names written into it. */
type Filled<R extends string> = R extends `${infer Before}{${string}}${infer After}` ? `${Before}${string}${Filled<After>}` : R;
export type Reopens = Filled<"/api/{kind}/{name}/reopen">;

/** An error as the server tells it, in its own words. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly given: string,
    readonly needed: string,
    readonly todo: string,
  ) {
    super(given);
  }
}

/** Nobody answered. */
export const OFFLINE = 0;
/** As a server says of itself that the mistake is its own. */
const OURS = 500;

/** Whatever went wrong, as something to show: a mistake of the page's own is none of a studio that does not answer. */
export const failed = (reason: unknown): Failure =>
  reason instanceof Failure ? reason : new Failure(OURS, String(reason), "", "");

/** One tab's questions take turns with those of others. Not a UUID: a page that came by http over a network cannot make one. */
const TAB = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The address of an answer: what the page calls a screen's JSON twin. */
export function addressOf(route: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const asked = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return asked ? `${route}?${asked}` : route;
}

/** A browser says "TypeError" of a server that cannot be reached, and of one that goes away while it answers. */
async function reached<T>(coming: Promise<T>): Promise<T> {
  try {
    return await coming;
  } catch (reason) {
    throw reason instanceof TypeError ? new Failure(OFFLINE, "", "", "") : reason;
  }
}

async function fetched(address: string, options: RequestInit): Promise<Response> {
  const response = await reached(fetch(address, { ...options, headers: { "x-tab": TAB } }));
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Failure(response.status, told.given ?? response.statusText, told.needed ?? "", told.do ?? "");
}

export async function ask<R extends Json>(route: R, query: QueryOf<R>, signal?: AbortSignal): Promise<AnswerOf<R>> {
  return reached((await fetched(addressOf(route, query as Query), { signal })).json());
}

/** A drawing, which is text. */
export async function askText<R extends Drawing>(route: R, query: QueryOf<R>, signal?: AbortSignal): Promise<string> {
  return reached((await fetched(addressOf(route, query as Query), { signal })).text());
}

/** Have the files of a model, an atlas or a training's text read anew. */
export async function reopen(route: Reopens): Promise<void> {
  await fetched(route, { method: "POST" });
}

export interface Numbers {
  shape: number[];
  values: Float32Array | Uint8Array;
}

export async function askNumbers<R extends Bytes>(route: R, query: QueryOf<R>, signal?: AbortSignal): Promise<Numbers> {
  const response = await fetched(addressOf(route, query as Query), { signal });
  const bytes = await reached(response.arrayBuffer());
  const shape = (response.headers.get("x-shape") ?? "").split(",").filter(Boolean).map(Number);
  const values = response.headers.get("x-dtype") === "uint8" ? new Uint8Array(bytes) : new Float32Array(bytes);
  return { shape, values };
}

/** Server-sent events, as long as somebody follows them: ending the loop, or the signal, ends the work behind it. Their shape is told nowhere. */
export async function* follow<T>(route: Streamed, query: Query, signal: AbortSignal, method = "GET"): AsyncGenerator<T> {
  const response = await fetched(addressOf(route, query), { method, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  try {
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) return;
      const events = (left + value).split("\n\n");
      left = events.pop() ?? "";
      for (const event of events) {
        const lines = event.split("\n").filter((line) => line.startsWith("data:"));
        if (lines.length) yield JSON.parse(lines.map((line) => line.slice(5).trimStart()).join("\n")) as T;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
