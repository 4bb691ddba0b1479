/** Where the boxes of the overview stand. */

export const WIDTHS = { tokens: 190, embedding: 200, block: 210, logits: 220, gap: 38 };

/** Of a deep model, the first two blocks and the last. */
export const shownLayers = (count: number): number[] => (count <= 3 ? [...Array(count).keys()] : [0, 1, count - 1]);

export interface Columns {
  tokens: number;
  embedding: number;
  blocks: number[];
  logits: number;
  width: number;
}

export function columns(layers: readonly number[]): Columns {
  const { gap } = WIDTHS;
  let x = 4;
  const next = (width: number, room = gap): number => {
    const found = x;
    x += width + room;
    return found;
  };
  const tokens = next(WIDTHS.tokens);
  const leap = (number: number): boolean => number + 1 < layers.length && layers[number + 1]! > layers[number]! + 1;
  const embedding = next(WIDTHS.embedding);
  const blocks = layers.map((_, number) => next(WIDTHS.block, leap(number) ? 4 * gap : gap));
  const logits = next(WIDTHS.logits);
  return { tokens, embedding, blocks, logits, width: x - gap + 4 };
}
