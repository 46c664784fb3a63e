// JSON as text, coloured and folded.

import { useState } from "preact/hooks";
import { CopyButton } from "./parts.tsx";
import { print } from "./print.ts";

const FOLDED_CHARS = 4000;
const COLOURED_CHARS = 40_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

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
