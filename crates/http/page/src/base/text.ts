// Text of others. Nothing in this page parses HTML, and the policy forbids it; what hides in text is written out.

// Characters that turn the direction of writing, are invisible, or command a terminal that somebody pastes them into.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

export const plain = (text: unknown) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);

// The last eight digits: the random end of an id, for ids of one second begin alike.
export const short = (id: string) => id.slice(-8);

// 9, 1,204, 66,000
export const many = (n: number) => Math.round(n).toLocaleString("en");

// 940, 1.2k, 26k, 3.1M: for axes.
export function brief(n: number): string {
  if (n >= 1e6) return `${trim(n / 1e6)}M`;
  if (n >= 1e4) return `${trim(n / 1e3)}k`;
  return n >= 10 || Number.isInteger(n) ? many(n) : trim(n);
}

const trim = (n: number) => (n >= 100 ? Math.round(n).toString() : n >= 1 ? n.toFixed(1).replace(/\.0$/, "") : n.toPrecision(1));

// Per second: 0, <0.1, 4.2, 44
export const rate = (n: number) => (n >= 10 ? many(n) : n > 0 && n < 0.05 ? "<0.1" : n.toFixed(1).replace(/\.0$/, ""));

export const plural = (n: number, one: string, more = `${one}s`) => `${many(n)} ${n === 1 ? one : more}`;
