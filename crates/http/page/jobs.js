// The list of jobs: one page of the API, moved on by the feed.

import { get } from "./api.js";
import { empty, fill, h, problemBox } from "./dom.js";
import { follow } from "./feed.js";
import { FILTERS, FIXED, filterBox, last, pick } from "./filter.js";
import { overview } from "./overview.js";
import { HEADS, Row } from "./row.js";
import { fold, fresh } from "./status.js";

const PAGE = 50;
// More events in one frame than this are not worth following one by one.
const FLOOD = 500;
const REFRESH_MS = 1000;

export function mount(root, { params, signal, setLive }) {
  last.list = location.hash || "#/jobs";
  const list = new JobList(params, signal);
  const top = h("section", { class: "overview", aria: { label: "overview" } });
  const queues = overview(top, params, signal, (problem) => (problem ? list.trouble(problem) : list.isTroubled && list.load()));
  const known = () => ({ queue: queues, kind: list.values((job) => [job.kind]), tag: list.values((job) => job.tags) });
  fill(root, h("h1", { class: "hidden" }, "Jobs"), top, filterBox(params, known), list.el);
  list.load();
  follow("/v1/feed", {
    params: pick(params, FIXED), signal, onState: setLive,
    // A stream that goes on tells what was missed; the page is read once more for what is no event, such as trouble.
    onOpen: () => list.load(),
    onEvents: (events) => list.hear(events),
  });
}

class JobList {
  #rows = new Map();
  #timer = 0;
  #loading = false;
  #again = false;

  constructor(params, signal) {
    Object.assign(this, { params, signal });
    this.filters = pick(params, FILTERS);
    this.cursor = params.get("cursor") ?? "";
    // Rows whose place depends on where they stand can only be read again; the others are followed.
    this.isFollowed = Object.keys(this.filters).every((name) => FIXED.includes(name));
    this.body = h("tbody");
    this.note = h("div", { class: "under" });
    this.pager = h("nav", { class: "pager", aria: { label: "pages" } });
    this.table = h("table", { class: "jobs" }, h("caption", { class: "hidden" }, "jobs"),
      h("thead", null, h("tr", null, HEADS.map(([name, text]) => h("th", { class: `c-${name}`, scope: "col" }, text)))), this.body);
    this.el = h("section", { aria: { label: "jobs" } }, this.table, this.note, this.pager);
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  values(of) {
    return new Set([...this.#rows.values()].flatMap((row) => of(row.job)));
  }

  // Reads the page; one reading at a time, and one more when somebody asked meanwhile.
  async load() {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    try {
      const answer = await get("/v1/jobs", { ...this.filters, cursor: this.cursor, limit: PAGE }, this.signal);
      this.show(answer);
    } catch (error) {
      this.trouble(error);
    } finally {
      this.#loading = false;
      if (this.#again) {
        this.#again = false;
        this.soon();
      }
    }
  }

  // Reads the page again in a moment, however often it is asked.
  soon() {
    if (this.#timer || this.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      this.load();
    }, REFRESH_MS);
  }

  trouble(problem) {
    if (this.signal.aborted || problem.status === 401) return;
    this.isTroubled = true;
    fill(this.note, problemBox(problem, () => this.load()));
  }

  show({ jobs, next_cursor: next }) {
    if (this.signal.aborted) return;
    this.isTroubled = false;
    const was = this.#rows;
    const isFirst = was.size === 0;
    this.#rows = new Map(jobs.map((job) => {
      const row = was.get(job.id) ?? new Row(job, !isFirst);
      row.take(job);
      return [job.id, row];
    }));
    // What was heard of while the answer was on its way is newer than the answer.
    if (this.isFollowed && !this.cursor && jobs.length) {
      const ahead = [...was.values()].filter((row) => !this.#rows.has(row.job.id) && row.job.id > jobs[0].id);
      this.#rows = new Map([...ahead.map((row) => [row.job.id, row]), ...this.#rows]);
    }
    this.place();
    fill(this.note, this.nothing(next));
    fill(this.pager,
      this.cursor && h("a", { class: "button", href: this.page("") }, "first page"),
      next && h("a", { class: "button", href: this.page(next) }, "next page"));
  }

  page(cursor) {
    const next = new URLSearchParams({ ...this.filters, ...(cursor && { cursor }) });
    return `#/jobs${next.size ? `?${next}` : ""}`;
  }

  // Puts the rows where they belong, touching only those that stand elsewhere.
  place() {
    const rows = [...this.#rows.values()];
    // Ids begin with the time of creation.
    if (this.isFollowed) rows.sort((a, b) => (a.job.id < b.job.id ? 1 : -1));
    this.#rows = new Map(rows.slice(0, PAGE).map((row) => [row.job.id, row]));
    const wanted = rows.slice(0, PAGE).map((row) => row.el);
    const keep = new Set(wanted);
    [...this.body.children].forEach((el) => keep.has(el) || el.remove());
    wanted.forEach((el, n) => this.body.children[n] !== el && this.body.insertBefore(el, this.body.children[n] ?? null));
    this.table.hidden = wanted.length === 0;
  }

  nothing(next) {
    if (this.#rows.size) return null;
    if (next) return empty("Nothing on this page", "Jobs that match are further on: go to the next page.");
    if (this.filters.dead) return empty("No dead letters", "Every job that ended, ended well or was cancelled.");
    if (Object.keys(this.filters).length) return empty("Nothing matches", "Take a filter away, or wait: this list is live.");
    return empty("No jobs yet", "Enqueue one, and it shows up here at once:", "windlass enqueue report --payload '{\"n\":1}'\nwindlass work --queue default --exec ./report.sh");
  }

  // Events of the feed: rows move at once; what they do to the list follows.
  hear(events) {
    if (events.length > FLOOD) {
      this.soon();
      return;
    }
    let isNew = false;
    for (const event of events) {
      const row = this.#rows.get(event.job_id);
      if (row) {
        if (fold(row.job, event)) row.show();
      } else if (event.type === "job_created" && this.isFollowed && !this.cursor) {
        this.#rows = new Map([[event.job_id, new Row(fresh(event), true)], ...this.#rows]);
        isNew = true;
      }
    }
    if (isNew) {
      fill(this.note);
      this.place();
    }
    if (!this.isFollowed) this.soon();
  }
}
