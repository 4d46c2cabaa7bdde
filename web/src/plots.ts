// What is drawn. Each function draws one group as wide as it is told.

import { areaY, barX, dot, line, lineY, plot, pointer, ruleX, stackX, text, tip, type Markish, type PlotOptions, type TipOptions } from "@observablehq/plot";
import { data, labels, roles, type Group, type Latencies, type Offered, type Span, type Trials } from "./data";
import { count, significant, tick, time } from "./text";

type Drawn = SVGSVGElement | HTMLElement;

const COLORS = 8;
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "wye", "times", "plus"] as const;
/** More trials of a case than this are thinned. */
const MOST = 150;
/** Of more rounds than this, the marks would be a wall. */
const MOST_ROUNDS = 60;

/** A transport looks the same on every page. The colours of verdicts are none of these. */
const KNOWN = ["unix", "tcp", "tls"];
const others = labels.filter((label) => !KNOWN.includes(label));
const placeOf = (label: string): number => (KNOWN.includes(label) ? KNOWN.indexOf(label) : KNOWN.length + others.indexOf(label));

export const colorOf = (label: string): string => `var(--c${placeOf(label) % COLORS})`;
export const roleColor = (role: string): string => `var(--c${(roles.indexOf(role) + 3) % COLORS})`;
const symbolOf = (label: string) => SYMBOLS[placeOf(label) % SYMBOLS.length];
export const glyphOf = (label: string): string => "○△□◇☆Y×+"[placeOf(label) % SYMBOLS.length];

function frame(width: number, group: Group, what: string, options: PlotOptions): Drawn {
  const name = group.setting ? `${what}, ${group.setting}` : what;
  const drawn = plot({
    width,
    height: Math.round(Math.min(340, 190 + width / 6)),
    marginLeft: 54,
    marginTop: 26,
    marginBottom: 40,
    style: { fontSize: "12px", fontFamily: "inherit", overflow: "visible" },
    ...options,
  });
  // One picture with a name: the names of its marks are none for readers of it.
  drawn.querySelectorAll("[aria-label]").forEach((mark) => mark.removeAttribute("aria-label"));
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", name);
  return drawn as Drawn;
}

/** What the pointer shows: the row next to it, whatever its case is. The name of the picture is the only one. */
function readout<Row>(rows: Row[], title: (row: Row) => string, place: TipOptions): Markish {
  return Object.assign(tip(rows, pointer({ ...place, title, lineWidth: 40, lineHeight: 1.2 })), { ariaLabel: undefined });
}

/** Round marks of a logarithmic axis. */
function marks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const digits = decades < 1 ? [1, 1.5, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const digit of digits) found.push(digit * 10 ** power);
  }
  return found.filter((mark) => mark >= low * 0.999 && mark <= high * 1.001);
}

/** A linear axis of logarithms, because Plot leaves out labels of a logarithmic one. */
function timeAxis(values: number[], label: string) {
  const [low, high] = ends(values);
  const domain = [low, high].map(Math.log10);
  return { domain, ticks: marks(low, high).map(Math.log10), tickFormat: (power: number) => tick(10 ** power), label, grid: true };
}

function ends(values: number[]): [number, number] {
  const [low, high] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, 0]);
  return low < high ? [low, high] : [low / 1.2, high * 1.2];
}

interface Kind {
  label: string;
  latencies: Latencies;
  /** Of an open loop, the service time beside the response time. */
  beside: boolean;
}

/** Response times and, dashed, service times; service times alone in a closed loop. */
function kinds(group: Group): Kind[] {
  return group.cases.flatMap(({ label, plots }) => {
    const { response = null, service = null } = plots ?? {};
    const first = response ?? service;
    const found: Kind[] = first ? [{ label, latencies: first, beside: false }] : [];
    if (response && service) found.push({ label, latencies: service, beside: true });
    return found;
  });
}

const nines = (at: number): string => (at === 0 ? "fastest" : `${+(100 - 100 * 10 ** -at).toFixed(Math.ceil(at))} %`);

export function percentiles(group: Group, width: number): Drawn | null {
  const found = kinds(group);
  if (!found.length) return null;
  const points = found.map(({ label, latencies, beside }) => ({
    stroke: colorOf(label),
    beside,
    rows: latencies.curve.map(([at, micros]) => ({ at, micros, label: beside ? `${label}, service time` : label })),
  }));
  const all = points.flatMap(({ rows }) => rows);
  const y = ({ micros }: { micros: number }) => Math.log10(micros);
  const last = Math.max(...all.map(({ at }) => at));
  const ticks = [0, Math.log10(2), 1, 2, 3, 4, 5, 6, 7].filter((at) => at <= last);
  return frame(width, group, "Latency by percentile", {
    x: { domain: [0, last], ticks, tickFormat: (at: number) => (at ? nines(at) : ""), label: "percentile of requests →" },
    y: timeAxis(all.map(({ micros }) => micros), `↑ ${group.open ? "response" : "service"} time`),
    marks: [
      ...points.map(({ stroke, beside, rows }) => line(rows, { x: "at", y, stroke, strokeWidth: beside ? 1.25 : 2, strokeDasharray: beside ? "3 3" : undefined })),
      readout(all, (row) => `${row.label}\n${nines(row.at)}: ${time(row.micros)}`, { x: "at", y }),
    ],
  });
}

export function distribution(group: Group, width: number): Drawn | null {
  const found = kinds(group);
  if (!found.length) return null;
  const begins = (bin: number) => 10 ** (bin / 30) / 1e3;
  const drawn = found.map(({ label, latencies, beside }) => {
    // From nothing to nothing, so that both ends come down to the axis.
    const shares = [...latencies.shares, 0];
    const rows = shares.map((share, at) => ({ micros: begins(latencies.first + at), share }));
    return { stroke: colorOf(label), beside, rows: [{ micros: rows[0].micros, share: 0 }, ...rows] };
  });
  const all = drawn.flatMap(({ rows }) => rows);
  const times = all.map(({ micros }) => micros);
  const most = Math.max(...all.map(({ share }) => share));
  return frame(width, group, "Latency as a distribution", {
    x: { ...timeAxis(times, `${group.open ? "response" : "service"} time →`), grid: false, ticks: spread(...ends(times), width).map(Math.log10) },
    y: { domain: [0, most], label: "↑ share of requests", tickFormat: (share: number) => `${count(share * 100)} %`, ticks: 4, grid: true },
    marks: drawn.flatMap(({ stroke, beside, rows }): Markish[] => {
      const at = { x: (row: (typeof rows)[0]) => Math.log10(row.micros), y: "share", curve: "step-after" as const };
      const edge = lineY(rows, { ...at, stroke, strokeWidth: beside ? 1 : 1.5, strokeDasharray: beside ? "3 3" : undefined });
      return beside ? [edge] : [areaY(rows, { ...at, fill: stroke, fillOpacity: 0.15 }), edge];
    }),
  });
}

/** Marks across that do not touch each other. */
function spread(low: number, high: number, width: number): number[] {
  const all = marks(low, high);
  const room = Math.floor((width - 70) / 52);
  const each = Math.ceil(all.length / Math.max(room, 2));
  const powers = all.filter((mark) => Math.abs(Math.log10(mark) % 1) < 1e-9);
  return each > 1 && powers.length > 1 ? powers : all.filter((_, place) => place % each === 0);
}

interface Range {
  value: number;
  low: number;
  high: number;
}

/** A trial, or the median, the least and the most of as many as become one. */
interface Point {
  at: number;
  round: number;
  rate: Range | null;
  p50: Range | null;
  p99: Range | null;
}

function range(values: (number | null)[]): Range | null {
  const sorted = values.filter((value) => value !== null).sort((one, other) => one - other);
  return sorted.length ? { value: sorted[sorted.length >> 1], low: sorted[0], high: sorted[sorted.length - 1] } : null;
}

/** Trials over time, thinned if there are many. */
function thinned({ round, at_ms, rate, p50_us, p99_us }: Trials): Point[] {
  const each = Math.ceil(rate.length / MOST);
  const points: Point[] = [];
  for (let from = 0; from < rate.length; from += each) {
    const of = (values: (number | null)[]) => range(values.slice(from, from + each));
    points.push({ at: at_ms[from] / 1e3, round: round[from], rate: of(rate), p50: of(p50_us), p99: of(p99_us) });
  }
  return points;
}

/** When each round after the first began, in seconds. */
function rounds(group: Group): { round: number; at: number }[] {
  const began = new Map<number, number>();
  for (const { plots } of group.cases) {
    plots?.trials.round.forEach((round, place) => {
      const at = plots.trials.at_ms[place] / 1e3;
      began.set(round, Math.min(began.get(round) ?? at, at));
    });
  }
  return [...began].map(([round, at]) => ({ round, at })).sort((one, other) => one.at - other.at);
}

type Shown = Range & { point: Point };

interface Series {
  label: string;
  /** Which of several quantities of its case. */
  part: number;
  points: Shown[];
}

/** One quantity of each case's trials, as far as they have it. */
function series(group: Group, part: number, of: (point: Point) => Range | null): Series[] {
  return group.cases.flatMap(({ label, plots }) => {
    const points = (plots ? thinned(plots.trials) : []).flatMap((point) => {
      const range = of(point);
      return range ? [{ ...range, point }] : [];
    });
    return points.length ? [{ label, part, points }] : [];
  });
}

/** Everything known of a trial, for the pointer. */
function told(label: string, { at, round, rate, p50, p99 }: Point): string {
  const times = p50 && p99 ? [`p50 ${time(p50.value)}, p99 ${time(p99.value)}`] : [];
  const rates = rate ? [`${significant(rate.value)} requests/s`] : [];
  return [`${label}, round ${round + 1}, ${significant(at)} s`, ...times, ...rates].join("\n");
}

/** What trials had, over the time since the run began, and where rounds begin. */
function overTime(group: Group, width: number, name: string, found: Series[], y: PlotOptions["y"], place: (value: number) => number): Drawn | null {
  if (!found.length) return null;
  const all = rounds(group);
  const rows = found.flatMap(({ label, points }) => points.map((shown) => ({ ...shown, label })));
  const last = Math.max(...rows.map(({ point }) => point.at));
  const at = { x: ({ point }: Shown) => point.at, y: ({ value }: Shown) => place(value) };
  const few = all.length <= Math.max(width / 60, 4);
  return frame(width, group, name, {
    // Below the names of rounds.
    inset: 6,
    insetTop: 14,
    x: { label: "seconds since the run began →", ticks: Math.round(width / 90) },
    y,
    marks: [
      ruleX(all.length > MOST_ROUNDS ? [] : all.slice(1), { x: "at", stroke: "var(--rule)" }),
      few ? text(all.filter(({ at }) => at < 0.88 * last), { x: "at", text: ({ round }: { round: number }) => `round ${round + 1}`, frameAnchor: "top", textAnchor: "start", dx: 3, dy: -4, fill: "var(--faint)" }) : null,
      ...found.flatMap(({ label, part, points }): Markish[] => {
        const stroke = colorOf(label);
        const ends = { x: at.x, y1: ({ low }: Shown) => place(low), y2: ({ high }: Shown) => place(high) };
        const isMany = points.some(({ low, high }) => low < high);
        // A line ends with its round, because the servers do.
        const joined = line(points, { ...at, z: ({ point }: Shown) => point.round, stroke, strokeOpacity: 0.6, strokeDasharray: part ? "3 3" : undefined });
        const mark = dot(points, { ...at, stroke, fill: part ? "var(--paper)" : undefined, symbol: symbolOf(label), r: points.length > 75 ? 1.8 : 2.6, strokeWidth: 1.2 });
        return [isMany ? ruleX(points, { ...ends, stroke, strokeOpacity: 0.35 }) : joined, mark];
      }),
      readout(rows, ({ label, point }) => told(label, point), at),
    ],
  });
}

/** p50 and, dashed, p99. */
export function times(group: Group, width: number): Drawn | null {
  const found = [...series(group, 1, ({ p99 }) => p99), ...series(group, 0, ({ p50 }) => p50)];
  const values = found.flatMap(({ points }) => points.flatMap(({ low, high }) => [low, high]));
  const axis = values.length ? timeAxis(values, `↑ ${group.open ? "response" : "service"} time`) : {};
  return overTime(group, width, "Latency over time", found, axis, Math.log10);
}

export function trials(group: Group, width: number): Drawn | null {
  const axis = { label: "↑ requests/s", tickFormat: short, grid: true, ticks: 5, nice: true };
  return overTime(group, width, "Requests/s over time", series(group, 0, ({ rate }) => rate), axis, (value) => value);
}

const short = (value: number): string => (value >= 1e6 ? `${count(value / 1e6)} M` : value >= 1e4 ? `${count(value / 1e3)} k` : count(value));

export function costs(group: Group, width: number): Drawn | null {
  const rows = group.cases.flatMap(({ label, cost }) =>
    cost.flatMap(({ role, cpu, waiting }) => [
      { label, role, micros: cpu, kind: "CPU" },
      ...(waiting == null ? [] : [{ label, role, micros: waiting, kind: "waiting for a CPU" }]),
    ]),
  );
  if (!rows.length) return null;
  const shown = [...new Set(rows.map(({ label }) => label))];
  const longest = Math.max(...shown.map((label) => label.length));
  const at = { x: "micros", y: "label", order: null };
  const ordered = [...rows.filter(({ kind }) => kind === "CPU"), ...rows.filter(({ kind }) => kind !== "CPU")];
  return frame(width, group, "What a request costs", {
    height: 64 + 34 * shown.length,
    marginLeft: Math.min(14 + longest * 7, width * 0.4),
    x: { label: "per request →", tickFormat: tick, ticks: Math.round(width / 110), grid: true },
    y: { domain: shown, label: null },
    marks: [
      barX(ordered, {
        ...at, fill: (row: (typeof rows)[0]) => roleColor(row.role), fillOpacity: (row: (typeof rows)[0]) => (row.kind === "CPU" ? 1 : 0.35),
        stroke: "var(--paper)", strokeWidth: 0.75,
      }),
      ruleX([0], { stroke: "var(--faint)" }),
      readout(ordered, (row) => `${row.label}: ${row.role}\n${row.kind}: ${time(row.micros)}`, stackX(at)),
    ],
    color: { type: "identity" },
    opacity: { type: "identity" },
  });
}

/** A quantity over the offered load: a line through the medians, a bar from the least to the most of the repetitions. */
function offered(group: Group, width: number, what: string, unit: string, of: (point: Offered) => Span, all: number[][]): Drawn | null {
  const drawn = group.cases.flatMap(({ case: name, label }) => {
    const points = data.result.overload?.cases.find((one) => one.case === name)?.points ?? [];
    return points.length ? [{ label, points: points.map((point) => ({ at: point.offered, ...of(point) })) }] : [];
  });
  if (!drawn.length) return null;
  const rows = drawn.flatMap(({ label, points }) => points.map((point) => ({ ...point, label })));
  const last = Math.max(...rows.map(({ at }) => at));
  const most = Math.max(...rows.map(({ most }) => most));
  return frame(width, group, what, {
    x: { domain: [0, last], label: "offered requests/s →", ticks: Math.round(width / 90) },
    y: { domain: [0, most || 1], label: `↑ ${unit}`, grid: true, ticks: 5, clamp: true },
    marks: [
      line(all.map(([at, value]) => [Math.min(at, most), Math.min(value, most)]), { stroke: "var(--faint)", strokeDasharray: "3 3" }),
      ...drawn.flatMap(({ label, points }): Markish[] => {
        const stroke = colorOf(label);
        return [ruleX(points, { x: "at", y1: "least", y2: "most", stroke, strokeWidth: 4, strokeOpacity: 0.35 }), line(points, { x: "at", y: "median", stroke, strokeWidth: 2, marker: "dot" })];
      }),
      readout(rows, ({ label, at, least, most }) => `${label}\n${significant(at)} requests/s: ${significant(least)} to ${significant(most)} ${unit}`, { x: "at", y: "median" }),
    ],
  });
}

/** On the dashed line every request would have its answer. */
export const goodput = (group: Group, width: number) => offered(group, width, "Correct replies per second", "correct replies/s", ({ goodput }) => goodput, [[0, 0], [Infinity, Infinity]]);

export function unserved(group: Group, width: number): Drawn | null {
  const without = (right: number) => Math.max(100 - 100 * right, 0);
  const of = ({ right }: Offered) => ({ least: without(right.most), median: without(right.median), most: without(right.least) });
  return offered(group, width, "Requests without a correct reply", "% of requests", of, []);
}
