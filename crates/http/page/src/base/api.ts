// The public API, and nothing else. A refusal is a Problem; a 401 also brings up the sign-in. Addresses are relative to the
// document, so the page works under any path of a proxy.

import type { components } from "./api.gen.ts";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type JobEvent = Schemas["Event"];
export type Queue = Schemas["Queue"];
export type Worker = Schemas["Worker"];
export type Now = Schemas["Now"];
export type Stats = Schemas["Stats"];
export type Problems = Schemas["Problems"];
export type ProblemGroup = Schemas["ProblemGroup"];
export type Approval = Schemas["Approval"];
export type Schedule = Schemas["Schedule"];
export type AuditEntry = Schemas["AuditEntry"];
export type AccessKey = Schemas["AccessKey"];
export type Session = Schemas["Session"];
export type Leader = Schemas["Leader"];
export type SettingsState = Schemas["SettingsState"];
export type Trigger = Schemas["Trigger"];
export type BulkDone = Schemas["BulkDone"];
export type Operation = Schemas["Operation"];
export type Mark = Schemas["Mark"];
export type View = Schemas["View"];
export type Alert = Schemas["Alert"];
export type Calendar = Schemas["Calendar"];
export type LogLine = Schemas["LogLine"];
export type Question = Schemas["Question"];
export type Graph = Schemas["Graph"];
export type Flow = Schemas["QueueLimits"];
export type LaneRule = Schemas["Lane"];
export type LaneState = Schemas["LaneState"];
export type Rate = Schemas["Rate"];

type Said = { status?: number; title?: string; detail?: string; code?: string; request_id?: string };

export class Problem extends Error {
  status: number;
  title: string;
  detail: string;
  code: string;
  requestId: string;

  constructor({ status = 0, title = "", detail = "", code = "", request_id = "" }: Said) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.code = code;
    this.requestId = request_id;
  }
}

// Anything that was thrown, as something that can be shown.
export const asProblem = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem({ title: "this did not work", detail: error instanceof Error ? error.message : String(error) });

// A number that JavaScript would change: shown as it was sent.
export class Exact {
  source: string;
  constructor(source: string) {
    this.source = source;
  }
  valueOf() {
    return Number(this.source);
  }
  // Sent back as a number, where a setting goes back as it came.
  toJSON() {
    return Number(this.source);
  }
}

const exactly = (_: string, value: unknown, context?: { source?: string }) =>
  typeof value === "number" && context?.source && String(value) !== context.source ? new Exact(context.source) : value;

export const parseExact = (text: string) => JSON.parse(text, exactly as (key: string, value: unknown) => unknown);

let strange: (problem: Problem) => void = () => {};

// What to do when a key is asked for.
export function onStranger(act: (problem: Problem) => void) {
  strange = act;
}

let skewMs = 0;

// The server's clock, as well as its answers tell; a browser's may be off by minutes.
export const now = () => Date.now() + skewMs;

function readClock(response: Response) {
  const said = Date.parse(response.headers.get("date") ?? "");
  const off = said - Date.now();
  // The header counts whole seconds: less than two of difference means nothing.
  if (!Number.isNaN(off)) skewMs = Math.abs(off) < 2000 ? 0 : off;
}

export async function refused(response: Response) {
  const said = await response.json().catch(() => null);
  const problem = new Problem(said?.title ? said : { status: response.status, title: `the server answered ${response.status}` });
  if (response.status === 401) strange(problem);
  return problem;
}

export const unreachable = () =>
  new Problem({ title: "the server does not answer", detail: "it may be restarting, or the network is down; this page keeps trying" });

type Sent = { body?: unknown; signal?: AbortSignal; headers?: Record<string, string> };

async function send(method: string, path: string, { body, signal, headers = {} }: Sent = {}) {
  const asked: RequestInit & { headers: Record<string, string> } = { method, signal, headers: { accept: "application/json", ...headers } };
  if (body !== undefined) {
    asked.headers["content-type"] = "application/json";
    asked.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(path, asked);
  } catch (error) {
    throw (error as Error).name === "AbortError" ? error : unreachable();
  }
  readClock(response);
  if (!response.ok) throw await refused(response);
  return response.text();
}

export type Params = Record<string, string | number | boolean | null | undefined>;

// GET, with parameters that may be absent.
export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const there = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(there.map(([name, value]) => [name, String(value)]));
  return parseExact(await send("GET", query.size ? `${path}?${query}` : path, { signal })) as T;
}

const answer = (text: string) => JSON.parse(text || "null");

export const post = async <T>(path: string, body?: unknown, headers?: Record<string, string>): Promise<T> => answer(await send("POST", path, { body, headers }));

export const put = async <T>(path: string, body: unknown): Promise<T> => answer(await send("PUT", path, { body }));

export const remove = (path: string) => send("DELETE", path);

// A key of one's own for a request that makes something, so that it can be sent again.
export const onceKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
