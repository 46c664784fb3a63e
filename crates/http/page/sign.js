// Signing in with a key. The browser gets a cookie that scripts cannot read; the key is not kept here.

import { get, post, remove } from "./api.js";
import { fill, h, icon, plain, problemBox } from "./dom.js";

// Shows the form in `root`; `done(session)` once somebody is in.
export function signIn(root, problem, done) {
  const trouble = h("div");
  const key = h("input", { id: "key", type: "password", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
  const go = h("button", { type: "submit", class: "main" }, "Sign in");
  const form = h("form", { class: "sign" },
    h("h1", null, icon("key"), "Sign in"),
    h("p", { class: "muted" }, "This server asks for a key. Whoever runs it makes one:"),
    h("pre", { class: "command" }, "windlass keys create you --role viewer --role operator --role approver"),
    h("label", { class: "field", for: "key" }, h("span", null, "Key")), key, trouble, go);
  // Only a key that was refused is news; that one is needed is what the form says.
  if (problem?.isNews) fill(trouble, problemBox(problem));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      done(await post("/v1/session", { key: key.value.trim() }));
    } catch (refusal) {
      fill(trouble, problemBox(refusal));
      key.select();
    } finally {
      go.disabled = false;
    }
  });
  fill(root, form);
  key.focus();
}

// Who is signed in, in the bar; on a server without keys there is nobody to sign out.
export async function showWho(el, signedOut) {
  const session = await get("/v1/session").catch(() => null);
  el.hidden = !session || session.name === "local";
  if (el.hidden) return;
  const name = el.querySelector(".name");
  name.textContent = plain(session.name);
  name.title = plain(`${session.roles.join(", ")}${session.queues ? `; queues ${session.queues.join(", ")}` : ""}`);
  el.querySelector("button").onclick = async () => {
    await remove("/v1/session");
    el.hidden = true;
    signedOut();
  };
}
