// The rows of a list of jobs: read page by page, moved on by the feed. New rows gather while somebody is in the middle of something.

import { computed, signal } from "@preact/signals";
import { asProblem, get, type Job, type JobEvent, type Problem } from "../base/api.ts";
import { fold, fresh } from "../base/status.ts";
import { FILTERS, FIXED, pick } from "./filter.ts";

const PAGE = 100;
const PAGE_MOST = 1000;
// More events in one frame than this are not worth following one by one.
const FLOOD = 500;
const REFRESH_MS = 1000;
const CALM_MS = 5000;

type Answer = { jobs: Job[]; next_cursor?: string | null };

const newestFirst = (a: Job, b: Job) => (a.id < b.id ? 1 : -1);
const newer = (a: Job | undefined, b: Job) => (a && a.version > b.version ? a : b);

export class List {
  jobs = signal<Job[]>([]);
  next = signal<string | null>(null);
  isRead = signal(false);
  skipped = signal(0);
  problem = signal<Problem | null>(null);
  // Rows that came while nobody wanted the list to move.
  gathered = signal<Job[]>([]);
  selected = signal<ReadonlySet<string>>(new Set());
  // What just came or moved, for the eye.
  touched = new Map<string, "new" | "moved">();
  count = computed(() => this.jobs.value.length);

  filters: Record<string, string>;
  isFollowed: boolean;
  isBusy: () => boolean;
  #ending = new AbortController();
  #timer = 0;
  #calm = 0;
  #isLoading = false;
  #isAsked = false;

  constructor(params: URLSearchParams, isBusy: () => boolean) {
    this.filters = pick(params, FILTERS);
    // Rows whose place depends on where they stand can only be read again; the others are followed.
    this.isFollowed = Object.keys(this.filters).every((name) => FIXED.includes(name));
    this.isBusy = isBusy;
  }

  end() {
    this.#ending.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#calm);
  }

  // Reads what is shown; one reading at a time, and one more when somebody asked meanwhile.
  async load() {
    if (this.#isLoading) {
      this.#isAsked = true;
      return;
    }
    this.#isLoading = true;
    try {
      const limit = Math.min(PAGE_MOST, Math.max(PAGE, this.jobs.peek().length));
      this.#take(await get<Answer>("v1/jobs", { ...this.filters, limit }, this.#ending.signal));
      this.problem.value = null;
    } catch (error) {
      const problem = asProblem(error);
      if (!this.#ending.signal.aborted && problem.status !== 401) this.problem.value = problem;
    } finally {
      this.#isLoading = false;
      if (this.#isAsked) {
        this.#isAsked = false;
        this.soon();
      }
    }
  }

  // Events that the server left out since a while, because they came faster than eyes.
  skip(n: number) {
    this.skipped.value += n;
    clearTimeout(this.#calm);
    this.#calm = setTimeout(() => (this.skipped.value = 0), CALM_MS);
    if (n > 50) this.soon();
  }

  // Reads again in a moment, however often it is asked.
  soon() {
    if (this.#timer || this.#ending.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.load();
    }, REFRESH_MS);
  }

  // The rows after the last, if there are any.
  async more() {
    const cursor = this.next.peek();
    if (!cursor || this.#isLoading) return;
    this.#isLoading = true;
    try {
      const answer = await get<Answer>("v1/jobs", { ...this.filters, limit: 2 * PAGE, cursor }, this.#ending.signal);
      const known = new Set(this.jobs.peek().map((job) => job.id));
      this.jobs.value = [...this.jobs.peek(), ...answer.jobs.filter((job) => !known.has(job.id))];
      this.next.value = answer.next_cursor ?? null;
    } catch (error) {
      if (!this.#ending.signal.aborted) this.problem.value = asProblem(error);
    } finally {
      this.#isLoading = false;
    }
  }

  #take({ jobs: read, next_cursor }: Answer) {
    const was = new Map(this.jobs.peek().map((job) => [job.id, job]));
    const isFirst = !this.isRead.peek();
    let rows = read.map((job) => newer(was.get(job.id), job));
    if (this.isFollowed && was.size > 0) {
      const ids = new Set(rows.map((job) => job.id));
      const [top, bottom] = [read[0]?.id ?? "", read.at(-1)?.id ?? ""];
      // What was heard of while the answer was on its way is newer than the answer; what was read below it stays.
      const kept = [...was.values()].filter((job) => !ids.has(job.id) && (job.id > top || (next_cursor && job.id < bottom)));
      rows = [...rows, ...kept].sort(newestFirst);
      if (this.isBusy()) {
        const first = this.jobs.peek()[0]?.id ?? "";
        this.gathered.value = rows.filter((job) => job.id > first && !was.has(job.id));
        rows = rows.filter((job) => job.id <= first || was.has(job.id));
      } else {
        this.gathered.value = [];
      }
      if (rows.length > read.length && this.next.peek()) next_cursor = this.next.peek();
    }
    if (!isFirst) for (const job of rows) if (!was.has(job.id)) this.touched.set(job.id, "new");
    this.jobs.value = rows;
    this.next.value = next_cursor ?? null;
    this.isRead.value = true;
    this.#forget();
  }

  // Shows what gathered.
  release() {
    const there = new Set(this.jobs.peek().map((job) => job.id));
    const fresh = this.gathered.peek().filter((job) => !there.has(job.id));
    for (const job of fresh) this.touched.set(job.id, "new");
    this.jobs.value = [...fresh, ...this.jobs.peek()].sort(newestFirst);
    this.gathered.value = [];
  }

  // Events of the feed: rows move at once; what they do to the list follows.
  hear(events: JobEvent[]) {
    if (events.length > FLOOD) {
      this.soon();
      return;
    }
    const at = new Map(this.jobs.peek().map((job, n) => [job.id, n]));
    const rows = [...this.jobs.peek()];
    const came = new Map(this.gathered.peek().map((job) => [job.id, job]));
    const isBusy = this.isBusy();
    let isChanged = false;
    for (const event of events) {
      const n = at.get(event.job_id!);
      const waiting = came.get(event.job_id!);
      if (n !== undefined) {
        const next = { ...rows[n] };
        // What lies between was left out: the row is right about where it stands, and is read again for the rest.
        if (Number(event.version) > Number(next.version) + 1) this.soon();
        if (!fold(next, event)) continue;
        if (next.status !== rows[n].status) this.touched.set(next.id, "moved");
        rows[n] = next;
        isChanged = true;
      } else if (waiting) {
        fold(waiting, event);
      } else if (event.type === "job_created" && this.isFollowed) {
        came.set(event.job_id!, fresh(event));
      } else if (this.isFollowed && this.#isAbove(event)) {
        // Its first event was left out.
        this.soon();
      }
    }
    if (came.size > 0 && !isBusy) {
      for (const job of came.values()) this.touched.set(job.id, "new");
      this.jobs.value = [...came.values(), ...rows].sort(newestFirst);
      this.gathered.value = [];
    } else {
      if (isChanged) this.jobs.value = rows;
      this.gathered.value = [...came.values()].sort(newestFirst);
    }
    if (!this.isFollowed) this.soon();
  }

  // Whether a job that is not listed would stand above those that are.
  #isAbove(event: JobEvent) {
    const first = this.jobs.peek()[0];
    return !first || event.job_id! > first.id;
  }

  select(ids: string[], isOn: boolean) {
    const next = new Set(this.selected.peek());
    for (const id of ids) if (isOn) next.add(id);
    else next.delete(id);
    this.selected.value = next;
  }

  // What is no longer listed is selected no longer.
  #forget() {
    const there = new Set(this.jobs.peek().map((job) => job.id));
    const kept = [...this.selected.peek()].filter((id) => there.has(id));
    if (kept.length !== this.selected.peek().size) this.selected.value = new Set(kept);
  }
}
