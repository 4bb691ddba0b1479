/** Tokens as people can read them: nothing that is there stays invisible. */

export interface Piece {
  text: string;
  marked: boolean;
}

const SHOWN: Record<string, string> = { " ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍" };
/** Controls, marks that turn, join or hide what stands around them, letters without ink, and spaces that are not the usual one. */
const HIDDEN = /[\p{C}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Z}/u;

const written = (letter: string): string =>
  SHOWN[letter] ?? `⟨${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;

export function visible(text: string): Piece[] {
  const pieces: Piece[] = [];
  const letters = [...text];
  letters.forEach((letter, number) => {
    const atEnd =
      letter === " " &&
      (number === 0 || number === letters.length - 1 || letters[number + 1] === " " || letters[number - 1] === " ");
    const marked = atEnd || HIDDEN.test(letter);
    const last = pieces.at(-1);
    const shown = marked ? written(letter) : letter;
    if (last && last.marked === marked) last.text += shown;
    else pieces.push({ text: shown, marked });
  });
  return pieces;
}

/** The same in one string, for drawings. */
export const legible = (text: string | null, id?: number): string =>
  text === null
    ? `#${id ?? "?"}`
    : visible(text)
        .map((piece) => piece.text)
        .join("");

const LETTERS = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** What fits a drawing: the beginning of a long text, and no half letter at its end. */
export function cut(text: string, most: number): string {
  const letters: string[] = [];
  for (const { segment } of LETTERS.segment(text)) {
    if (letters.length >= most) return `${letters.slice(0, Math.max(1, most - 1)).join("")}…`;
    letters.push(segment);
  }
  return text;
}
