// JSON as text, coloured, folded and compared. Numbers stand as they were sent.

import { useState } from "preact/hooks";
import { Exact } from "./api.ts";
import { CopyButton } from "./parts.tsx";

const FOLDED_CHARS = 4000;
const COLOURED_CHARS = 40_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

export function print(value: unknown, indent = ""): string {
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

function coloured(text: string) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [whole, string, colon] = found;
    nodes.push(text.slice(at, found.index), <span class={colon ? "j-key" : string ? "j-text" : "j-word"}>{string ?? whole}</span>, colon ?? "");
    at = found.index + whole.length;
  }
  nodes.push(text.slice(at));
  return nodes;
}

const size = (chars: number) => (chars < 10_000 ? `${chars} characters` : `${Math.round(chars / 1000)},000 characters`);

type Box = { text: string; what: string; isJson?: boolean };

// A box with text in it, folded when it is long.
export function TextBox({ text, what, isJson = false }: Box) {
  const [isOpen, open] = useState(false);
  const isLong = text.length > FOLDED_CHARS;
  const part = isLong && !isOpen ? `${text.slice(0, FOLDED_CHARS)}…` : text;
  return (
    <div class="box">
      <pre class="json" tabIndex={0} role="group" aria-label={what}>
        {isJson && part.length <= COLOURED_CHARS ? coloured(part) : part}
      </pre>
      <CopyButton text={text} what={what} />
      {isLong && !isOpen && (
        <button type="button" class="quiet unfold" onClick={() => open(true)}>
          {`show all ${size(text.length)}`}
        </button>
      )}
    </div>
  );
}

export const JsonBox = ({ value, what }: { value: unknown; what: string }) => <TextBox text={print(value)} what={what} isJson />;

type Holder = Record<string, unknown>;

export const has = (holder: Holder, field: string) => holder[field] !== undefined || typeof holder[`${field}_base64`] === "string";

// What a field holds: JSON, or bytes as base64.
export function ValueBox({ holder, field, what = field }: { holder: Holder; field: string; what?: string }) {
  if (holder[field] !== undefined) return <JsonBox value={holder[field]} what={what} />;
  const bytes = holder[`${field}_base64`];
  if (typeof bytes !== "string") return null;
  return (
    <div>
      <p class="muted">{`${Math.floor((bytes.length * 3) / 4)} bytes that are not JSON, in base64`}</p>
      <TextBox text={bytes} what={what} />
    </div>
  );
}

export type Change = { path: string; before?: unknown; after?: unknown };

const isTree = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !(value instanceof Exact);

// What differs between two values: one line per leaf, at most `most`.
export function diff(before: unknown, after: unknown, most = 200, path = ""): Change[] {
  if (isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    const found: Change[] = [];
    for (const key of keys) {
      if (found.length >= most) break;
      const at = Array.isArray(before) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
      found.push(...diff(before[key], after[key], most - found.length, at));
    }
    return found;
  }
  const same = before === undefined || after === undefined ? before === after : print(before) === print(after);
  return same ? [] : [{ path: path || "whole", before, after }];
}
