// The page of an approval link: one question, for somebody who is not signed in. What stands behind the # is the vote: it goes
// to this server when the page asks and when a button is pressed, and into no log and no address.

import { post } from "./api.js";
import { fill, h, problemBox } from "./dom.js";
import { ago, startTicking } from "./time.js";

const root = document.getElementById("view");
const ENDS = {
  approved: ["It is approved", "Nothing is left to do here."],
  denied: ["It is denied", "Nothing is left to do here."],
  expired: ["It is too late", "Nobody decided in time, which counts as no."],
  void: ["The question is gone", "The job that asked it has ended."],
};

const card = (...content) => fill(root, h("section", { class: "sign question" }, content));
const over = (title, text) => card(h("h1", null, title), h("p", { class: "muted" }, text));

function ended(status) {
  const [title, text] = ENDS[status] ?? ["Your vote counts", "Others have to say yes too."];
  over(title, text);
}

// A refusal in words for somebody who knows nothing of this program.
function refused(problem, again) {
  if (problem.code === "approval_forbidden") return over("This link was replaced", "A newer one was sent. Use that.");
  if (problem.code === "approval_not_found" || problem.code === "token_malformed") return over("This link is not whole", "Copy all of it, from its beginning to its end.");
  if (problem.code === "approval_decided") return over("It is decided", "This link was used, or somebody else decided before.");
  if (problem.code === "approval_expired") return ended("expired");
  card(h("h1", null, "It did not work"), problemBox(problem, again));
}

async function show() {
  const token = location.hash.slice(1);
  fill(root, h("p", { class: "empty" }, "One moment …"));
  try {
    const question = await post("/v1/approvals/by-token", { token });
    if (question.status !== "pending") return ended(question.status);
    if (question.used) return ended("pending");
    put(question, token);
  } catch (problem) {
    refused(problem, show);
  }
}

function put(question, token) {
  const reason = h("input", { id: "reason", name: "reason", maxlength: "1000", autocomplete: "off" });
  const buttons = [];
  const vote = (decision) => async () => {
    buttons.forEach((button) => (button.disabled = true));
    const said = reason.value.trim();
    try {
      const [, secret] = token.split(".");
      const answer = await post(`/v1/approvals/${question.id}/decide`, { decision, token: secret, ...(said && { reason: said }) });
      ended(answer.status);
    } catch (problem) {
      refused(problem, () => put(question, token));
    }
  };
  buttons.push(
    h("button", { type: "button", class: "main", onclick: vote("approve") }, "Yes"),
    h("button", { type: "button", class: "danger", onclick: vote("deny") }, "No"));
  card(
    h("p", { class: "muted" }, "You are asked"),
    h("h1", { class: "prompt" }, question.prompt),
    h("p", { class: "muted" }, "No answer means no, ", ago(question.expires_at), question.required > 1 && `; ${question.required} people have to say yes`, "."),
    h("label", { class: "field", for: "reason" }, h("span", null, "Why, if you like; it is kept")), reason,
    h("div", { class: "answers" }, buttons));
}

startTicking();
addEventListener("hashchange", show);
show();
