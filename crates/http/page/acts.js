// What a person can do to a job, an approval or a queue. Each asks first, sends one request, and says what came of it.

import { onceKey, post, Problem, put } from "./api.js";
import { fill, h, problemBox, tell } from "./dom.js";
import { print } from "./json.js";
import { word } from "./status.js";

// Asks in a dialog and sends. `send(form)` resolves to what is told; a refusal stays in the dialog, which stays open.
export function ask({ title, text, fields = [], yes, tone = "", send }) {
  const trouble = h("div");
  const go = h("button", { type: "submit", class: `main ${tone}` }, yes);
  const form = h("form", { method: "dialog" },
    h("h2", null, title), text && h("p", null, text), fields, trouble,
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => dialog.close() }, "Not now"), go));
  const dialog = h("dialog", { aria: { label: title } }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      const said = await send(form.elements);
      dialog.close();
      if (said) tell(said);
    } catch (problem) {
      if (problem.status === 401) dialog.close();
      else fill(trouble, problemBox(problem instanceof Problem ? problem : new Problem({ title: "this cannot be sent", detail: problem.message })));
    } finally {
      go.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (form.querySelector("input, textarea") ?? go).focus();
}

const field = (label, input) => h("label", { class: "field" }, h("span", null, label), input);
const tick = (name, label) => h("label", { class: "tick" }, h("input", { type: "checkbox", name }), label);
const reason = () => field("Reason, for the record", h("input", { name: "reason", maxlength: "1000", autocomplete: "off" }));
const said = (form) => (form.reason.value.trim() ? { reason: form.reason.value.trim() } : {});

// A payload to be changed. It starts with today's, as the server wrote it; what is left as it is, is not sent.
const written = (job) => (job.payload === undefined ? "" : print(job.payload));
const payloadField = (job) => field(job.payload_base64 ? "Another payload, as JSON; empty keeps the present one, which is not JSON" : "Payload, as JSON",
  h("textarea", { name: "payload", rows: "6", spellcheck: "false", class: "mono", value: written(job) }));

// The body of a request with the payload as it stands in the form, digit by digit, if it was changed.
function withPayload(body, form, job) {
  const text = form.payload.value.trim();
  if (!text || text === written(job).trim()) return body;
  JSON.parse(text);
  return JSON.stringify({ ...body, payload: null }).replace(/null}$/, () => `${text}}`);
}

export function cancel(job, done) {
  const isHeld = job.status === "running";
  ask({
    title: `Cancel ${job.kind}?`,
    text: isHeld ? "Its worker is asked to stop and has 30 seconds; what it finishes before that counts." : "It will not run. It can be redriven later.",
    fields: [reason(), isHeld && tick("force", "do not wait for the worker")],
    yes: "Cancel the job", tone: "danger",
    send: async (form) => {
      const answer = await post(`/v1/jobs/${job.id}/cancel`, { ...said(form), ...(form.force?.checked && { force: true }) });
      done(answer.job);
      return answer.job.status === "cancelled" ? "the job is cancelled" : "the worker was asked to stop";
    },
  });
}

export function redrive(job, done) {
  const key = onceKey();
  ask({
    title: `Send ${job.kind} back?`,
    text: "It goes back into its queue with all its retries. Recorded steps are not done again.",
    fields: [payloadField(job), tick("from_start", "forget recorded steps and begin at the start")],
    yes: "Redrive",
    send: async (form) => {
      const body = withPayload(form.from_start.checked ? { from_start: true } : {}, form, job);
      const answer = await post(`/v1/jobs/${job.id}/redrive`, body, { "idempotency-key": key });
      done(answer.job);
      return `the job is ${word(answer.job.status)} again`;
    },
  });
}

export function fork(job, version) {
  const key = onceKey();
  ask({
    title: version ? `Fork ${job.kind} at version ${version}?` : `Fork ${job.kind}?`,
    text: "A new job with the same log up to here: recorded steps are not done again. This one stays as it is.",
    fields: [payloadField(job)],
    yes: "Fork",
    send: async (form) => {
      const body = withPayload(version ? { from_version: version } : {}, form, job);
      const answer = await post(`/v1/jobs/${job.id}/fork`, body, { "idempotency-key": key });
      location.hash = `#/jobs/${answer.job.id}`;
      return "this is the new job";
    },
  });
}

export function decide(approval, decision, done) {
  const isYes = decision === "approve";
  ask({
    title: isYes ? "Approve?" : "Deny?",
    text: [h("span", { class: "prompt" }, approval.prompt), !isYes && h("span", { class: "muted" }, " The job fails when it is denied.")],
    fields: [reason()],
    yes: isYes ? "Approve" : "Deny", tone: isYes ? "" : "danger",
    send: async (form) => {
      const answer = await post(`/v1/approvals/${approval.id}/decide`, { decision, ...said(form) });
      done(answer);
      return answer.status === "pending" ? "your vote counts; more are needed" : `it is ${answer.status}`;
    },
  });
}

export function pause(queue, done) {
  ask({
    title: `Pause queue ${queue.name}?`,
    text: "No worker takes its jobs until it is resumed; those that run go on.",
    yes: "Pause",
    send: async () => {
      done((await post(`/v1/queues/${encodeURIComponent(queue.name)}/pause`)).queue);
      return `queue ${queue.name} is paused`;
    },
  });
}

// Harmless: it needs no question.
export async function resume(queue, done) {
  try {
    done((await post(`/v1/queues/${encodeURIComponent(queue.name)}/resume`)).queue);
    tell(`queue ${queue.name} goes on`);
  } catch (problem) {
    tell(`${problem.title}: ${problem.detail}`, "bad");
  }
}

export function drain(worker, done) {
  ask({
    title: `Drain worker ${worker.id}?`,
    text: "It takes no more jobs; those that run go on. Let it take jobs again, or end it when it is idle.",
    yes: "Drain",
    send: async () => {
      done(await put(`/v1/workers/${encodeURIComponent(worker.id)}`, { draining: true }));
      return `worker ${worker.id} drains`;
    },
  });
}

// Harmless: it needs no question.
export async function undrain(worker, done) {
  try {
    done(await put(`/v1/workers/${encodeURIComponent(worker.id)}`, { draining: false }));
    tell(`worker ${worker.id} takes jobs again`);
  } catch (problem) {
    tell(`${problem.title}: ${problem.detail}`, "bad");
  }
}

// A question that waits for somebody, with its buttons.
export function approvalCard(approval, done, withJob) {
  return h("article", { class: "approval", dataset: { id: approval.id } },
    h("div", { class: "asked" },
      h("p", { class: "prompt" }, approval.prompt),
      withJob),
    approval.status === "pending"
      ? h("div", { class: "row" },
          h("button", { type: "button", class: "main", dataset: { means: `approve ${approval.id}` }, onclick: () => decide(approval, "approve", done) }, "Approve"),
          h("button", { type: "button", dataset: { means: `deny ${approval.id}` }, onclick: () => decide(approval, "deny", done) }, "Deny"))
      : h("span", { class: "muted" }, approval.status));
}
