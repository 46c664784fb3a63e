// Lengths and points of time in words. Pure, but for the zone.

import { signal } from "@preact/signals";

const UNITS: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

// 340 ms, 2.1 s, 3m 12s, 2h 5m, 3d 4h
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  const first = UNITS.findIndex(([, unit]) => ms >= unit);
  const [name, unit] = UNITS[first];
  const [smaller, part] = UNITS[first + 1] ?? [];
  const rest = part ? Math.floor((ms % unit) / part) : 0;
  return `${Math.floor(ms / unit)}${name}${rest ? ` ${rest}${smaller}` : ""}`;
}

export function away(at: number, now: number): string {
  const ms = now - at;
  // What the server wrote this second may lie a little ahead of us.
  if (Math.abs(ms) < 1500) return "now";
  const whole = duration(Math.round(Math.abs(ms) / 1000) * 1000).replace(".0", "");
  return ms > 0 ? `${whole} ago` : `in ${whole}`;
}

// The zone of times: empty is the browser's own.
export const zone = signal("");

export function isZone(name: string) {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

const made = new Map<string, Intl.DateTimeFormat>();

function format(options: Intl.DateTimeFormatOptions, locale?: string) {
  const key = `${zone.value} ${locale} ${JSON.stringify(options)}`;
  let found = made.get(key);
  if (!found) made.set(key, (found = new Intl.DateTimeFormat(locale, { ...options, ...(zone.value && { timeZone: zone.value }) })));
  return found;
}

export const full = (iso: string) => format({ dateStyle: "medium", timeStyle: "medium" }).format(new Date(iso));

const parts = (at: Date, options: Intl.DateTimeFormatOptions) => format({ hourCycle: "h23", ...options }, "en-GB").format(at);

export const day = (at: Date) => parts(at, { year: "numeric", month: "short", day: "2-digit" });

// 08:37, or with seconds.
export const hour = (at: Date, isExact = false) => parts(at, { hour: "2-digit", minute: "2-digit", ...(isExact && { second: "2-digit" }) });

// 17 Nov 08:37 unless it is today.
export function stamp(iso: string, now: number, isExact = false) {
  const at = new Date(iso);
  return day(at) === day(new Date(now)) ? hour(at, isExact) : `${parts(at, { month: "short", day: "numeric" })} ${hour(at, isExact)}`;
}

// 08:37:12.345
export function precise(iso: string) {
  const at = new Date(iso);
  return `${hour(at, true)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

// Seconds of the API, which may come as a number or as text such as "30s".
export const seconds = (span: unknown) => duration(Number(span) * 1000).replace(".0 s", " s");
