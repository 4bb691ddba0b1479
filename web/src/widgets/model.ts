/** What anywidget hands over: the traits of a Python object, and a line to it. */

export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, heard: (...given: never[]) => void): void;
  off(event: string, heard: (...given: never[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: unknown): void;
}

export type Kind = "river" | "attention" | "heads" | "table";
/** Asks the Python object a question; an AbortSignal takes it back. */
export type Ask = <T>(request: Record<string, unknown>, signal?: AbortSignal) => Promise<T>;
