// The address: which view, of what, how. Everything visible is in it.

import { computed, signal } from "@preact/signals";

export type Route = { page: string; id: string; params: URLSearchParams };

// #/jobs?queue=mail, #/jobs/ID?at=3&tab=log, #/queues
export function parse(hash: string): Route {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const [page = "", id = ""] = path.split("/").filter(Boolean).map(decode);
  return { page, id, params: new URLSearchParams(query) };
}

function decode(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(parse(location.hash));
export const params = computed(() => route.value.params);

// The list that was looked at last, to go back to, and whether its filter is to have the keys when it is there.
export const last = { list: "#/jobs", isFilterWanted: false };

export function href(page: string, id = "", params: Record<string, string | undefined> = {}) {
  const query = new URLSearchParams(Object.entries(params).filter((entry): entry is [string, string] => Boolean(entry[1])));
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${query.size ? `?${query}` : ""}`;
}

// Where we are, with some parameters changed; what is empty is left out.
export function changed(changes: Record<string, string | undefined>) {
  const { page, id, params } = route.value;
  const next = { ...Object.fromEntries(params), ...changes };
  return href(page, id, next);
}

// Changes parameters in place: no step for the back button.
export function change(changes: Record<string, string | undefined>) {
  const to = changed(changes);
  if (to === location.hash) return;
  history.replaceState(null, "", to);
  route.value = parse(to);
}

export function startRouting(onLeave: () => void) {
  addEventListener("hashchange", () => {
    // The anchor of "skip to content" is no page.
    if (location.hash === "#view") return;
    onLeave();
    route.value = parse(location.hash);
  });
}
