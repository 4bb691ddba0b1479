/** Numbers as readers of the page's language write them, with a true minus sign. */

import { speech } from "./words.svelte";

const inLanguage = (written: string): string => {
  const minus = written.replace("-", "−");
  return speech.language === "pt" ? minus.replace(/[.,]/g, (mark) => (mark === "." ? "," : ".")) : minus;
};

/** +1.234, −0.500, 0.000 without a sign of its own: Python's f"{x:+z.3f}". */
export function signed(value: number, digits = 3): string {
  const fixed = value.toFixed(digits);
  const zero = Number(fixed) === 0;
  return inLanguage(zero ? `+${Math.abs(value).toFixed(digits)}` : value > 0 ? `+${fixed}` : fixed);
}

export function fixed(value: number, digits = 3): string {
  return inLanguage(value.toFixed(digits));
}

export function percent(value: number, digits = 1): string {
  return `${inLanguage((100 * value).toFixed(digits))}%`;
}

/** 4,096 in English, 4.096 in Portuguese. */
export function whole(value: number): string {
  return inLanguage(String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ","));
}

/** 3.7e-7: how Python prints certificates. */
export function tiny(value: number): string {
  if (value === 0) return "0";
  const [digits, power] = value.toExponential(1).split("e");
  const exponent = Number(power);
  return `${inLanguage(digits ?? "")}e${exponent < 0 ? "−" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}
