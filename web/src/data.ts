// What `crates/lasthop-report/src/page.rs` embeds in the page. All times are microseconds.

export interface Latencies {
  /** Nines and microseconds: 0 is the fastest request, 1 the 90th percentile, 2 the 99th. */
  curve: [number, number][];
  /** The bin of the first share: bin n begins at 10^(n/30) ns. */
  first: number;
  shares: number[];
}

/** Columns, one entry for each trial. */
export interface Trials {
  round: number[];
  block: number[];
  at_ms: number[];
  rate: number[];
  p50_us: (number | null)[];
  p99_us: (number | null)[];
}

export interface Plots {
  service: Latencies | null;
  response: Latencies | null;
  trials: Trials;
}

export interface Cost {
  role: string;
  cpu: number;
  waiting: number | null;
}

export interface Worth {
  verdict: string;
  /** Low end, estimate, high end. */
  saved: [number, number, number];
  /** What a request of the reference takes. */
  spent: number;
  /** Whether it holds for a handler. */
  advises: boolean;
}

export interface Matter {
  reference: string;
  time: Worth;
  cpu: Worth | null;
  /** Cores saved at 1,000 requests/s. */
  cores: number;
}

export interface Case {
  case: string;
  label: string;
  plots: Plots | null;
  cost: Cost[];
  matter: Matter | null;
}

/** Cases that are compared with each other. */
export interface Group {
  setting: string;
  /** Whether latencies are response times. */
  open: boolean;
  cases: Case[];
}

/** A figure over all repetitions. */
export interface Span {
  least: number;
  median: number;
  most: number;
}

/** What became of an offered load, in requests/s and as a share. */
export interface Offered {
  offered: number;
  goodput: Span;
  right: Span;
}

export interface Data {
  groups: Group[];
  margin: number;
  /** The result as `lasthop report --format json` and `--format csv` write it. */
  result: { run: string; overload?: { cases: { case: string; points: Offered[] }[] } };
  csv: string;
}

export const data: Data = JSON.parse(document.getElementById("data")!.textContent!);

/** A case is drawn alike in every group. */
export const labels: string[] = [...new Set(data.groups.flatMap((group) => group.cases.map((one) => one.label)))];
export const roles: string[] = [...new Set(data.groups.flatMap((group) => group.cases.flatMap((one) => one.cost.map((cost) => cost.role))))];
