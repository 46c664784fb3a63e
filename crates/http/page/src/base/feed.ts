// A stream of server-sent events that resumes where it broke. Read by fetch and not by EventSource, which tells nobody why it
// was refused. Events come in batches, one per animation frame. A hidden page holds no connection: browsers have six.

import { parseExact, Problem, refused, unreachable, type JobEvent, type Params } from "./api.ts";

type State = "live" | "reconnecting" | "offline";
type Options = {
  params?: Params;
  after?: string;
  signal: AbortSignal;
  onOpen?: () => void;
  onEvents: (events: JobEvent[]) => void;
  // How many events a stream that gathers left out.
  onSkipped?: (n: number) => void;
  onState: (state: State) => void;
};

const SILENT_MS = 40_000; // the server says something every 15 s
const PAUSES_MS = [250, 500, 1000, 2000, 4000];
const OFFLINE_AFTER = 6;

const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((wake) => {
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), wake()), { once: true });
  });

const shown = (signal: AbortSignal) =>
  new Promise<void>((wake) => {
    document.addEventListener("visibilitychange", () => document.hidden || wake(), { signal });
    signal.addEventListener("abort", () => wake(), { once: true });
  });

// follow("v1/feed", { params, after, signal, onOpen, onEvents, onState }). Without `after` events come from now on: whatever was
// read before onOpen may be older than the first of them, and has to be read once more.
export async function follow(path: string, { params = {}, after = "", signal, onOpen, onEvents, onSkipped, onState }: Options) {
  const batch = new Batch(onEvents, signal);
  let cursor = after;
  let failed = 0;
  while (!signal.aborted) {
    if (document.hidden) await shown(signal);
    if (signal.aborted) return;
    try {
      const opened = () => {
        failed = 0;
        onState("live");
        onOpen?.();
      };
      for await (const { id, name, text } of listen(path, { ...params, after: cursor }, signal, opened)) {
        if (text && name === "skipped") onSkipped?.(Number(parseExact(text).skipped));
        else if (text) batch.add(parseExact(text) as JobEvent);
        if (id) cursor = id;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status === 410) cursor = "";
      else if (error instanceof Problem && (error.status === 401 || error.status === 403 || error.status === 404)) {
        onState("offline");
        return;
      }
    }
    if (signal.aborted) return;
    if (document.hidden) continue;
    failed += 1;
    onState(failed >= OFFLINE_AFTER || !navigator.onLine ? "offline" : "reconnecting");
    await sleep(PAUSES_MS[Math.min(failed, PAUSES_MS.length) - 1] * (0.75 + Math.random() / 2), signal);
  }
}

// One connection: yields events with their ids until it ends.
async function* listen(path: string, params: Params, signal: AbortSignal, opened: () => void) {
  const ending = new AbortController();
  const stop = () => ending.abort();
  const hide = () => document.hidden && ending.abort();
  signal.addEventListener("abort", stop);
  document.addEventListener("visibilitychange", hide);
  let timer = setTimeout(stop, SILENT_MS);
  try {
    const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
    const asked: RequestInit = { headers: { accept: "text/event-stream" }, signal: ending.signal, cache: "no-store" };
    const response = await fetch(`${path}?${query}`, asked).catch(() => {
      throw unreachable();
    });
    if (!response.ok) throw await refused(response);
    opened();
    const reader = response.body!.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array<ArrayBuffer>, string>).getReader();
    const frames = new Frames();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENT_MS);
      yield* frames.read(value);
    }
  } finally {
    clearTimeout(timer);
    ending.abort();
    signal.removeEventListener("abort", stop);
    document.removeEventListener("visibilitychange", hide);
  }
}

// The text of a stream, cut into events.
export class Frames {
  #rest = "";
  #id = "";
  #name = "";
  #lines: string[] = [];

  *read(text: string) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith("data:")) this.#lines.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line.startsWith("id:")) this.#id = line.slice(3).trim();
      else if (line.startsWith("event:")) this.#name = line.slice(6).trim();
      else if (line === "") {
        yield { id: this.#id, name: this.#name, text: this.#lines.join("\n") };
        this.#lines = [];
        this.#name = "";
      }
    }
  }
}

// Gathers events and hands them over once per frame.
class Batch {
  #waiting: JobEvent[] = [];
  onEvents: Options["onEvents"];
  signal: AbortSignal;

  constructor(onEvents: Options["onEvents"], signal: AbortSignal) {
    this.onEvents = onEvents;
    this.signal = signal;
  }

  add(event: JobEvent) {
    this.#waiting.push(event);
    if (this.#waiting.length === 1) requestAnimationFrame(() => this.#hand());
  }

  #hand() {
    const events = this.#waiting;
    this.#waiting = [];
    if (!this.signal.aborted) this.onEvents(events);
  }
}
