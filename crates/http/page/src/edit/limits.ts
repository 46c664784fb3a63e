// Limits of a queue: as they are written in the form, read back, and in words. Pure.

import type { Flow, LaneRule, Rate } from "../base/api.ts";
import { Reader, spanText, type Line, type Wrong } from "./read.ts";

// One field each; empty says nothing.
export type RuleDraft = { concurrency: string; rate: string; burst: string; weight: string; backlog: string; full: string; mode: string };
export type KeyDraft = { id: number; key: string; rule: RuleDraft };
export type Draft = { concurrency: string; rate: string; burst: string; aging: string; takesTurns: boolean; each: RuleDraft; keys: KeyDraft[]; breaker: { errors: string; of: string; within: string; pause: string } };

const text = (value: unknown) => (value === undefined || value === null ? "" : String(Number(value)));
const span = (value: number | string | null | undefined) => (value === undefined || value === null ? "" : spanText(value));

// 100/s, 5/10s
const rateText = (rate: Rate) => `${text(rate.units)}/${spanText(rate.per).replace(/^1(?=[smhd]$)/, "")}`;

export const ruleDraft = (rule: LaneRule = {}): RuleDraft => ({
  concurrency: text(rule.concurrency), rate: rule.rate ? rateText(rule.rate) : "", burst: text(rule.rate?.burst), weight: text(rule.weight), backlog: text(rule.backlog), full: rule.full ?? "", mode: rule.mode ?? "",
});

export function draftOf(flow: Flow | null | undefined): Draft {
  const { concurrency, rate, lanes, aging, breaker } = flow ?? {};
  return {
    concurrency: text(concurrency), rate: rate ? rateText(rate) : "", burst: text(rate?.burst), aging: span(aging),
    takesTurns: Boolean(lanes), each: ruleDraft(lanes ?? {}),
    keys: Object.entries(lanes?.keys ?? {}).map(([key, rule], id) => ({ id, key, rule: ruleDraft(rule) })),
    breaker: { errors: text(breaker?.errors), of: text(breaker?.of), within: span(breaker?.within), pause: span(breaker?.pause) },
  };
}

const MOST = { concurrency: 100_000, units: 1_000_000, weight: 1000, backlog: 10_000, of: 10_000 };

// What is absent is left out, so that two that say the same are the same.
const said = <T extends object>(all: T): T => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as T;

function readRate(reader: Reader, at: string, rate: string, burst: string): Rate | undefined {
  const most = reader.number(`${at}burst`, burst, 1, MOST.units);
  if (!rate.trim()) return burst.trim() ? reader.refuse(`${at}burst`, "a burst belongs to a rate: give that too") : undefined;
  const [, units = "", per = ""] = /^\s*(\d+)\s*\/\s*(\S+)\s*$/.exec(rate) ?? [];
  const seconds = reader.span("", /^[a-z]/.test(per) ? `1${per}` : per);
  if (!units || seconds === undefined || Number(units) < 1 || Number(units) > MOST.units) {
    delete reader.wrong[""];
    return reader.refuse(`${at}rate`, "units per time, such as 100/s, 10/m or 5/10s");
  }
  return said({ units: Number(units), per: seconds, burst: most });
}

function readRule(reader: Reader, at: string, rule: RuleDraft): LaneRule {
  return said({
    concurrency: reader.number(`${at}concurrency`, rule.concurrency, 1, MOST.concurrency),
    weight: reader.number(`${at}weight`, rule.weight, 1, MOST.weight),
    rate: readRate(reader, at, rule.rate, rule.burst),
    backlog: reader.number(`${at}backlog`, rule.backlog, 1, MOST.backlog),
    full: rule.full || undefined,
    mode: rule.mode || undefined,
  });
}

function readBreaker(reader: Reader, draft: Draft["breaker"]): Flow["breaker"] {
  const names = ["errors", "of", "within", "pause"] as const;
  if (names.every((name) => !draft[name].trim())) return undefined;
  for (const name of names) if (!draft[name].trim()) reader.refuse(`breaker.${name}`, "a breaker needs all four; without one leave all empty");
  const of = reader.number("breaker.of", draft.of, 1, MOST.of);
  const errors = reader.number("breaker.errors", draft.errors, 1, of ?? MOST.of);
  const [within, pause] = [reader.span("breaker.within", draft.within), reader.span("breaker.pause", draft.pause)];
  return errors && of && within !== undefined && pause !== undefined ? { errors, of, within, pause } : undefined;
}

// The limits that a form asks for, and what in it cannot be read.
export function readDraft(draft: Draft): { flow: Flow; wrong: Wrong } {
  const reader = new Reader();
  // Keys are anybody's words, also those that every object knows.
  const keys: Record<string, LaneRule> = Object.create(null);
  const flow: Flow = said({
    concurrency: reader.number("concurrency", draft.concurrency, 1, MOST.concurrency),
    rate: readRate(reader, "", draft.rate, draft.burst),
    aging: reader.span("aging", draft.aging),
    breaker: readBreaker(reader, draft.breaker),
  });
  if (draft.takesTurns) {
    const each = readRule(reader, "each.", draft.each);
    for (const { id, key, rule } of draft.keys) {
      if (!key.trim()) reader.refuse(`${id}.key`, "which key it is for");
      else if (key in keys) reader.refuse(`${id}.key`, "this key has a rule already");
      keys[key] = readRule(reader, `${id}.`, rule);
    }
    flow.lanes = { ...each, ...(draft.keys.length && { keys }) };
    const all = [each, ...Object.values(keys)];
    const full = draft.each.full ? "each.full" : `${draft.keys.find(({ rule }) => rule.full)?.id}.full`;
    if (all.some((rule) => rule.full) && all.every((rule) => !rule.backlog)) reader.refuse(full, "needs a number of jobs that may wait");
  }
  return { flow, wrong: reader.wrong };
}

const rateWords = (rate: Rate) => `${rateText(rate)}${rate.burst ? `, bursts of ${text(rate.burst)}` : ""}`;

function ruleLines(whose: string, rule: LaneRule): Line[] {
  const lines: [string, string | false][] = [
    ["at once", text(rule.concurrency)], ["rate", rule.rate ? rateWords(rule.rate) : ""], ["jobs in a turn", text(rule.weight)], ["waiting at most", text(rule.backlog)],
    ["when full", rule.full === "drop" ? "the next job is dropped" : rule.full ? "the next job is refused" : ""],
    ["which jobs", rule.mode === "newest" ? "the newest only" : rule.mode ? "all, one after the other" : ""],
  ];
  return lines.filter(([, said]) => said).map(([name, said]) => [`${whose}: ${name}`, String(said)]);
}

// Limits in words, one line each.
export function lines(flow: Flow | null | undefined): Line[] {
  const { concurrency, rate, lanes, aging, breaker } = flow ?? {};
  const found: Line[] = [];
  if (concurrency) found.push(["at once", text(concurrency)]);
  if (rate) found.push(["rate", rateWords(rate)]);
  if (aging) found.push(["aging", spanText(aging)]);
  if (lanes) {
    found.push(["keys", "take turns"], ...ruleLines("each key", lanes));
    for (const [key, rule] of Object.entries(lanes.keys ?? {})) {
      const said = ruleLines(`key ${key}`, rule);
      found.push(...(said.length ? said : [[`key ${key}`, "as every key"] as Line]));
    }
  }
  if (breaker) found.push(["breaker", `${text(breaker.errors)} of ${text(breaker.of)} fail within ${spanText(breaker.within)}: nothing starts for ${spanText(breaker.pause)}`]);
  return found;
}

// What holds for a key: its own rule before that of every key.
export function ruleOf(flow: Flow | null | undefined, key: string | null | undefined): LaneRule {
  const { keys = {}, ...each } = flow?.lanes ?? {};
  const own = key && Object.hasOwn(keys, key) ? keys[key] : {};
  return { ...each, ...said(own) };
}
