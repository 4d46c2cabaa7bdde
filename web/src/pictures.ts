// A section's plots as a picture that needs nothing of the page, as it is seen: SVG, or PNG with twice the pixels.

import { data } from "./data";
import { button, fileName } from "./downloads";
import { element } from "./text";

/** Room around it, in pixels. */
const EDGE = 16;

/** What the page's style says of a mark. */
const LOOKS = [
  "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap",
  "opacity", "paint-order", "text-anchor", "font-family", "font-size", "font-weight", "font-variant-numeric",
];

type Attributes = Record<string, string | number>;

function shape(name: string, attributes: Attributes, ...children: (Node | string)[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** A copy with the looks that it has in the page. */
function alone(svg: SVGSVGElement, place: Attributes): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const copies = [copy, ...copy.querySelectorAll("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((one, at) => {
    const [style, above] = [getComputedStyle(one), getComputedStyle(one.parentElement!)];
    const own = LOOKS.filter((name) => one === svg || name === "opacity" || style.getPropertyValue(name) !== above.getPropertyValue(name));
    for (const name of own) copies[at].setAttribute(name, style.getPropertyValue(name));
    copies[at].removeAttribute("class");
  });
  copy.querySelectorAll("style").forEach((style) => style.remove());
  copy.removeAttribute("style");
  for (const [key, value] of Object.entries(place)) copy.setAttribute(key, String(value));
  return copy;
}

/** A line of text as it stands in the page; `from` is the corner of the picture. */
function words(text: Node, from: DOMRect): SVGElement {
  const range = document.createRange();
  range.selectNodeContents(text);
  const { left, top, height } = range.getBoundingClientRect();
  const { color, fontSize, fontWeight } = getComputedStyle(text.parentElement!);
  return shape("text", { x: left - from.left, y: top - from.top + 0.77 * height, fill: color, "font-size": fontSize, "font-weight": fontWeight }, text.textContent!);
}

/** Everything of a section that belongs to its picture. */
function parts(section: HTMLElement, from: DOMRect): SVGElement[] {
  const at = (one: Element) => {
    const { left, top, width, height } = one.getBoundingClientRect();
    return { x: left - from.left, y: top - from.top, width, height };
  };
  const texts = [...section.querySelectorAll("h2, figcaption, .legend li, .glyph")].flatMap((one) => [...one.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE));
  return [
    ...texts.map((text) => words(text, from)),
    ...[...section.querySelectorAll(".swatch")].map((one) => shape("rect", { ...at(one), rx: 2, fill: getComputedStyle(one).backgroundColor })),
    ...[...section.querySelectorAll<SVGSVGElement>("svg.forest, figure > svg")].map((one) => alone(one, at(one))),
  ];
}

function picture(section: HTMLElement) {
  const from = section.getBoundingClientRect();
  const last = Math.max(...[...section.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect().bottom));
  const [width, height] = [from.width, last - from.top].map((size) => Math.ceil(size) + 2 * EDGE);
  const { color, fontFamily, fontVariantNumeric } = getComputedStyle(section);
  const all = shape(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, fill: color, "font-family": fontFamily, "font-variant-numeric": fontVariantNumeric },
    shape("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }),
    shape("g", { transform: `translate(${EDGE} ${EDGE})` }, ...parts(section, from)),
  );
  return { text: new XMLSerializer().serializeToString(all), width, height };
}

function asSvg(section: HTMLElement): Blob {
  return new Blob([picture(section).text], { type: "image/svg+xml" });
}

async function asPng(section: HTMLElement): Promise<Blob> {
  const { text, width, height } = picture(section);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob!), "image/png"));
}

/** Buttons that save the plots of a section. */
export function pictures(section: HTMLElement): HTMLElement {
  const title = section.querySelector("h2")!.textContent!;
  const save = (label: string, type: string, make: () => Blob | Promise<Blob>) => {
    const made = button(label, `${fileName(data.result.run)}-${section.id}.${type}`, make);
    made.setAttribute("aria-label", `${label}: save “${title}”`);
    return made;
  };
  return element("div", { class: "pictures" }, save("SVG", "svg", () => asSvg(section)), save("PNG", "png", () => asPng(section)));
}
