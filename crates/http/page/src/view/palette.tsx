// Ctrl K: to any page, queue, kind, worker, schedule or job, and to what can be done here.

import { signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { get, type Now, type Schedule, type Worker } from "../base/api.ts";
import { theme } from "../base/prefs.ts";
import { href } from "../base/route.ts";
import { may } from "../base/session.ts";
import { enqueue } from "./acts.tsx";
import { fromText, having, ID } from "./filter.ts";

export const isPaletteOpen = signal(false);

type Entry = { what: string; name: string; run: () => void };

const go = (hash: string) => () => void (location.hash = hash);

export const PAGES: [string, string, string][] = [
  ["", "Overview", "o"], ["jobs", "Jobs", "j"], ["problems", "Problems", "p"], ["approvals", "Approvals", "a"], ["queues", "Queues", "q"],
  ["kinds", "Kinds", "k"], ["workers", "Workers", "w"], ["schedules", "Schedules", "s"], ["tail", "Tail", "t"], ["compare", "Compare", "m"], ["activity", "Activity", "c"], ["settings", "Settings", "e"],
];

// What can be reached without knowing anything.
function fixed(): Entry[] {
  return [
    ...PAGES.map(([page, name]): Entry => ({ what: "page", name, run: go(`#/${page}`) })),
    { what: "jobs", name: "Dead letters", run: go("#/jobs?dead=true") },
    { what: "jobs", name: "Running jobs", run: go("#/jobs?status=running") },
    ...(may("producer") ? [{ what: "act", name: "Enqueue a job", run: () => enqueue({ queues: [], kinds: [] }) }] : []),
    { what: "act", name: "Light theme", run: () => (theme.value = "light") },
    { what: "act", name: "Dark theme", run: () => (theme.value = "dark") },
  ];
}

// What is there at the moment.
async function known(signal: AbortSignal): Promise<Entry[]> {
  const none = () => null;
  const [now, workers, schedules] = await Promise.all([
    get<Now>("v1/now", {}, signal).catch(none), get<{ workers: Worker[] }>("v1/workers", {}, signal).catch(none), get<{ schedules: Schedule[] }>("v1/schedules", {}, signal).catch(none),
  ]);
  return [
    ...(now?.queues.map((queue): Entry => ({ what: "queue", name: queue.name, run: go(href("queues", queue.name)) })) ?? []),
    ...[...new Set(workers?.workers.flatMap((worker) => worker.kinds))].map((kind): Entry => ({ what: "kind", name: kind, run: go(href("kinds", kind)) })),
    ...(schedules?.schedules.map((schedule): Entry => ({ what: "schedule", name: schedule.name, run: go(href("schedules", schedule.name)) })) ?? []),
    ...(workers?.workers.map((worker): Entry => ({ what: "worker", name: worker.id, run: go(href("workers", worker.id)) })) ?? []),
  ];
}

// Every letter in order; the nearer to the beginning, the better.
export function match(name: string, text: string): number | null {
  const [a, b] = [name.toLowerCase(), text.toLowerCase().trim()];
  if (!b) return 0;
  const at = a.indexOf(b);
  if (at >= 0) return at;
  let from = 0;
  for (const c of b) {
    const found = a.indexOf(c, from);
    if (found < 0) return null;
    from = found + 1;
  }
  return 100 + from;
}

export function Palette() {
  return isPaletteOpen.value ? <Open /> : null;
}

function Open() {
  const dialog = useRef<HTMLDialogElement>(null);
  const text = useSignal("");
  const at = useSignal(0);
  const more = useSignal<Entry[]>([]);
  useLayoutEffect(() => {
    const ending = new AbortController();
    const held = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    known(ending.signal).then((found) => (more.value = found), () => {});
    return () => {
      ending.abort();
      if (held?.isConnected) held.focus();
    };
  }, []);
  const close = () => (isPaletteOpen.value = false);
  const typed = text.value.trim();
  const said = fromText(typed);
  const direct: Entry[] = [];
  if (ID.test(typed)) direct.push({ what: "job", name: typed, run: go(`#/jobs/${typed.toLowerCase()}`) });
  else if (said.piece && /\d/.test(said.piece)) direct.push({ what: "job", name: `the job with ${said.piece} in its id`, run: () => having(said.piece!).then(([id]) => (location.hash = id ? `#/jobs/${id}` : `#/jobs?kind=${said.piece}`)) });
  else if (typed.includes(":") && said.params) direct.push({ what: "filter", name: typed, run: go(href("jobs", "", Object.fromEntries(said.params))) });
  const found = [...fixed(), ...more.value]
    .map((entry) => ({ entry, rank: match(`${entry.name}`, typed) ?? (match(entry.what, typed) === 0 && typed ? 50 : null) }))
    .filter((one): one is { entry: Entry; rank: number } => one.rank !== null)
    .sort((a, b) => a.rank - b.rank)
    .map((one) => one.entry);
  const shown = [...direct, ...found].slice(0, 12);
  const chosen = Math.min(at.value, shown.length - 1);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    // After the focus went back.
    setTimeout(entry.run, 0);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") at.value = Math.min(shown.length - 1, chosen + 1);
    else if (event.key === "ArrowUp") at.value = Math.max(0, chosen - 1);
    else if (event.key === "Enter") run(shown[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="go to" onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <input
        type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={shown.length ? `palette-${chosen}` : undefined} aria-label="find a job, queue, kind, act"
        placeholder="Find a job, queue, kind, act …" autocomplete="off" spellcheck={false} value={text.value} onKeyDown={keys}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          at.value = 0;
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="what was found">
        {shown.map((entry, n) => (
          <li key={`${entry.what} ${entry.name}`} id={`palette-${n}`} role="option" aria-selected={n === chosen} onClick={() => run(entry)} onPointerMove={() => (at.value = n)}>
            <span class="clip">{entry.name}</span> <span class="muted">{entry.what}</span>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p class="muted">Nothing is called so.</p>}
    </dialog>
  );
}
