// JSON as text, and compared. Pure. Numbers stand as they were sent.

import { Exact } from "./api.ts";

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
