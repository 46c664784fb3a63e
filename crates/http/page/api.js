// The public API, and nothing else. A refusal is a Problem; a 401 also brings up the sign-in.

export class Problem extends Error {
  constructor({ status = 0, title, detail = "", code = "", request_id = "" }) {
    super(detail || title);
    Object.assign(this, { status, title, detail, code, requestId: request_id });
  }
}

// A number that JavaScript would change: shown as it was sent.
export class Exact {
  constructor(source) {
    this.source = source;
  }
  valueOf() {
    return Number(this.source);
  }
}

const exactly = (_, value, context) =>
  typeof value === "number" && context?.source && String(value) !== context.source ? new Exact(context.source) : value;

export const parseExact = (text) => JSON.parse(text, exactly);

let strange = () => {};

// What to do when a key is asked for.
export function onStranger(act) {
  strange = act;
}

let skewMs = 0;

// The server's clock, as well as its answers tell; a browser's may be off by minutes.
export const now = () => Date.now() + skewMs;

function readClock(response) {
  const said = Date.parse(response.headers.get("date") ?? "");
  const off = said - Date.now();
  // The header counts whole seconds: less than two of difference means nothing.
  if (!Number.isNaN(off)) skewMs = Math.abs(off) < 2000 ? 0 : off;
}

export async function refused(response) {
  const said = await response.json().catch(() => null);
  const problem = new Problem(said?.title ? said : { status: response.status, title: `the server answered ${response.status}` });
  if (response.status === 401) strange(problem);
  return problem;
}

export const unreachable = () =>
  new Problem({ title: "the server does not answer", detail: "it may be restarting, or the network is down; this page keeps trying" });

async function send(method, path, { body, signal, headers = {} } = {}) {
  const asked = { method, signal, headers: { accept: "application/json", ...headers } };
  if (body !== undefined) {
    asked.headers["content-type"] = "application/json";
    asked.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, asked);
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable();
  }
  readClock(response);
  if (!response.ok) throw await refused(response);
  return response.text();
}

// GET, with parameters that may be absent.
export async function get(path, params = {}, signal) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== ""));
  const text = await send("GET", query.size ? `${path}?${query}` : path, { signal });
  return parseExact(text);
}

export const post = async (path, body, headers) => JSON.parse((await send("POST", path, { body, headers })) || "null");

export const put = async (path, body) => JSON.parse((await send("PUT", path, { body })) || "null");

export const remove = (path) => send("DELETE", path);

// Counts of jobs by status: the same that Prometheus reads. Null where a proxy hides them.
export async function counts(signal) {
  const text = await send("GET", "/metrics", { signal, headers: { accept: "text/plain" } }).catch(() => "");
  const found = [...text.matchAll(/^windlass_jobs\{status="(\w+)"\} (\d+)/gm)];
  return found.length ? Object.fromEntries(found.map(([, status, n]) => [status, Number(n)])) : null;
}

// A key of one's own for a request that makes something, so that it can be sent again.
export const onceKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
