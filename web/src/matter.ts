// Does it matter? The table of the page for a handler and a rate of one's own.

import { data, type Group, type Matter, type Worth } from "./data";
import { element, percent, significant, time } from "./text";

const STEPS = 100;

/** From 10 µs to 1 s, after nothing. */
const handlerAt = (step: number): number => (step === 0 ? 0 : 10 ** (1 + ((step - 1) / (STEPS - 1)) * 5));
/** From 10 to 100,000 a second. */
const rateAt = (step: number): number => 10 ** (1 + (step / STEPS) * 4);

/** A share of the time of the whole, handler included. */
function share({ saved, spent }: Worth, handler: number): [number, number, number] {
  return saved.map((micros) => micros / (spent + handler)) as [number, number, number];
}

function judged([low, middle, high]: [number, number, number], less: string, more: string): string {
  const size = (value: number) => percent(Math.abs(value));
  const { margin } = data;
  const word = middle > 0 ? less : more;
  const estimate = `${size(middle)} ${word}`;
  if (low > -margin && high < margin) return `${estimate}, so it does not matter`;
  if (low <= 0 && high >= 0) return `undecided: ${size(high)} ${less} to ${size(low)} ${more}`;
  const [near, far] = middle > 0 ? [low, high] : [high, low];
  return `${estimate} (${size(near)} to ${size(far)})`;
}

function cells(matter: Matter, handler: number, rate: number): string[] {
  const { time: response, cpu, cores } = matter;
  return [
    response.advises ? judged(share(response, handler), "shorter", "longer") : "not known: requests queued",
    cpu ? judged(share(cpu, handler), "less", "more") : "not measured",
    `${significant(Math.abs((cores * rate) / 1e3), 2)} cores ${cores < 0 ? "more" : "less"}`,
  ];
}

const TITLES = ["response time", "CPU of a request", "CPU at this rate"];

function table(handler: number, rate: number): HTMLElement {
  const row = (name: string, values: string[]) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...values.map((value, place) => element("td", { "data-label": TITLES[place] }, value)));
  const rows = ({ setting, cases }: Group) => {
    const found = cases.flatMap(({ label, matter }) => (matter ? [row(`${label} against ${matter.reference}`, cells(matter, handler, rate))] : []));
    const heading = element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: TITLES.length + 1 }, setting));
    return setting && found.length ? [heading, ...found] : found;
  };
  const heads = ["case", ...TITLES].map((title) => element("th", { scope: "col" }, title));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...data.groups.flatMap(rows)));
}

function slider(id: string, label: string, step: number, shown: (step: number) => string, changed: () => void) {
  const input = element("input", { type: "range", id, min: 0, max: STEPS, value: step });
  const output = element("output", { for: id });
  const update = () => {
    output.textContent = shown(+input.value);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => (update(), changed()));
  update();
  return { input, box: element("div", { class: "slider" }, element("label", { for: id }, label), input, output) };
}

/** Two sliders, and what they mean. */
export function matter(into: HTMLElement): void {
  if (!data.groups.some(({ cases }) => cases.some((one) => one.matter))) return;
  const result = element("div", { "aria-live": "polite" });
  const draw = () => result.replaceChildren(table(handlerAt(+handler.input.value), rateAt(+rate.input.value)));
  const handler = slider("handler", "Your handler takes", 20, (step) => (step ? time(handlerAt(step), 2) : "no time"), draw);
  const rate = slider("rate", "You serve", 50, (step) => `${significant(rateAt(step), 2)} requests/s`, draw);
  const legend = `What is left of the difference with a handler that computes all of that time, 95 % intervals in parentheses. Within ${percent(data.margin, 1)} it does not matter.`;
  into.append(element("h3", {}, "With your own handler and rate"), handler.box, rate.box, result, element("p", { class: "dim" }, legend));
  draw();
}
