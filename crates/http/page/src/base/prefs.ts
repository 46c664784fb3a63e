// What one person likes on one screen: theme, zone, density. Kept by the browser once it is chosen, and only then.

import { effect, signal } from "@preact/signals";
import { isZone, zone } from "./clock.ts";

const KEY = "windlass";

export const theme = signal<"" | "light" | "dark">("");
export const density = signal<"" | "compact">("");

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, string>;
  } catch {
    return {};
  }
}

export function startPrefs() {
  const kept = read();
  if (kept.theme === "light" || kept.theme === "dark") theme.value = kept.theme;
  if (kept.density === "compact") density.value = "compact";
  if (kept.zone && isZone(kept.zone)) zone.value = kept.zone;
  let isFirst = true;
  effect(() => {
    const said = { theme: theme.value, density: density.value, zone: zone.value };
    const root = document.documentElement;
    root.dataset.theme = said.theme;
    root.dataset.density = said.density;
    if (!isFirst) {
      try {
        localStorage.setItem(KEY, JSON.stringify(said));
      } catch {
        // A browser that keeps nothing shows the same page.
      }
    }
    isFirst = false;
  });
}
