// The lines that a job's handler wrote. They are no events, so they are asked for while the job runs.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { clock } from "./time.js";

const PAGE = 200;
const MOST = 2000;

export class LogLines {
  #last = 0;
  #count = 0;
  #reading = null;

  constructor(id, signal) {
    Object.assign(this, { id, signal });
    this.lines = h("div", { class: "lines mono", tabindex: "0", role: "log", aria: { label: "log lines" } });
    this.more = h("div", { class: "pager" });
    this.el = h("section", { class: "panel", hidden: true }, h("h2", null, "Log"), this.lines, this.more);
  }

  // Reads what is new; never twice at once.
  read() {
    this.#reading ??= this.#page().finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #page() {
    const { lines } = await get(`/v1/jobs/${this.id}/logs`, { after: this.#last, limit: PAGE }, this.signal);
    if (lines.length === 0) return;
    const isAtEnd = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 8;
    this.lines.append(...lines.map(({ at, attempt, line }) => h("p", null, clock(at), h("span", { class: "muted", title: "attempt" }, `#${attempt}`), h("span", null, line))));
    this.#last = Number(lines.at(-1).n);
    this.#count += lines.length;
    this.el.hidden = false;
    if (isAtEnd) this.lines.scrollTop = this.lines.scrollHeight;
    const isMore = lines.length === PAGE;
    fill(this.more, isMore && h("button", { type: "button", onclick: () => this.read() }, "more lines"));
    if (isMore && this.#count < MOST) await this.#page();
  }
}
