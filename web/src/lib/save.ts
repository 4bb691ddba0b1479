/** What is on the screen, as a file: a drawing, the numbers, or a page that needs nothing else. */

import { address, type Screen } from "./address.svelte";
import { shelf } from "./shelf.svelte";
import { speech } from "./words.svelte";

export type Cell = string | number | boolean | null | undefined;
export type Drawn = SVGSVGElement | HTMLCanvasElement;
export interface Lines {
  python: string;
  shell: string;
}

function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const saveJson = (name: string, data: unknown): void =>
  download(`${name}.json`, new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));

/** Where a formula would begin: with a cell, or after what ends one in a spreadsheet that is set to other separators, which ignores our quotes. */
const FORMULA = /(?<=^|[;\t\n\r])(?=[=+\-@\t\r＝＋－＠])/g;

/** What a spreadsheet would take for a formula has an apostrophe before it. */
export function csv(rows: Cell[][]): string {
  const cell = (value: Cell): string => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" ? text.replace(FORMULA, "'") : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export const saveCsv = (name: string, rows: Cell[][]): void =>
  download(`${name}.csv`, new Blob(["\ufeff", csv(rows)], { type: "text/csv" }));

const INHERITED = [
  ...[
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-linecap",
    "opacity",
    "stop-color",
    "stop-opacity",
  ],
  ...["font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "visibility", "display"],
];

/** A drawing with the styles that it has on the page written into it, so that it looks the same elsewhere. */
function standalone(drawing: SVGSVGElement): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const [from, to] = [drawing.querySelectorAll("*"), copy.querySelectorAll("*")];
  const dress = (element: Element, target: Element): void => {
    const style = getComputedStyle(element);
    target.setAttribute("style", INHERITED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    target.removeAttribute("class");
  };
  dress(drawing, copy);
  from.forEach((element, number) => dress(element, to[number]!));
  const { width, height } = drawing.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  copy.style.background = paper;
  return new XMLSerializer().serializeToString(copy);
}

/** A canvas is a picture inside the drawing. */
const asSvg = (drawn: Drawn): string =>
  drawn instanceof SVGSVGElement
    ? standalone(drawn)
    : `<svg xmlns="http://www.w3.org/2000/svg" width="${drawn.width}" height="${drawn.height}"><image width="${drawn.width}" height="${drawn.height}" href="${drawn.toDataURL()}"/></svg>`;

export const saveSvg = (name: string, drawn: Drawn): void =>
  download(`${name}.svg`, new Blob([asSvg(drawn)], { type: "image/svg+xml" }));

export async function savePng(name: string, drawn: Drawn): Promise<void> {
  const canvas = drawn instanceof HTMLCanvasElement ? drawn : await painted(drawn);
  const content = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (content) download(`${name}.png`, content);
}

async function painted(drawing: SVGSVGElement): Promise<HTMLCanvasElement> {
  const { width, height } = drawing.getBoundingClientRect();
  const picture = new Image();
  const place = URL.createObjectURL(new Blob([standalone(drawing)], { type: "image/svg+xml" }));
  picture.src = place;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(place);
  return canvas;
}

/** The region as it stands, in one file without scripts: drawings, tables, the numbers behind them, and the lines that give them again. */
export function saveHtml(name: string, title: string, region: HTMLElement, data: unknown, lines: Lines | null): void {
  download(`${name}.html`, new Blob([standalonePage(title, region, data, lines)], { type: "text/html" }));
}

function standalonePage(title: string, region: HTMLElement, data: unknown, lines: Lines | null): string {
  const copy = region.cloneNode(true) as HTMLElement;
  const canvases = [...region.querySelectorAll("canvas")];
  [...copy.querySelectorAll("canvas")].forEach((canvas, number) => {
    const picture = document.createElement("img");
    picture.src = canvases[number]!.toDataURL();
    const { width, height } = canvases[number]!.getBoundingClientRect();
    [picture.width, picture.height] = [width, height];
    picture.style.imageRendering = getComputedStyle(canvases[number]!).imageRendering;
    canvas.replaceWith(picture);
  });
  copy.querySelectorAll("script, [data-no-export]").forEach((element) => element.remove());
  // Where there is no studio, its addresses lead nowhere.
  copy.querySelectorAll('a[href^="/"]').forEach((element) => element.removeAttribute("href"));
  copy.querySelectorAll("button, input, select, textarea").forEach((element) => element.setAttribute("disabled", ""));
  const styles = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
  const page = document.implementation.createHTMLDocument(title);
  page.documentElement.lang = speech.language;
  page.documentElement.dataset.theme = document.documentElement.dataset.theme;
  const meta = page.createElement("meta");
  meta.setAttribute("charset", "utf-8");
  page.head.prepend(meta);
  const head = page.createElement("h1");
  head.textContent = title;
  page.body.style.padding = "1.5rem";
  page.body.append(head, page.importNode(copy, true));
  if (lines) page.body.append(preformatted(page, `${lines.python}\n\n${lines.shell}`));
  const kept = page.createElement("script");
  kept.type = "application/json";
  kept.id = "data";
  kept.textContent = JSON.stringify(data).replaceAll("<", "\\u003c");
  page.body.append(kept);
  // As text: an element would be held against this page's own policy, which is not the file's.
  const sheet = `<style>${styles.replaceAll("</", "<\\/")}</style></head>`;
  return `<!doctype html>\n${page.documentElement.outerHTML.replace("</head>", () => sheet)}`;
}

function preformatted(page: Document, text: string): HTMLElement {
  const block = page.createElement("pre");
  block.textContent = text;
  return block;
}

/** A name for files of a screen: of which model, training or atlas, and which screen. */
export function fileName(screen: string): string {
  const model = shelf.model?.id ?? "none";
  const own: Partial<Record<Screen, string | null>> = { training: shelf.training, atlas: address.get("atlas") };
  return `headwater-${own[address.screen] ?? model}-${screen}`.replace(/[^\w-]+/g, "-");
}
