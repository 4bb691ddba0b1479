/** Numbers as readers of the page's language write them, with a true minus sign and Python's digits. */

import { formatted, spoken } from "./python";

/** +1.234, −0.500, +0.000 for whatever is too small to see. */
export const signed = (value: number, digits = 3): string => formatted(value, `+z.${digits}f`);

export const fixed = (value: number, digits = 3): string => formatted(value, `.${digits}f`);

export const percent = (value: number, digits = 1): string => formatted(value, `.${digits}%`);

/** 4,096 in English, 4.096 in Portuguese. */
export const whole = (value: number): string => formatted(Math.round(value), "z,");

/** 3.7e−07: how Python prints certificates. Infinity travels as null. */
export const tiny = (value: number | null): string => (value === null ? "∞" : value === 0 ? "0" : formatted(value, ".1e"));

/** 0.25, and 0,25 for readers of Portuguese; 1e−7 where it is tiny; no digit more than it has, and none less. */
export const asIs = (value: number): string => spoken(String(value));
