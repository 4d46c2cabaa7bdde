// Numbers as the rest of the page writes them, and elements.

/** Three significant digits, thousands separated. */
export function significant(value: number, digits = 3): string {
  const text = value.toLocaleString("en", { maximumSignificantDigits: digits, minimumSignificantDigits: value ? digits : 1 });
  return text.replace("-", "−");
}

const UNITS: [number, string][] = [[1e6, "s"], [1e3, "ms"], [1, "µs"], [1e-3, "ns"]];

/** A time in microseconds. */
export function time(micros: number, digits = 3): string {
  const [scale, unit] = UNITS.find(([scale]) => Math.abs(micros) >= 0.9995 * scale) ?? (micros ? UNITS[3] : UNITS[2]);
  return `${significant(micros / scale, digits)} ${unit}`;
}

/** The mark on an axis: no digits that say nothing. */
export function tick(micros: number): string {
  return time(micros).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
}

export function count(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

export function percent(share: number, digits = 2): string {
  return `${significant(share * 100, digits)} %`;
}

type Attributes = Record<string, string | number>;

/** An element; strings in it are text. */
export function element<Name extends keyof HTMLElementTagNameMap>(name: Name, attributes: Attributes, ...children: (Node | string)[]): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}
