// The frame: which view the address names, who is signed in, what waits for a click, and the keys of the keyboard.

import { get, onStranger } from "./api.js";
import { empty, fill } from "./dom.js";
import { ID, last } from "./filter.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import { showWho, signIn } from "./sign.js";
import * as tables from "./tables.js";
import { startTicking } from "./time.js";

const ASKED_EVERY_MS = 5000;
const root = document.getElementById("view");
const live = document.getElementById("live");
const asked = document.getElementById("asked");
const who = document.getElementById("who");

let ending = new AbortController();
let shown = null;
let isSigning = false;

// #/jobs?queue=mail, #/jobs/ID?at=3, #/approvals, #/queues, #/workers
function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [page = "jobs", id] = path.split("/").filter(Boolean);
  return { page, id, params: new URLSearchParams(query) };
}

const VIEWS = { approvals: tables.approvals, queues: tables.queues, workers: tables.workers };

function viewOf({ page, id }) {
  if (page === "jobs" && id) return ID.test(id) ? job.mount : null;
  return page === "jobs" ? jobs.mount : VIEWS[page];
}

function setLive(state) {
  live.dataset.state = state;
  live.querySelector(".word").textContent = state;
}

function show() {
  const to = route();
  // The anchor of "skip to content" is no page.
  if (location.hash === "#view") return;
  for (const link of document.querySelectorAll("nav [data-page]")) {
    if (link.dataset.page === to.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown && shown.page === to.page && shown.id === to.id && shown.update?.(to.params)) return;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  ending.abort();
  ending = new AbortController();
  isSigning = false;
  document.title = `${to.id ? "Job" : to.page[0].toUpperCase() + to.page.slice(1)} · Windlass`;
  const view = viewOf(to);
  if (!view) {
    setLive("offline");
    fill(root, empty("There is no such page", "The pages are named above."));
    shown = null;
    return;
  }
  setLive("connecting");
  const update = view(root, { ...to, signal: ending.signal, setLive });
  shown = { page: to.page, id: to.id, update };
  scrollTo(0, 0);
}

onStranger((problem) => {
  if (isSigning) return;
  isSigning = true;
  ending.abort();
  ending = new AbortController();
  setLive("offline");
  live.querySelector(".word").textContent = "signed out";
  who.hidden = true;
  shown = null;
  signIn(root, problem, () => {
    show();
    surround();
  });
});

// How many approvals wait, for the bar.
async function countAsked() {
  if (document.hidden || isSigning) return;
  const answer = await get("/v1/approvals", { status: "pending", limit: 100 }).catch(() => null);
  if (!answer) return;
  const n = answer.approvals.length;
  asked.hidden = n === 0;
  asked.textContent = n >= 100 ? "99+" : n;
  asked.title = `${n} waiting for somebody`;
}

function surround() {
  showWho(who, () => show());
  countAsked();
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  const box = document.getElementById("filter");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    if (box) box.focus();
    else {
      location.hash = "#/jobs";
      setTimeout(() => document.getElementById("filter")?.focus(), 0);
    }
  } else if (event.key === "Escape" && event.target === box) box.blur();
  else if (event.key === "Escape" && !isTyping && shown?.id && !document.querySelector("dialog[open]")) location.hash = last.list;
});

addEventListener("hashchange", show);
document.addEventListener("visibilitychange", countAsked);
setInterval(countAsked, ASKED_EVERY_MS);
addEventListener("approvals", countAsked);
startTicking();
show();
surround();
