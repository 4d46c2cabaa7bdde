// Where the CPU time of requests goes, by profile trials: a bar for each case, stacked by layer, and the stacks of a
// case beside those of its reference.

import { barX, plot } from "@observablehq/plot";
import { data, type Group } from "./data";
import { element, time } from "./text";

interface Stack {
  stack: string;
  layer: string | null;
  us: number;
}

interface Role {
  layers: Record<string, number>;
  not_attributed_us: number;
  stacks: Stack[];
}

/** The part of the result that is drawn here. */
interface Explained {
  layers: Record<string, string>;
  cases: Record<string, { roles: Record<string, Role> }>;
  differences: { case: string; reference: string }[];
}

const explained = (data.result as { explained?: Explained }).explained;
const NONE = "not attributed";
/** Pixels of a function, and the narrowest that is drawn. */
const HIGH = 18;
const NARROW = 2;
/** Keys that lead to another function. */
const STEPS: Record<string, number | undefined> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

const used = new Set(Object.values(explained?.cases ?? {}).flatMap(({ roles }) => Object.values(roles).flatMap((role) => Object.keys(role.layers))));
const layers: string[] = Object.keys(explained?.layers ?? {}).filter((layer) => used.has(layer));
/** Neighbours are far apart on the wheel. */
const colorOf = (layer: string | null): string => (layer && layers.includes(layer) ? `hsl(${(layers.indexOf(layer) * 137) % 360} 45% 62%)` : "#9aa4af");
const titleOf = (layer: string | null): string => (layer ? (explained?.layers[layer] ?? layer) : NONE);
const labelOf = (name: string): string => data.groups.flatMap(({ cases }) => cases).find((one) => one.case === name)?.label ?? name;

/** What a case spends in each layer, over driver and services. */
function spent(name: string): { layer: string | null; us: number }[] {
  const roles = Object.entries(explained?.cases[name]?.roles ?? {}).filter(([role]) => role !== "kernel");
  const of = (layer: string) => roles.reduce((sum, [, role]) => sum + (role.layers[layer] ?? 0), 0);
  const none = roles.reduce((sum, [, role]) => sum + role.not_attributed_us, 0);
  return [...layers.map((layer) => ({ layer, us: of(layer) })), { layer: null, us: none }].filter(({ us }) => us > 0);
}

/** Colours and titles, for a legend. */
export const layerColors = (): [string, string][] => [...layers, null].map((layer) => [colorOf(layer), titleOf(layer)]);

/** A bar for each case of a group that has profile trials. */
export function bars(group: Group, width: number): Element | null {
  const rows = group.cases.flatMap(({ case: name, label }) => spent(name).map((part) => ({ label, ...part })));
  if (!rows.length) return null;
  const cases = [...new Set(rows.map(({ label }) => label))];
  const drawn = plot({
    width,
    height: 48 + 36 * cases.length,
    marginLeft: 90,
    style: { fontSize: "12px", fontFamily: "inherit" },
    x: { label: "µs of CPU per request →", grid: true },
    y: { domain: cases, label: null },
    marks: [barX(rows, { x: "us", y: "label", fill: (row) => colorOf(row.layer), title: (row) => `${titleOf(row.layer)}: ${time(row.us)}`, tip: true })],
  });
  drawn.querySelectorAll("[aria-label]").forEach((mark) => mark.removeAttribute("aria-label"));
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", group.setting ? `CPU time by layer, ${group.setting}` : "CPU time by layer");
  return drawn;
}

/** A function and those that it called, with microseconds per request of a case and of its reference. */
interface Frame {
  name: string;
  us: [number, number];
  /** Of the stacks that end here. */
  layers: Map<string | null, number>;
  calls: Map<string, Frame>;
}

const frame = (name: string): Frame => ({ name, us: [0, 0], layers: new Map(), calls: new Map() });

/** The stacks of two cases as one tree. */
function tree(names: [string, string]): Frame {
  const root = frame("all");
  names.forEach((name, which) => {
    for (const [role, { stacks }] of Object.entries(explained?.cases[name]?.roles ?? {})) {
      for (const { stack, layer, us } of stacks) {
        let at = root;
        at.us[which] += us;
        for (const name of [role, ...stack.split(";")]) {
          let called = at.calls.get(name);
          if (!called) at.calls.set(name, (called = frame(name)));
          called.us[which] += us;
          called.layers.set(layer, (called.layers.get(layer) ?? 0) + us);
          at = called;
        }
      }
    }
  });
  return root;
}

/** The layer of most of what a function and its callees do. */
const layerOf = ({ layers }: Frame): string | null => [...layers].sort((one, other) => other[1] - one[1])[0]?.[0] ?? null;

const SVG = "http://www.w3.org/2000/svg";

function svg(name: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** The functions of one of the two cases from `root` on, to the scale of both. */
function flames(root: Frame, which: 0 | 1, width: number, narrow: (to: Frame) => void): SVGElement {
  const scale = width / Math.max(...root.us);
  const marks: SVGElement[] = [];
  let deepest = 0;
  const draw = (one: Frame, x: number, depth: number): void => {
    const wide = one.us[which] * scale;
    if (wide < NARROW) return;
    deepest = Math.max(deepest, depth);
    const title = svg("title", {});
    title.textContent = `${one.name}: ${time(one.us[0])}, reference ${time(one.us[1])} (${titleOf(layerOf(one))})`;
    // One stop for the tabulator; arrows go on from there.
    const mark = svg("g", { class: "flame", role: "button", tabindex: marks.length ? -1 : 0 }, title, svg("rect", { x, y: depth * HIGH, width: Math.max(wide - 0.5, 1), height: HIGH - 1, fill: colorOf(layerOf(one)) }));
    const letters = Math.floor((wide - 6) / 7);
    if (letters > 3) {
      const text = svg("text", { x: x + 3, y: depth * HIGH + 13, "font-size": 12, fill: "#000" });
      text.textContent = one.name.length > letters ? `${one.name.slice(0, letters - 1)}…` : one.name;
      mark.append(text);
    }
    mark.addEventListener("click", () => narrow(one));
    mark.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (step) marks[marks.indexOf(mark) + step]?.focus();
      else if (event.key === "Enter" || event.key === " ") narrow(one);
      else return;
      event.preventDefault();
    });
    marks.push(mark);
    let next = x;
    // The same order in both, so that they can be compared.
    for (const called of [...one.calls.values()].sort((one, other) => (one.name < other.name ? -1 : 1))) {
      draw(called, next, depth + 1);
      next += called.us[which] * scale;
    }
  };
  draw(root, 0, 0);
  return svg("svg", { width, height: (deepest + 1) * HIGH, role: "group" }, ...marks);
}

/**
 * The stacks of each compared case above those of its reference. A click or Enter narrows both to a function; Escape leads
 * back.
 */
export function stacks(into: HTMLElement): void {
  const width = into.clientWidth;
  const drawn = (explained?.differences ?? []).map(({ case: name, reference }) => {
    const whole = tree([name, reference]);
    const figure = element("figure", { class: "flames" });
    const trail: Frame[] = [];
    const show = (root: Frame): void => {
      const place = [...figure.querySelectorAll("svg")].findIndex((picture) => picture.contains(document.activeElement));
      const parts = ([0, 1] as const).flatMap((which) => {
        const label = labelOf([name, reference][which]);
        const picture = flames(root, which, width, (to) => {
          trail.push(root);
          show(to);
        });
        picture.setAttribute("aria-label", `Functions of ${label} by CPU time`);
        return [element("figcaption", {}, `${label}: ${time(root.us[which])} in ${root.name}`), picture];
      });
      const back = element("button", { type: "button" }, "All functions");
      back.addEventListener("click", () => {
        trail.length = 0;
        show(whole);
      });
      figure.replaceChildren(...parts, ...(root === whole ? [] : [back]));
      if (place >= 0) figure.querySelectorAll("svg")[place]?.querySelector<SVGElement>(".flame")?.focus();
    };
    figure.addEventListener("keydown", (event) => {
      const before = event.key === "Escape" ? trail.pop() : undefined;
      if (before) show(before);
    });
    show(whole);
    return figure;
  });
  into.querySelectorAll(".drawn").forEach((old) => old.remove());
  into.append(element("div", { class: "drawn" }, ...drawn));
}
