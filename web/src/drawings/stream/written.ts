/** Numbers as the library prints them in its tables of the stream, in the language of the page. */

import { fixed, percent, signed, tiny } from "../../lib/numbers";

type Told = number | null | undefined;
const NONE = "–";

/** Python's f"{x:.3g}". */
export function general(value: Told, digits = 3): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  const power = Number(value.toExponential(digits - 1).split("e")[1]);
  if (power < -4 || power >= digits) return exponential(value, digits - 1, true);
  const written = value.toFixed(Math.max(0, digits - 1 - power));
  const short = written.includes(".") ? written.replace(/\.?0+$/, "") : written;
  return fixed(Number(short), short.split(".")[1]?.length ?? 0);
}

function exponential(value: number, digits: number, isShort = false): string {
  const [mantissa, power] = value.toExponential(digits).split("e") as [string, string];
  const front = isShort && mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  const exponent = Number(power);
  return `${fixed(Number(front), front.split(".")[1]?.length ?? 0)}e${exponent < 0 ? "−" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** A probability in little room: 25.4%, 4e−05. */
export const chance = (p: Told): string =>
  p === null || p === undefined ? NONE : p >= 0.0005 || p === 0 ? percent(p) : exponential(p, 0);

export const cosine = (value: Told): string => (value === null || value === undefined ? NONE : signed(value, 2));
export const share = (value: Told): string => (value === null || value === undefined ? NONE : signed(value, 3));
export const nats = (value: Told): string => (value === null || value === undefined ? NONE : fixed(value, 2));
export const degrees = (value: Told): string => (value === null || value === undefined ? NONE : `${fixed(value, 1)}°`);
export const lost = (value: Told): string => (value === null || value === undefined ? NONE : percent(value));
export const mean = (value: Told): string =>
  value === null || value === undefined ? NONE : value < 0 ? general(value, 2) : `+${general(value, 2)}`;
export { tiny };
