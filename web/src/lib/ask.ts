/** How the page asks the server: typed JSON, arrays as bytes, and progress as it comes. */

import type { components, paths } from "./api";

export type Schema = components["schemas"];
export type Route = keyof paths;
export type Query = Record<string, string | number | boolean | null | undefined>;

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

/** One tab's questions take turns with those of others. */
const TAB = crypto.randomUUID();

/** The address of an answer: what the page calls a screen's JSON twin. */
export function addressOf(route: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const asked = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return asked ? `${route}?${asked}` : route;
}

async function fetched(address: string, options: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { ...options, headers: { "x-tab": TAB, ...options.headers } });
  } catch (reason) {
    if (reason instanceof DOMException && reason.name === "AbortError") throw reason;
    throw new Failure(0, "", "", "");
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Failure(response.status, told.given ?? response.statusText, told.needed ?? "", told.do ?? "");
}

export async function ask<T>(route: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await fetched(addressOf(route, query), { signal })).json();
}

/** A text, such as a drawing. */
export async function askText(route: string, query: Query = {}, signal?: AbortSignal): Promise<string> {
  return (await fetched(addressOf(route, query), { signal })).text();
}

export async function post<T>(route: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await fetched(addressOf(route, query), { method: "POST", signal })).json();
}

export interface Numbers {
  shape: number[];
  values: Float32Array | Uint8Array;
  headers: Headers;
}

export async function askNumbers(route: string, query: Query = {}, signal?: AbortSignal): Promise<Numbers> {
  const response = await fetched(addressOf(route, query), { signal });
  const bytes = await response.arrayBuffer();
  const shape = (response.headers.get("x-shape") ?? "").split(",").filter(Boolean).map(Number);
  const values = response.headers.get("x-dtype") === "uint8" ? new Uint8Array(bytes) : new Float32Array(bytes);
  return { shape, values, headers: response.headers };
}

/** Server-sent events, as long as somebody follows them: ending the loop, or the signal, ends the work behind it. */
export async function* follow<T>(route: string, query: Query = {}, signal?: AbortSignal, method = "GET"): AsyncGenerator<T> {
  const response = await fetched(addressOf(route, query), { method, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
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
