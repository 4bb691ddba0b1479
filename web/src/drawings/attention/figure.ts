/** The large pattern as one drawing: its cells as a picture inside, its axes and numbers as text. */

const OUT = 48;
const SVG = "http://www.w3.org/2000/svg";

/** Cells as large as they are on the page, with sharp edges. */
function enlarged(canvas: HTMLCanvasElement, width: number, height: number): string {
  const large = document.createElement("canvas");
  [large.width, large.height] = [Math.max(canvas.width, 2 * width), Math.max(canvas.height, 2 * height)];
  const context = large.getContext("2d");
  if (context) {
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, 0, 0, large.width, large.height);
  }
  return large.toDataURL();
}

/** Made beside the page, where styles reach it, for as long as it takes to read it. */
export function figure(region: HTMLElement): SVGSVGElement | null {
  const axes = region.querySelector<SVGSVGElement>("svg.axes");
  const box = axes?.parentElement;
  const canvas = box?.querySelector("canvas");
  if (!canvas || !axes || !box) return null;
  const drawn = axes.cloneNode(true) as SVGSVGElement;
  const [outer, inner] = [box.getBoundingClientRect(), canvas.getBoundingClientRect()];
  const picture = document.createElementNS(SVG, "image");
  const place = { x: inner.left - outer.left, y: inner.top - outer.top, width: inner.width, height: inner.height };
  for (const [name, value] of Object.entries(place)) picture.setAttribute(name, String(value));
  picture.setAttribute("href", enlarged(canvas, inner.width, inner.height));
  drawn.prepend(picture);
  const numbers = box.querySelector<SVGSVGElement>("svg.numbers")?.cloneNode(true) as SVGSVGElement | undefined;
  if (numbers) {
    numbers.setAttribute("x", String(place.x));
    numbers.setAttribute("y", String(place.y));
    drawn.append(numbers);
  }
  // The last label of the sources leans out to the right.
  drawn.setAttribute("width", String(outer.width + OUT));
  drawn.style.cssText = "position:absolute;left:-100000px";
  box.append(drawn);
  setTimeout(() => drawn.remove());
  return drawn;
}
