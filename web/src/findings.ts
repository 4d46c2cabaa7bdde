// When it stops mattering: what is left of each gain with a handler of one's own.

import { element, percent, time } from "./text";

/** In microseconds of CPU: what a request of the reference uses, and what is saved (low, estimate, high). */
interface Gain {
  place: string;
  reference: number;
  saved: [number, number, number];
}

const { margin, gains }: { margin: number; gains: Gain[] } = JSON.parse(document.getElementById("gains")!.textContent!);

const STEPS = 100;
/** From 1 µs to 100 ms, after nothing. */
const handlerAt = (step: number): number => (step === 0 ? 0 : 10 ** (((step - 1) / (STEPS - 1)) * 5));

/** How much more busy CPUs handle. */
const left = ({ reference }: Gain, saved: number, handler: number): number => saved / (reference - saved + handler);

function row(gain: Gain, handler: number): HTMLElement {
  const [low, estimate, high] = gain.saved.map((saved) => left(gain, saved, handler));
  const size = `${percent(estimate)} (${percent(low)} to ${percent(high)})`;
  const matters = high < margin ? "no" : low > margin ? "yes" : "perhaps";
  const cell = (label: string, text: string, attributes = {}) => element("td", { "data-label": label, ...attributes }, text);
  return element("tr", {}, element("th", { scope: "row" }, gain.place), cell("gain", size, { "data-number": "" }), cell("matters", matters));
}

function table(handler: number): HTMLElement {
  const sorted = [...gains].sort((one, other) => left(other, other.saved[1], handler) - left(one, one.saved[1], handler));
  const heads = [element("th", { scope: "col" }, "stack"), element("th", { scope: "col", "data-number": "" }, "gain"), element("th", { scope: "col" }, "matters")];
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...sorted.map((gain) => row(gain, handler))));
}

const input = element("input", { type: "range", id: "handler", min: 0, max: STEPS, value: 50 });
const output = element("output", { for: "handler" });
const results = element("div", {});
function update(): void {
  const handler = handlerAt(+input.value);
  output.textContent = `${time(handler, 2)} of CPU`;
  input.setAttribute("aria-valuetext", output.textContent);
  results.replaceChildren(table(handler));
}
input.addEventListener("input", update);
update();
document.getElementById("matters")!.append(
  element("div", { class: "slider" }, element("label", { for: "handler" }, "Your own work for a request"), input, output),
  results,
);
