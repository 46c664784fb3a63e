// Filters: as the API names them in the address, as short words in one box. `kind:email.send tag:shop`, a bare word is a kind,
// an id, or a piece of one that no other job has, goes to its job.

import { get, type Job } from "../base/api.ts";

export const NAMES: Record<string, string> = {
  queue: "queue", kind: "kind", tag: "tag", error: "error_code", agent: "agent_id", worker: "worker_id", parent: "parent_id", problem: "problem",
  created_after: "created_after", created_before: "created_before", finished_after: "finished_after", finished_before: "finished_before",
};
export const SHORT = Object.fromEntries(Object.entries(NAMES).map(([short, name]) => [name, short]));
export const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// What may be a piece of an id: lists show the end. A kind may look the same, so a piece that no id has is a kind.
const PIECE = /^…?[0-9a-f-]{4,35}$/i;
const LOOKED_PAGES = 5;
const TOKEN = /(?:([a-z_]+):)?("[^"]*"|\S+)/g;

// What lists are asked with: every filter of the address.
export const FILTERS = ["status", "dead", ...Object.values(NAMES)];
// What the feed is asked with: what never changes about a job. A job that leaves a status must be heard of too.
export const FIXED = ["queue", "kind", "tag", "agent_id", "parent_id"];

export const pick = (params: URLSearchParams, names: string[]) => Object.fromEntries(names.filter((name) => params.get(name)).map((name) => [name, params.get(name)!]));

// The words of the box for an address.
export function toText(params: URLSearchParams) {
  const quoted = (value: string) => (/[\s"]/.test(value) ? `"${value}"` : value);
  return Object.values(NAMES).filter((name) => params.get(name)).map((name) => `${SHORT[name]}:${quoted(params.get(name)!)}`).join(" ");
}

// { params } of the words, or the { id } of a job, or { wrong } with what to do. One bare word that may be a { piece } of an id has
// { params } beside it, in which it is a kind.
export type Said = { params?: Map<string, string>; id?: string; piece?: string; wrong?: string };

export function fromText(text: string): Said {
  const params = new Map<string, string>();
  for (const [whole, short, value] of text.trim().matchAll(TOKEN)) {
    if (!short && ID.test(whole)) return { id: whole.toLowerCase() };
    const name = short ? NAMES[short] ?? (SHORT[short] && short) : "kind";
    if (!name) return { wrong: `there is no filter ${short}; there are ${Object.keys(NAMES).slice(0, 7).join(", ")}, created_after, finished_before …` };
    if (params.has(name)) return { wrong: `${short ?? name} is there twice; one of each` };
    params.set(name, value.replace(/^"|"$/g, ""));
  }
  const alone = text.trim();
  return PIECE.test(alone) ? { params, piece: alone.replace("…", "").toLowerCase() } : { params };
}

// The ids among the newest jobs that have this piece.
export async function having(piece: string) {
  const found: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < LOOKED_PAGES; page += 1) {
    const answer = await get<{ jobs: Job[]; next_cursor?: string }>("v1/jobs", { limit: 1000, cursor });
    found.push(...answer.jobs.map((job) => job.id).filter((id) => id.includes(piece)));
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return found;
}

// An address with some filters changed. What is empty is left out, and paging begins anew.
export function address(params: URLSearchParams, changes: Record<string, string>) {
  const next = new URLSearchParams();
  for (const name of FILTERS) {
    const value = name in changes ? changes[name] : params.get(name);
    if (value) next.set(name, value);
  }
  return next.size ? `#/jobs?${next}` : "#/jobs";
}
