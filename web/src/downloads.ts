// The numbers as files.

import { data } from "./data";
import { element } from "./text";

const COLUMNS = ["case", "round", "block", "at_ms", "rate_per_s", "latency_p50_us", "latency_p99_us"];

/** Text that a spreadsheet computes gets an apostrophe (RFC 4180 otherwise), as in lasthop's own CSV. */
function field(value: string | number | null): string {
  if (typeof value !== "string") return String(value ?? "");
  const text = /^[=+\-@\t\r\n＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[,;"\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A row for each trial. */
function trials(): string {
  const rows = data.groups.flatMap(({ cases }) =>
    cases.flatMap(({ case: name, plots }) => {
      const { round, block, at_ms, rate, p50_us, p99_us } = plots!.trials;
      return rate.map((_, at) => [name, round[at], block[at], at_ms[at], rate[at], p50_us[at], p99_us[at]].map(field).join(","));
    }),
  );
  return [COLUMNS.join(","), ...rows, ""].join("\r\n");
}

/** Only what every system takes in the name of a file. */
export const fileName = (text: string): string => text.replace(/[^\w.-]/g, "-");

/** Saves what it makes when it is pressed. */
export function button(label: string, name: string, make: () => Blob | Promise<Blob>): HTMLElement {
  const made = element("button", { type: "button" }, label);
  made.addEventListener("click", async () => {
    const url = URL.createObjectURL(await make());
    element("a", { href: url, download: name }).click();
    URL.revokeObjectURL(url);
  });
  return made;
}

export function downloads(into: HTMLElement): void {
  const name = fileName(data.result.run);
  const text = (label: string, name: string, type: string, make: () => string) => button(label, name, () => new Blob([make()], { type }));
  const made = [
    text("Result as JSON", `${name}.json`, "application/json", () => JSON.stringify(data.result, null, 2) + "\n"),
    text("Cases as CSV", `${name}-cases.csv`, "text/csv", () => data.csv),
  ];
  if (data.groups.every(({ cases }) => cases.every(({ plots }) => plots))) {
    made.push(text("Trials as CSV", `${name}-trials.csv`, "text/csv", trials));
  }
  into.after(element("div", { class: "downloads" }, ...made));
}
