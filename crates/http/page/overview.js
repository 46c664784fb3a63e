// What stands above the list: jobs by status, and what the queues hold. Read every few seconds while somebody looks.

import { counts, get } from "./api.js";
import { fill, h, icon, refill } from "./dom.js";
import { address } from "./filter.js";
import { DEAD, word } from "./status.js";
import { ago } from "./time.js";

const EVERY_MS = 3000;
const CAP = 10_000;

// The chips: name, statuses, whether they are dead letters.
const CHIPS = [
  ["all", []], ["pending", ["pending"]], ["running", ["running"]], ["retry", ["retry"]], ["waiting", ["waiting"]], ["orphaned", ["orphaned", "assigned"]],
  ["completed", ["completed"]], ["dead", DEAD], ["cancelled", ["cancelled"]],
];

export const many = (n) => (n >= CAP ? "10k+" : n.toLocaleString("en"));
const rate = (n) => (n >= 10 ? Math.round(n) : n > 0 && n < 0.1 ? "<0.1" : Number(n).toFixed(1).replace(".0", ""));

function chips(params, counted) {
  const asked = params.get("dead") ? "dead" : params.get("status");
  return CHIPS.map(([name, statuses]) => {
    const n = counted && (name === "all" ? Object.values(counted).reduce((sum, n) => sum + n, 0) : statuses.reduce((sum, status) => sum + (counted[status] ?? 0), 0));
    // Rare ones show up when there are some.
    const changes = name === "dead" ? { dead: "true", status: "" } : { dead: "", status: statuses.join(",") };
    const isOn = name === "all" ? !asked : asked === (name === "dead" ? "dead" : statuses.join(","));
    if (name === "orphaned" && !n && !isOn) return null;
    return h("a", { class: "chip", href: address(params, changes), dataset: { chip: name }, aria: { current: isOn } },
      icon(name), h("span", null, name === "dead" ? "dead letters" : word(name)),
      counted && h("b", null, name === "all" && n >= CAP ? "10k+" : many(n)));
  });
}

function card(params, queue) {
  const isOn = params.get("queue") === queue.name;
  const { enqueued, completed, dead } = queue.rates;
  return h("a", { class: "queue", href: address(params, { queue: isOn ? "" : queue.name }), aria: { current: isOn }, title: isOn ? "show all queues" : `only queue ${queue.name}` },
    h("span", { class: "name" }, queue.name, queue.paused && h("span", { class: "flag" }, icon("waiting"), "paused")),
    h("span", { class: "depth", title: "jobs that a worker could take now" }, h("b", null, queue.due_capped ? "10k+" : many(Number(queue.due))), " due",
      queue.oldest_due_at && [", oldest ", ago(queue.oldest_due_at)]),
    h("span", { class: "rates", title: "per second, over the last minute, as this server saw it" },
      `${rate(enqueued)} in · ${rate(completed)} done`, dead > 0 && h("span", { class: "bad" }, ` · ${rate(dead)} dead`), " /s"));
}

// Fills `el` for an address, and again as time goes; `onLook` hears what went wrong, or null. Answers the queues' names.
export function overview(el, params, signal, onLook) {
  const strip = h("nav", { class: "chips", aria: { label: "jobs by status" } }, chips(params, null));
  const queues = h("nav", { class: "queues", aria: { label: "queues" }, hidden: true });
  const names = new Set();
  fill(el, strip, queues);
  const look = async () => {
    if (document.hidden) return;
    try {
      const [counted, answer] = await Promise.all([counts(signal), get("/v1/queues", {}, signal)]);
      refill(strip, chips(params, counted));
      answer.queues.forEach((queue) => names.add(queue.name));
      queues.hidden = answer.queues.length === 0;
      refill(queues, answer.queues.slice(0, 12).map((queue) => card(params, queue)), answer.queues.length > 12 && h("a", { class: "queue", href: "#/queues" }, `${answer.queues.length - 12} more`));
      onLook(null);
    } catch (error) {
      if (!signal.aborted) onLook(error);
    }
  };
  look();
  const timer = setInterval(look, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  document.addEventListener("visibilitychange", look, { signal });
  return names;
}
