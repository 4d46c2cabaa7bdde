// What the page embeds, whose types are made from its schema. All times are microseconds.

import type { Data } from "./schema";

export type { CaseData as Case, GroupData as Group, Latencies, Matter, OverloadPoint as Offered, Span, TrialColumns as Trials, Worth } from "./schema";

export const data: Data = JSON.parse(document.getElementById("data")!.textContent!);

/** A case is drawn alike in every group. */
export const labels: string[] = [...new Set(data.groups.flatMap((group) => group.cases.map((one) => one.label)))];
export const roles: string[] = [...new Set(data.groups.flatMap((group) => group.cases.flatMap((one) => one.cost.map((cost) => cost.role))))];
