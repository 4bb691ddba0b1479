/** Numbers as Python's format writes them, so that the page's digits are those that the library prints; in the reader's language. */

import { speech } from "./words.svelte";

const SPEC = /^(\+?)(z?)(,?)(?:\.(\d+))?([fge%]?)$/;

/** 12,345.6 in English is 12.345,6 in Portuguese; a minus is a minus. */
export function spoken(written: string): string {
  const minus = written.replaceAll("-", "−");
  return speech.language === "pt" ? minus.replace(/[.,]/g, (mark) => (mark === "." ? "," : ".")) : minus;
}

const grouped = (digits: string): string => digits.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

const exponent = (power: number): string => `e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;

const TIE = `5${"0".repeat(29)}`;

/** Halves go to the even digit, as in Python; JavaScript rounds them up. `more` digits are `less` and thirty others. */
function evened(less: string, more: string): string {
  const [mantissa, power = ""] = more.split(/(?=e)/) as [string, string?];
  const lower = mantissa.slice(0, -30).replace(/\.$/, "");
  return mantissa.endsWith(TIE) && /[02468]$/.test(lower) ? lower + power : less;
}

const toFixed = (size: number, places: number): string => evened(size.toFixed(places), size.toFixed(places + 30));

const toExponential = (size: number, places: number): [string, number] => {
  const written = evened(size.toExponential(places), size.toExponential(places + 30));
  const [mantissa, power] = written.split("e") as [string, string];
  return [mantissa, Number(power)];
};

/** Python's "g": so many digits that count, no zeros at the end, an exponent where the number is very small or large. */
function general(size: number, precision: number): string {
  const digits = precision || 1;
  const [mantissa, at] = toExponential(size, digits - 1);
  const short = (text: string): string => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (at < -4 || at >= digits) return short(mantissa) + exponent(at);
  return short(toFixed(size, Math.max(0, digits - 1 - at)));
}

function scientific(size: number, precision: number): string {
  const [mantissa, power] = toExponential(size, precision);
  return mantissa + exponent(power);
}

const WRITTEN: Record<string, (size: number, precision: number) => string> = {
  f: toFixed,
  "%": (size, precision) => `${toFixed(100 * size, precision)}%`,
  e: scientific,
  g: general,
};

/** `format(value, spec)` for the few specs that tables use: "+z.4g", ".3f", ",", ".1%", ".1e". */
export function plain(value: number, spec: string): string {
  const found = SPEC.exec(spec);
  if (!found) throw new Error(spec);
  const [, plus, noMinusZero, comma, given, kind] = found;
  const size = Math.abs(value);
  const precision = given === undefined ? 6 : Number(given);
  const digits = Number.isFinite(size)
    ? (WRITTEN[kind!]?.(size, precision) ?? String(size))
    : Number.isNaN(size)
      ? "nan"
      : "inf";
  const isZero = /^[0.]+(e|%|$)/.test(digits);
  const isBelow = (value < 0 || Object.is(value, -0)) && !(noMinusZero && isZero);
  return (isBelow ? "-" : plus) + (comma ? grouped(digits) : digits);
}

export const formatted = (value: number, spec: string): string => spoken(plain(value, spec));
