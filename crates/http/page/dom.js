// Elements from plain values. Text is always text: nothing in this page parses HTML, and the policy forbids it.

// Characters that turn the direction of writing, are invisible, or command a terminal that somebody pastes them into.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// Text of others as it is shown: what hides in it is written out.
export const plain = (text) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const SVG = "http://www.w3.org/2000/svg";

// h("a", { href, class, onclick, dataset: {…}, aria: {…} }, "text", child, [children]); null and false are left out.
export function h(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(el.dataset, value);
    else if (name === "aria") for (const [key, said] of Object.entries(value)) el.setAttribute(`aria-${key}`, plain(said));
    else if (name === "value" || name === "checked" || name === "open") el[name] = value;
    else el.setAttribute(name, value === true ? "" : name === "title" ? plain(value) : value);
  }
  el.append(...nodes(children));
  return el;
}

function nodes(children) {
  const there = (child) => child !== undefined && child !== null && child !== false;
  return children.flat(Infinity).filter(there).map((child) => (child instanceof Node ? child : plain(child)));
}

// Puts children in place of what is there.
export function fill(el, ...children) {
  el.replaceChildren(...nodes(children));
  return el;
}

// The same, and the focus stays on the link or button that means the same as the one that had it.
export function refill(el, ...children) {
  const held = el.contains(document.activeElement) && meaning(document.activeElement);
  fill(el, ...children);
  if (held) [...el.querySelectorAll("a, button")].find((made) => meaning(made) === held)?.focus({ preventScroll: true });
  return el;
}

const meaning = (el) => el.dataset.means ?? el.getAttribute("href");

// A picture of the sprite in index.html. It says nothing that the text beside it does not say.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// A button that copies, where the browser lets a page copy at all: only over HTTPS and on localhost.
export function copyButton(text, what) {
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    tell(`${what} copied`);
  };
  return h("button", { type: "button", class: "quiet copy", title: `copy ${what}`, aria: { label: `copy ${what}` }, onclick: copy }, icon("copy"));
}

const told = document.getElementById("told");

// Says in a corner what became of an action. The newest three stay for a while.
export function tell(text, tone = "good") {
  const note = h("p", { class: `note ${tone}` }, text);
  told.append(note);
  while (told.children.length > 3) told.firstElementChild.remove();
  setTimeout(() => note.remove(), 6000);
}

// What a refusal says: its title, its detail, its code with the page about it.
export function problemBox(problem, again) {
  return h("div", { class: "problem", role: "alert" },
    h("strong", null, problem.title),
    problem.detail && h("p", null, problem.detail),
    h("p", { class: "muted" },
      problem.code && h("a", { href: `/errors/${encodeURIComponent(problem.code)}`, class: "mono" }, problem.code),
      problem.requestId && [" · request ", h("span", { class: "mono" }, problem.requestId)],
      again && [" ", h("button", { type: "button", class: "quiet", onclick: again }, "try again")]));
}

// What stands where nothing is, with what to do about it.
export function empty(title, text, command) {
  return h("div", { class: "empty" },
    h("strong", null, title),
    text && h("p", null, text),
    command && h("pre", { class: "command" }, command));
}
