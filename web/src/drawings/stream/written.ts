/** Numbers as the library prints them in its tables of the stream, in the language of the page. */

import { fixed, percent, signed } from "../../lib/numbers";
import { formatted } from "../../lib/python";

type Told = number | null | undefined;
const NONE = "–";

/** Python's f"{x:.3g}". */
export const general = (value: Told, digits = 3): string =>
  value === null || value === undefined ? NONE : formatted(value, `.${digits}g`);

/** A probability in little room: 25.4%, 4e−05. */
export const chance = (p: Told): string =>
  p === null || p === undefined ? NONE : p >= 0.0005 || p === 0 ? percent(p) : formatted(p, ".0e");

export const cosine = (value: Told): string => (value === null || value === undefined ? NONE : signed(value, 2));
export const share = (value: Told): string => (value === null || value === undefined ? NONE : signed(value, 3));
export const nats = (value: Told): string => (value === null || value === undefined ? NONE : fixed(value, 2));
export const degrees = (value: Told): string => (value === null || value === undefined ? NONE : `${fixed(value, 1)}°`);
export const lost = (value: Told): string => (value === null || value === undefined ? NONE : percent(value));
export const mean = (value: Told): string => (value === null || value === undefined ? NONE : formatted(value, "+.2g"));
