// Times as people read them. Relative ones tick once a second, all together.

import { h } from "./dom.js";
import { now } from "./api.js";

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

// 340 ms, 2.1 s, 3m 12s, 2h 5m, 3d 4h
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  const first = UNITS.findIndex(([, unit]) => ms >= unit);
  const [name, unit] = UNITS[first];
  const [smaller, part] = UNITS[first + 1] ?? [];
  const rest = part ? Math.floor((ms % unit) / part) : 0;
  return `${Math.floor(ms / unit)}${name}${rest ? ` ${rest}${smaller}` : ""}`;
}

function words(at) {
  const away = now() - at;
  // What the server wrote this second may lie a little ahead of us.
  if (Math.abs(away) < 1500) return "now";
  const whole = duration(Math.round(Math.abs(away) / 1000) * 1000).replace(".0", "");
  return away > 0 ? `${whole} ago` : `in ${whole}`;
}

export const full = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

// <time> that ticks. The exact time is its title.
export function ago(iso) {
  if (!iso) return null;
  return h("time", { datetime: iso, title: `${full(iso)}\n${iso}`, dataset: { ticks: "" } }, words(Date.parse(iso)));
}

// Text in which times stand as RFC 3339, with those times ticking.
export const withTimes = (text) => text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((part, n) => (n % 2 ? h("span", null, ago(part)) : part));

// <time> of the day, with milliseconds, for logs.
export function clock(iso) {
  const at = new Date(iso);
  const two = (n) => String(n).padStart(2, "0");
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return h("time", { datetime: iso, title: `${full(iso)}\n${iso}` }, text);
}

export function startTicking() {
  setInterval(() => {
    if (document.hidden) return;
    for (const el of document.querySelectorAll("time[data-ticks]")) {
      const text = words(Date.parse(el.dateTime));
      if (el.textContent !== text) el.textContent = text;
    }
  }, 1000);
}
