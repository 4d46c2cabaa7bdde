// Makes tables with many rows sortable and filterable. Every page has this script; without it tables are whole.

import { element } from "./text";

/** So many rows are seen at a glance. */
const FEW = 10;

type Row = HTMLTableRowElement;

interface Line {
  row: Row;
  /** The heading that it stands under. */
  heading: Row | null;
  /** The same in its name, where it stands elsewhere. */
  setting: HTMLElement | null;
  text: string;
}

/** What a table is sorted by. */
interface Order {
  column: number;
  direction: "ascending" | "descending";
}

const collator = new Intl.Collator("en", { numeric: true });
const isHeading = (row: Row): boolean => row.classList.contains("group");

function linesOf(rows: Row[]): Line[] {
  let heading: Row | null = null;
  return rows.flatMap((row) => {
    if (isHeading(row)) heading = row;
    if (isHeading(row)) return [];
    const setting = heading && element("span", { class: "setting", hidden: "" }, `, ${heading.textContent}`);
    if (setting) row.cells[0].append(setting);
    return [{ row, heading, setting, text: row.textContent!.toLowerCase() }];
  });
}

/** What is written in a cell; a number where its column has numbers. Rows without one come last. */
function keyOf({ row }: Line, column: number, isNumber: boolean): string | number | null {
  const text = (row.cells[column]?.textContent ?? "").replaceAll(",", "").replace("−", "-");
  if (!isNumber) return text || null;
  const number = text.match(/-?\d+(\.\d+)?/);
  return number && +number[0];
}

function sorted(lines: Line[], { column, direction }: Order, isNumber: boolean): Line[] {
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = lines.map((line) => ({ line, key: keyOf(line, column, isNumber) }));
  keyed.sort(({ key: one }, { key: other }) => {
    if (one === null || other === null) return +(one === null) - +(other === null);
    return sign * (isNumber ? +one - +other : collator.compare(String(one), String(other)));
  });
  return keyed.map(({ line }) => line);
}

/** From as it was to one direction, to the other, and back. Of numbers the most comes first. */
function next(order: Order | null, column: number, isNumber: boolean): Order | null {
  const first = isNumber ? "descending" : "ascending";
  if (order?.column !== column) return { column, direction: first };
  const second = isNumber ? "ascending" : "descending";
  return order.direction === first ? { column, direction: second } : null;
}

function handle(table: HTMLTableElement): void {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const lines = linesOf(original);
  if (lines.length <= FEW) return;
  const heads = [...table.tHead!.rows[0].cells];
  const filter = element("input", { type: "search" });
  const count = element("output", {});
  let order: Order | null = null;

  const isNumber = (column: number) => "number" in heads[column].dataset;
  const arrange = () => {
    heads.forEach((head, column) => (order?.column === column ? head.setAttribute("aria-sort", order.direction) : head.removeAttribute("aria-sort")));
    lines.forEach(({ setting }) => setting?.toggleAttribute("hidden", !order));
    body.replaceChildren(...(order ? sorted(lines, order, isNumber(order.column)).map(({ row }) => row) : original));
  };
  const sift = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const { row, text } of lines) row.hidden = !words.every((word) => text.includes(word));
    for (const heading of original.filter(isHeading)) heading.hidden = lines.every((line) => line.heading !== heading || line.row.hidden);
    const shown = lines.filter(({ row }) => !row.hidden).length;
    count.textContent = shown < lines.length ? `${shown} of ${lines.length} rows` : "";
  };

  heads.forEach((head, column) => {
    const button = element("button", { type: "button" }, head.textContent!);
    button.addEventListener("click", () => {
      order = next(order, column, isNumber(column));
      arrange();
    });
    head.replaceChildren(button);
  });
  filter.addEventListener("input", sift);
  table.classList.add("sortable");
  table.before(element("div", { class: "filter" }, element("label", {}, "Filter ", filter), count));
}

// Those of the sliders are made anew with each move; the first of a page is short, and hides columns on a phone.
document.querySelectorAll<HTMLTableElement>("table:not(#matter *, .reading *)").forEach(handle);
