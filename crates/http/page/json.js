// JSON as text, coloured and folded. Numbers stand as they were sent.

import { Exact } from "./api.js";
import { copyButton, h, plain } from "./dom.js";

const FOLDED_CHARS = 4000;
const COLOURED_CHARS = 40_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

export function print(value, indent = "") {
  if (value instanceof Exact) return value.source;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}  `;
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((part) => print(part, deeper))
    : Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}: ${print(part, deeper)}`);
  const [open, close] = isList ? "[]" : "{}";
  if (parts.length === 0) return open + close;
  const line = parts.join(", ");
  if (line.length + indent.length < 72 && !line.includes("\n")) return isList ? `[${line}]` : `{ ${line} }`;
  return `${open}\n${deeper}${parts.join(`,\n${deeper}`)}\n${indent}${close}`;
}

function coloured(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [whole, string, colon] = found;
    nodes.push(text.slice(at, found.index));
    nodes.push(h("span", { class: colon ? "j-key" : string ? "j-text" : "j-word" }, string ?? whole), colon ?? "");
    at = found.index + whole.length;
  }
  nodes.push(text.slice(at));
  return nodes;
}

const size = (chars) => (chars < 10_000 ? `${chars} characters` : `${Math.round(chars / 1000)},000 characters`);

// A box with text in it, folded when it is long.
export function textBox(text, what, paint = (part) => [part]) {
  const pre = h("pre", { class: "json", tabindex: "0", aria: { label: what } });
  const show = (part) => pre.replaceChildren(...(part.length > COLOURED_CHARS ? [part] : paint(part)).map((made) => (made instanceof Node ? made : plain(made))));
  const box = h("div", { class: "box" }, pre, copyButton(text, what));
  if (text.length <= FOLDED_CHARS) {
    show(text);
    return box;
  }
  show(`${text.slice(0, FOLDED_CHARS)}…`);
  const unfold = h("button", { type: "button", class: "quiet unfold", onclick: () => (show(text), unfold.remove()) },
    `show all ${size(text.length)}`);
  box.append(unfold);
  return box;
}

export const jsonBox = (value, what) => textBox(print(value), what, coloured);

// What a field holds: JSON, or bytes as base64. Null when it is not there.
export function valueBox(holder, field) {
  if (holder[field] !== undefined) return jsonBox(holder[field], field);
  const bytes = holder[`${field}_base64`];
  if (bytes === undefined) return null;
  return h("div", null,
    h("p", { class: "muted" }, `${Math.floor((bytes.length * 3) / 4)} bytes that are not JSON, in base64`),
    textBox(bytes, field));
}
