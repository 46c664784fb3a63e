// Filters: as the API names them in the address, as short words in one box. `kind:email.send tag:shop`, a bare word is a kind,
// an id, or the end of one as lists show it, goes to its job.

import { get } from "./api.js";
import { h } from "./dom.js";

const NAMES = {
  queue: "queue", kind: "kind", tag: "tag", error: "error_code", agent: "agent_id", worker: "worker_id", parent: "parent_id",
  created_after: "created_after", created_before: "created_before", finished_after: "finished_after", finished_before: "finished_before",
};
const SHORT = Object.fromEntries(Object.entries(NAMES).map(([short, name]) => [name, short]));
export const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
// The end of an id, as it is shown.
const END = /^[0-9a-f]{8}$/i;
const LOOKED_PAGES = 5;
const TOKEN = /(?:([a-z_]+):)?("[^"]*"|\S+)/g;

// What lists are asked with: every filter of the address.
export const FILTERS = ["status", "dead", ...Object.values(NAMES)];
// What the feed is asked with: what never changes about a job. A job that leaves a status must be heard of too.
export const FIXED = ["queue", "kind", "tag", "agent_id", "parent_id"];

export const pick = (params, names) => Object.fromEntries(names.filter((name) => params.get(name)).map((name) => [name, params.get(name)]));

// The words of the box for an address.
export function toText(params) {
  const quoted = (value) => (/[\s"]/.test(value) ? `"${value}"` : value);
  return Object.values(NAMES).filter((name) => params.get(name)).map((name) => `${SHORT[name]}:${quoted(params.get(name))}`).join(" ");
}

// { params } of the words, or { id } or the { end } of the id of a job, or { wrong } with what to do.
export function fromText(text) {
  const params = new Map();
  for (const [whole, short, value] of text.trim().matchAll(TOKEN)) {
    if (!short && ID.test(whole)) return { id: whole.toLowerCase() };
    if (!short && END.test(whole)) return { end: whole.toLowerCase() };
    const name = short ? NAMES[short] ?? (SHORT[short] && short) : "kind";
    if (!name) return { wrong: `there is no filter ${short}; there are ${Object.keys(NAMES).slice(0, 7).join(", ")}, created_after, finished_before …` };
    if (params.has(name)) return { wrong: `${short ?? name} is there twice; one of each` };
    params.set(name, value.replace(/^"|"$/g, ""));
  }
  return { params };
}

// The ids among the newest jobs that end so.
async function endingWith(end) {
  const found = [];
  let cursor;
  for (let page = 0; page < LOOKED_PAGES; page += 1) {
    const answer = await get("/v1/jobs", { limit: 1000, cursor });
    found.push(...answer.jobs.map((job) => job.id).filter((id) => id.endsWith(end)));
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return found;
}

// An address with some filters changed. What is empty is left out, and paging begins anew.
export function address(params, changes) {
  const next = new URLSearchParams();
  for (const name of FILTERS) {
    const value = name in changes ? changes[name] : params.get(name);
    if (value) next.set(name, value);
  }
  return next.size ? `#/jobs?${next}` : "#/jobs";
}

// The list that was looked at last, to go back to.
export const last = { list: "#/jobs" };

// The box. `known` gives values to offer: { queue: [...], kind: [...], tag: [...] }.
export function filterBox(params, known) {
  const offers = h("datalist", { id: "offers" });
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  const input = h("input", {
    id: "filter", type: "search", name: "filter", autocomplete: "off", spellcheck: "false", list: "offers", value: toText(params),
    placeholder: "queue:mail kind:email.send tag:shop error:smtp_busy, or a job id or its end",
  });
  const offer = () => {
    const cut = input.value.lastIndexOf(" ") + 1;
    const before = input.value.slice(0, cut);
    const there = Object.entries(known()).flatMap(([short, values]) => [...values].map((value) => `${before}${short}:${value}`));
    const more = Object.keys(NAMES).slice(0, 7).map((short) => `${before}${short}:`);
    offers.replaceChildren(...[...there, ...more].slice(0, 40).map((value) => h("option", { value })));
  };
  const apply = async (event) => {
    event.preventDefault();
    const said = fromText(input.value);
    if (said.end) {
      const [id, another] = await endingWith(said.end).catch(() => []);
      if (id && !another) said.id = id;
      else said.wrong = another ? `several ids end with ${said.end}; give a whole one` : `no id of the newest jobs ends with ${said.end}; a kind is kind:${said.end}`;
    }
    wrong.hidden = !said.wrong;
    wrong.textContent = said.wrong ?? "";
    if (said.wrong) return;
    const blank = Object.fromEntries(Object.values(NAMES).map((name) => [name, ""]));
    location.hash = said.id ? `#/jobs/${said.id}` : address(params, { ...blank, ...Object.fromEntries(said.params) });
  };
  input.addEventListener("focus", offer);
  input.addEventListener("input", () => (input.value === "" ? apply(new Event("clear")) : offer()));
  return h("form", { class: "filter", role: "search", onsubmit: apply },
    h("label", { for: "filter" }, "Filter"), input, h("kbd", { title: "press / to filter" }, "/"), offers,
    h("button", { type: "submit" }, "Apply"), wrong);
}
