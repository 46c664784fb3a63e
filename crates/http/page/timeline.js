// A job's life by time: how long it stood in line, ran, and waited; its steps; what people did.

import { now } from "./api.js";
import { fill, h } from "./dom.js";
import { movedTo, word } from "./status.js";
import { duration } from "./time.js";

const LANES_MAX = 60;
const STEPS = [1, 2, 5, 10, 20, 30].flatMap((n) => [1, 1000, 60_000, 3_600_000, 86_400_000].map((unit) => n * unit)).concat([100, 200, 500, 50, 300_000, 6 * 3_600_000]).sort((a, b) => a - b);
const MARKS = { job_cancel_requested: "cancel requested", job_redriven: "redriven", job_forked: "forked", job_approval_asked: "approval asked", job_approval_voted: "vote", job_signalled: "signal" };

// Lanes from events, oldest first. Each has a name and bars { from, to, tone, text }.
function lanes(events) {
  const line = { name: "in line", bars: [] };
  const people = { name: "from outside", bars: [] };
  const all = [line];
  let [open, attempt, wait] = [null, null, null];
  const steps = new Map();
  const close = (bar, at, tone) => bar && Object.assign(bar, { to: at, tone: tone ?? bar.tone });
  for (const event of events) {
    const at = Date.parse(event.at);
    const to = movedTo(event);
    const said = event.detail ?? {};
    if (to) {
      close(open, at);
      close(wait, at);
      // Taken again while it ran: the lease before was lost. One that waits has ended as it should.
      close(attempt, at, to === "running" ? "failed" : to === "waiting" ? "completed" : to);
      if (attempt && to !== "running") attempt.text += `: ${word(to)}${said.code ? `, ${said.code}` : ""}`;
      for (const bar of steps.values()) Object.assign(bar, { to: at, tone: "retry", text: `${bar.text}, not finished` });
      steps.clear();
      [open, attempt, wait] = [null, null, null];
      if (to === "pending" || to === "retry" || to === "orphaned" || to === "assigned") line.bars.push((open = { from: at, tone: to, text: to === "retry" ? "waiting for the next try" : word(to) }));
      if (to === "waiting") all.push({ name: `${said.waits_for}${said.name ? ` ${said.name}` : ""}`, bars: [(wait = { from: at, tone: "waiting", text: `waiting for ${said.waits_for}` })] });
      if (to === "running") all.push({ name: `attempt ${event.attempt}`, bars: [(attempt = { from: at, tone: "running", text: `attempt ${event.attempt} on ${event.actor}` })] });
    }
    if (wait && (said.woke || event.type === "job_woken")) {
      close(wait, at);
      wait = null;
      line.bars.push((open = { from: at, tone: "pending", text: "woken, in line" }));
    }
    if (event.type === "node_started" || event.type === "tool_called") {
      const bar = { from: at, tone: "running", text: said.name };
      steps.set(said.name, bar);
      all.push({ name: said.name, isStep: true, bars: [bar] });
    }
    if (event.type === "node_finished" || event.type === "tool_returned") {
      const bar = steps.get(said.name);
      if (bar) Object.assign(bar, { to: at, tone: "completed" });
      else all.push({ name: said.name, isStep: true, bars: [{ from: at, to: at, tone: "completed", text: said.name }] });
      steps.delete(said.name);
    }
    if (MARKS[event.type]) people.bars.push({ from: at, to: at, isMark: true, tone: "mark", text: `${MARKS[event.type]}${said.name ? ` ${said.name}` : ""}${said.decision ? `: ${said.decision}` : ""}, ${event.actor}` });
  }
  if (people.bars.length) all.push(people);
  return all.filter((lane) => lane.bars.length);
}

// Fills `el`. `until` is when the job ended; without it time goes on.
export function timeline(el, events, until) {
  if (events.length === 0) return;
  const from = Date.parse(events[0].at);
  const to = Math.max(until ? Date.parse(until) : now(), Date.parse(events.at(-1).at), from + 1);
  const span = to - from;
  const share = (at) => Math.max(0, Math.min(100, ((at - from) / span) * 100));
  const most = Math.max(2, Math.min(7, (el.clientWidth - 160) / 90));
  const step = STEPS.find((ms) => span / ms <= most) ?? span / 5;
  // The last one would stand beyond the edge.
  const ticks = Array.from({ length: Math.floor(span / step) + 1 }, (_, n) => n * step).filter((ms) => ms / span < 0.93);
  const axis = h("div", { class: "track axis" }, ticks.map((ms) => placed(h("span", null, ms === 0 ? "0" : duration(ms).replace(".0", "")), (ms / span) * 100)));
  const all = lanes(events);
  fill(el,
    h("div", { class: "lane" }, h("span", { class: "lane-name muted" }, duration(span)), axis),
    all.slice(0, LANES_MAX).map((lane) => h("div", { class: lane.isStep ? "lane step" : "lane" },
      h("span", { class: "lane-name", title: lane.name }, lane.name),
      h("div", { class: "track" }, lane.bars.map((bar) => drawn(bar, share, to))))),
    all.length > LANES_MAX && h("p", { class: "muted" }, `${all.length - LANES_MAX} more are in the events below`));
}

// Positions are set through the object model: the policy lets no style stand in markup.
function placed(el, left, width) {
  el.style.left = `${left}%`;
  if (width !== undefined) el.style.width = `${width}%`;
  return el;
}

function drawn(bar, share, end) {
  const to = bar.to ?? end;
  const text = bar.isMark ? bar.text : `${bar.text} · ${duration(to - bar.from)}${bar.to ? "" : " so far"}`;
  const el = h("span", { class: `span ${bar.isMark ? "mark" : ""} ${bar.to ? "" : "open"}`, dataset: { tone: bar.tone }, title: text, role: "img", aria: { label: text } });
  return placed(el, share(bar.from), bar.isMark ? undefined : share(to) - share(bar.from));
}
