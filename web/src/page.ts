// Draws the plots of a page, and makes its sliders and downloads.

import { data, labels, roles, type Group } from "./data";
import { downloads } from "./downloads";
import { bars, layerColors, stacks } from "./layers";
import { matter } from "./matter";
import { pictures } from "./pictures";
import { colorOf, costs, distribution, glyphOf, goodput, percentiles, roleColor, times, trials, unserved } from "./plots";
import { element } from "./text";

/** Pixels across that a plot needs. */
const LEAST = 160;

const PLOTS: [string, (group: Group, width: number) => Element | null][] = [
  ["percentiles", percentiles],
  ["distribution", distribution],
  ["times", times],
  ["trials", trials],
  ["cost", costs],
  ["goodput", goodput],
  ["unserved", unserved],
  ["layers", bars],
];

const swatch = (color: string, name: string) => element("li", {}, element("span", { class: "swatch", style: `background:${color}` }), name);
const glyph = (label: string) => element("li", {}, element("span", { class: "glyph", style: `color:${colorOf(label)}` }, glyphOf(label)), label);

function legend(id: string): HTMLElement {
  const any = (has: (group: Group) => boolean, text: string) => (data.groups.some(has) ? [element("li", {}, text)] : []);
  const waits = ({ cases }: Group) => cases.some(({ cost }) => cost.some(({ waiting }) => waiting != null));
  const cases = labels.map((label) => swatch(colorOf(label), label));
  const entries = {
    cost: () => [...roles.map((role) => swatch(roleColor(role), role)), ...any(waits, "pale: ready to run, but waiting for a CPU")],
    times: () => [...labels.map(glyph), element("li", {}, "joined by a line: p50; dashed: p99")],
    trials: () => labels.map(glyph),
    goodput: () => [...cases, element("li", {}, "dashed: every request")],
    unserved: () => cases,
    layers: () => layerColors().map(([color, title]) => swatch(color, title)),
  }[id] ?? (() => [...cases, ...any(({ open }) => open, "dashed: service time")]);
  return element("ul", { class: "legend" }, ...entries());
}

function draw(id: string, one: (group: Group, width: number) => Element | null, into: HTMLElement): void {
  const wide = into.clientWidth;
  const columns = data.groups.length > 1 && wide >= 720 ? 2 : 1;
  const width = Math.floor((wide - (columns - 1) * 32) / columns);
  const figures = data.groups.flatMap((group) => {
    const drawn = one(group, width);
    if (!drawn) return [];
    const caption = group.setting ? [element("figcaption", {}, group.setting)] : [];
    return [element("figure", {}, ...caption, drawn)];
  });
  const plots = element("div", { class: "plots", style: `grid-template-columns:repeat(${columns},minmax(0,1fr))` }, ...figures);
  const none = element("p", { class: "dim" }, "The driver has no figures for this.");
  into.querySelectorAll(".drawn").forEach((old) => old.remove());
  into.append(element("div", { class: "drawn" }, ...(figures.length ? [legend(id), plots, pictures(into)] : [none])));
}

function drawAll(): void {
  for (const [id, one] of PLOTS) {
    const into = document.getElementById(id);
    if (into) draw(id, one, into);
  }
  const into = document.getElementById("stacks");
  if (into) stacks(into);
}

const main = document.querySelector("main")!;
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  // A window may have no room at all for a moment.
  if (contentRect.width > LEAST && contentRect.width !== width) {
    width = contentRect.width;
    drawAll();
    performance.mark("drawn");
  }
}).observe(main);

const ratios = document.getElementById("ratios");
if (ratios) ratios.append(pictures(ratios));
const place = document.getElementById("matter");
if (place) matter(place);
downloads(document.getElementById("downloads")!);

// What is folded is printed too.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => (details.open = true)));
