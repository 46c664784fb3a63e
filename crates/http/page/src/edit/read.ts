// What people write into a form, read as the API takes it. Pure. What cannot be read is named by its field.

export type Wrong = Record<string, string>;

const UNITS: Record<string, number> = { d: 86_400, h: 3600, m: 60, min: 60, s: 1, ms: 0.001 };

// 1h30m, 250ms: the largest units that are exact.
export function spanText(span: number | string): string {
  let ms = Math.round(Number(span) * 1000);
  if (ms === 0) return "0s";
  let text = "";
  for (const [unit, part] of [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000], ["ms", 1]] as const) {
    const n = Math.floor(ms / part);
    if (n > 0) text += `${n}${unit}`;
    ms %= part;
  }
  return text;
}

// Seconds of 30s, 1h30m, 250ms, or of a bare number; null of anything else.
export function readSpan(text: string): number | null {
  const said = text.trim();
  if (/^\d+(\.\d+)?$/.test(said)) return Number(said);
  if (!/^(\d+(\.\d+)?(ms|min|[smhd]))+$/.test(said)) return null;
  let sum = 0;
  for (const [, n, unit] of said.matchAll(/([\d.]+)(ms|min|[smhd])/g)) sum += Number(n) * UNITS[unit];
  return Math.ceil(Number((sum * 1000).toFixed(3))) / 1000;
}

// Reads the fields of a form, and keeps what is wrong with them.
export class Reader {
  wrong: Wrong = {};

  refuse(path: string, why: string): undefined {
    this.wrong[path] ??= why;
    return undefined;
  }

  number(path: string, text: string, least: number, most: number): number | undefined {
    const said = text.trim();
    if (!said) return undefined;
    const n = /^\d+$/.test(said) ? Number(said) : NaN;
    return n >= least && n <= most ? n : this.refuse(path, `a whole number, ${least} to ${most.toLocaleString("en")}`);
  }

  span(path: string, text: string): number | undefined {
    if (!text.trim()) return undefined;
    return readSpan(text) ?? this.refuse(path, "a length of time, such as 30s, 5m or 1h30m");
  }
}

export type Line = [name: string, text: string];
export type Change = { name: string; before?: string; after?: string };

// What differs between two lists of named lines, in the order of the second, with what is gone behind.
export function changes(before: Line[], after: Line[]): Change[] {
  const [was, will] = [new Map(before), new Map(after)];
  const names = new Set([...will.keys(), ...was.keys()]);
  return [...names].map((name) => ({ name, before: was.get(name), after: will.get(name) })).filter((change) => change.before !== change.after);
}
