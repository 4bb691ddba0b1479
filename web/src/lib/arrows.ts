/** Arrow keys in rows and columns: how many rows down, how many columns to the right. */
export const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** A place of so many; the ends hold it. */
export const held = (at: number, count: number): number => Math.min(count - 1, Math.max(0, at));
