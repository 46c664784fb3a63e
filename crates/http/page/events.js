// The log of a job: one line per event, newest first, and what each of them says in words.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { jsonBox, print, valueBox } from "./json.js";
import { short } from "./row.js";
import { ago, clock } from "./time.js";

const PAGE = 100;

const SAYS = {
  job_created: (said) => [said.queue && `in queue ${said.queue}`, said.parent_id && [", spawned by ", jobLink(said.parent_id)]],
  job_claimed: (_, event) => `attempt ${event.attempt}`,
  job_retried: (said) => [h("span", { class: "code" }, said.code), `, retry ${said.retries}, due `, ago(said.due_at)],
  job_released: (said) => ["due again ", ago(said.due_at)],
  job_failed: (said) => h("span", { class: "code" }, said.code),
  job_timed_out: (said) => (said.due_at ? ["due again ", ago(said.due_at)] : "for good"),
  job_waiting: (said) => [`for ${said.waits_for}${said.name ? ` ${said.name}` : ""}`, said.deadline_at && [", until ", ago(said.deadline_at)]],
  job_woken: (said) => `${said.waits_for} expired`,
  job_signalled: (said) => `${said.name}${said.woke ? ", which it waited for" : ", kept"}`,
  job_child_finished: (said) => [jobLink(said.child), ` ${said.status}`],
  job_children_added: (said) => `${said.children.length} children`,
  job_cancel_requested: (said) => [said.reason, " forced ", ago(said.force_at)],
  job_cancelled: (said) => said.reason,
  job_redriven: (said) => (said.from_start ? "from the start" : "recorded steps kept"),
  job_forked: (said) => ["from ", jobLink(said.from), ` at version ${said.from_version}`],
  job_progressed: (said) => [said.progress !== undefined && `${said.progress} % `, said.stage],
  job_approval_asked: (said) => said.prompt,
  job_approval_voted: (said) => `${said.decision} by ${said.by}${said.reason ? `: ${said.reason}` : ""}`,
};

const WORDED = ["name", "code", "retries", "due_at", "waits_for", "deadline_at", "progress", "stage", "woke", "reason", "from", "from_version", "from_start"];

const jobLink = (id) => h("a", { class: "mono", href: `#/jobs/${id}` }, short(id));

function says(event) {
  const said = event.detail ?? {};
  const tell = SAYS[event.type];
  return tell ? tell(said, event) : said.name ?? (event.detail ? print(event.detail) : "");
}

// Made when it is opened: an event can bring a mebibyte.
function more(event) {
  const hasPayload = event.payload !== undefined || event.payload_base64 !== undefined;
  const isNull = event.payload === null;
  // What was said in words already is not offered again.
  const hasDetail = event.detail && Object.keys(event.detail).some((name) => !WORDED.includes(name));
  if (!hasDetail && (!hasPayload || isNull)) return null;
  const place = h("div");
  return h("details", {
    ontoggle: () => place.firstChild || fill(place, hasPayload && !isNull && valueBox(event, "payload"), hasDetail && jsonBox(event.detail, "detail")),
  }, h("summary", null, hasPayload && !isNull ? "payload" : "detail"), place);
}

export class EventLog {
  #known = new Map();
  #next = null;

  constructor(id, signal, onPick) {
    Object.assign(this, { id, signal, onPick });
    this.body = h("tbody");
    this.pager = h("div", { class: "pager" });
    const head = ["#", "When", "Event", "Says", "By"].map((text) => h("th", { scope: "col" }, text));
    this.el = h("div", null, h("table", { class: "events" }, h("caption", { class: "hidden" }, "events, newest first"), h("thead", null, h("tr", null, head)), this.body), this.pager);
  }

  // Everything that was read, oldest first.
  get all() {
    return [...this.#known.values()].sort((a, b) => a.version - b.version);
  }

  get first() {
    return this.#known.size ? Math.min(...this.#known.keys()) : 0;
  }

  // Reads the newest, or those before the oldest that is known.
  async read() {
    const answer = await get(`/v1/jobs/${this.id}/events`, { order: "desc", limit: PAGE, after: this.#next ?? undefined }, this.signal);
    this.#next = answer.next_after;
    this.add(answer.events);
    fill(this.pager, this.#next && h("button", { type: "button", onclick: () => this.read().then(() => this.onMore?.()) }, "older events"));
  }

  // Takes events in any order; those that are known are left out. Answers whether any were new.
  add(events) {
    const fresh = events.filter((event) => !this.#known.has(event.version));
    for (const event of fresh) {
      this.#known.set(event.version, event);
      const row = this.row(event);
      let below = this.body.firstElementChild;
      while (below && Number(below.dataset.version) > event.version) below = below.nextElementSibling;
      this.body.insertBefore(row, below);
    }
    return fresh.length > 0;
  }

  row(event) {
    const version = h("button", { type: "button", class: "quiet version", title: `the job as it stood at version ${event.version}`, onclick: () => this.onPick(event.version) }, event.version);
    return h("tr", { dataset: { version: event.version } },
      h("td", { class: "c-version" }, version),
      h("td", { class: "c-at" }, clock(event.at)),
      h("td", { class: "c-type mono" }, event.type),
      h("td", { class: "c-says" }, h("span", null, says(event)), more(event)),
      h("td", { class: "c-by muted", title: event.actor }, event.actor.replace(/^worker:/, "")));
  }

  // Marks the version that is looked at.
  mark(version) {
    for (const el of this.body.children) {
      const at = Number(el.dataset.version);
      el.classList.toggle("at", at === version);
      el.classList.toggle("later", version !== null && at > version);
    }
  }
}
