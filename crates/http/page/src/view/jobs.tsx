// Which jobs are there? Filtered, live, however many; and acts on some or all of them.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { get, type Now } from "../base/api.ts";
import { useFeed, useReading } from "../base/live.ts";
import { Ago, Empty, Icon, ProblemBox } from "../base/parts.tsx";
import { density } from "../base/prefs.ts";
import { href, last, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { DEAD, word } from "../base/status.ts";
import { many, plural, rate } from "../base/text.ts";
import { enqueue } from "./acts.tsx";
import { askBulk, type Action } from "./bulk.tsx";
import { address, having, FILTERS, FIXED, fromText, NAMES, pick, SHORT, toText } from "./filter.ts";
import { List } from "./list.ts";
import { HEADS, Row } from "./row.tsx";
import { SavedViews } from "./saved.tsx";

const NOW_MS = 3000;
const QUEUES_MOST = 12;
const AROUND = 12;

export function Jobs() {
  const asked = pick(params.value, FILTERS);
  const key = JSON.stringify(asked);
  last.list = location.hash || "#/jobs";
  return <Listed key={key} />;
}

function Listed() {
  const asked = useMemo(() => new URLSearchParams(params.value), []);
  const list = useMemo(() => {
    const made: List = new List(asked, () => scrollY > 240 || made.selected.peek().size > 0);
    return made;
  }, []);
  const now = useReading((signal) => get<Now>("v1/now", {}, signal).catch((problem) => (problem.status === 403 ? null : Promise.reject(problem))), NOW_MS, []);
  useEffect(() => {
    list.load();
    return () => list.end();
  }, []);
  // A server that answers again heals a list that could not be read.
  useEffect(() => {
    if (now.problem.value === null && list.problem.peek()?.status === 0) list.load();
  }, [now.value.value]);
  useFeed("v1/feed", { params: pick(asked, FIXED), onEvents: (events) => list.hear(events), onSkipped: (n) => list.skip(n), onOpen: () => list.load() }, []);
  const queues = now.value.value?.queues ?? [];
  const known = () => ({ queue: queues.map((queue) => queue.name), kind: [...new Set(list.jobs.peek().map((job) => job.kind))], tag: [...new Set(list.jobs.peek().flatMap((job) => job.tags))] });
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <div class="row acts">
          <SavedViews asked={asked} />
          {may("producer") && (
            <button type="button" onClick={() => enqueue({ queues: known().queue, kinds: known().kind })}>
              Enqueue
            </button>
          )}
        </div>
      </div>
      <Chips asked={asked} now={now.value.value} />
      <Queues asked={asked} now={now.value.value} />
      <FilterBox asked={asked} known={known} />
      <Bulk list={list} />
      <Rows list={list} />
      {(list.problem.value ?? now.problem.value) && <ProblemBox problem={(list.problem.value ?? now.problem.value)!} again={() => (list.load(), now.look())} />}
    </>
  );
}

// The chips: name, statuses.
const CHIPS: [string, string[]][] = [
  ["all", []], ["pending", ["pending"]], ["running", ["running"]], ["retry", ["retry"]], ["waiting", ["waiting"]], ["orphaned", ["orphaned", "assigned"]],
  ["completed", ["completed"]], ["dead", DEAD], ["cancelled", ["cancelled"]],
];

function Chips({ asked, now }: { asked: URLSearchParams; now: Now | null }) {
  const at = asked.get("dead") ? "dead" : asked.get("status");
  const isNarrowed = Object.values(NAMES).some((name) => asked.get(name));
  return (
    <nav class="chips" aria-label="jobs by status">
      {CHIPS.map(([name, statuses]) => {
        // Counted are all jobs: beside another filter the numbers would be of another list.
        const counts = !isNarrowed && now && Object.entries(now.statuses).filter(([status]) => name === "all" || statuses.includes(status)).map(([, count]) => count);
        const n = counts ? counts.reduce((sum, count) => sum + Number(count.count), 0) : undefined;
        const isCapped = counts && counts.some((count) => count.capped);
        const isOn = name === "all" ? !at : at === (name === "dead" ? "dead" : statuses.join(","));
        // Rare ones show up when there are some.
        if (name === "orphaned" && !n && !isOn && !isNarrowed) return null;
        return (
          <a key={name} class="chip" href={address(asked, name === "dead" ? { dead: "true", status: "" } : { dead: "", status: statuses.join(",") })} data-chip={name} aria-current={isOn ? "true" : undefined}>
            <Icon name={name} />
            <span>{name === "dead" ? "dead letters" : word(name)}</span>
            {n !== undefined && <b>{`${many(n)}${isCapped ? "+" : ""}`}</b>}
          </a>
        );
      })}
    </nav>
  );
}

function Queues({ asked, now }: { asked: URLSearchParams; now: Now | null }) {
  if (!now?.queues.length) return null;
  return (
    <nav class="queues" aria-label="queues">
      {now.queues.slice(0, QUEUES_MOST).map((queue) => {
        const isOn = asked.get("queue") === queue.name;
        return (
          <a key={queue.name} class="queue" href={address(asked, { queue: isOn ? "" : queue.name })} aria-current={isOn ? "true" : undefined} title={isOn ? "show all queues" : `only queue ${queue.name}`}>
            <span class="name">{queue.name}</span>
            {queue.paused && <span class="flag">paused</span>}
            <span class="depth">
              <b>{`${many(Number(queue.due))}${queue.due_capped ? "+" : ""}`}</b> due
              {queue.oldest_due_at && <>, <Ago at={queue.oldest_due_at} /></>}
            </span>
            <span class="rates" title="done per second, over the last minute, as this server saw it">{`${rate(Number(queue.rates.completed))}/s`}</span>
          </a>
        );
      })}
      {now.queues.length > QUEUES_MOST && <a class="queue" href="#/queues">{`${now.queues.length - QUEUES_MOST} more`}</a>}
    </nav>
  );
}

function FilterBox({ asked, known }: { asked: URLSearchParams; known: () => Record<string, string[]> }) {
  const input = useRef<HTMLInputElement>(null);
  const wrong = useSignal("");
  useLayoutEffect(() => {
    if (!last.isFilterWanted) return;
    last.isFilterWanted = false;
    input.current!.focus();
  }, []);
  const offers = useSignal<string[]>([]);
  const offer = () => {
    const text = input.current!.value;
    const before = text.slice(0, text.lastIndexOf(" ") + 1);
    const there = Object.entries(known()).flatMap(([short, values]) => values.map((value) => `${before}${short}:${value}`));
    offers.value = [...there, ...Object.keys(NAMES).slice(0, 8).map((short) => `${before}${short}:`)].slice(0, 40);
  };
  const apply = async () => {
    const said = fromText(input.current!.value);
    if (said.piece) {
      const [id, another] = await having(said.piece).catch(() => [] as string[]);
      if (id && !another) said.id = id;
      else if (another) said.wrong = `several ids have ${said.piece}; type more of it, a kind is kind:${said.piece}`;
      // Words are kinds, numbers are not.
      else if (/\d/.test(said.piece)) said.wrong = `no id of the newest jobs has ${said.piece}; a kind is kind:${said.piece}`;
    }
    wrong.value = said.wrong ?? "";
    if (said.wrong) return;
    const blank = Object.fromEntries(Object.values(NAMES).map((name) => [name, ""]));
    location.hash = said.id ? `#/jobs/${said.id}` : address(asked, { ...blank, ...Object.fromEntries(said.params!) });
  };
  const active = Object.values(NAMES).filter((name) => asked.get(name));
  return (
    <form class="filter" role="search" onSubmit={(event) => (event.preventDefault(), apply())}>
      <label for="filter" class="hidden">Filter</label>
      <div class="filter-box">
        <Icon name="find" />
        <input
          ref={input} id="filter" type="search" name="filter" autocomplete="off" spellcheck={false} list="offers" defaultValue={toText(asked)}
          placeholder="queue:mail kind:email.send tag:shop error:smtp_busy, or a job id or a piece of one"
          onFocus={offer} onInput={() => (input.current!.value === "" ? apply() : offer())}
        />
        <kbd title="press / to filter">/</kbd>
      </div>
      <datalist id="offers">{offers.value.map((value) => <option value={value} />)}</datalist>
      <button type="submit">Apply</button>
      {active.length > 0 && (
        <div class="active">
          {active.map((name) => (
            <a class="chip on" href={address(asked, { [name]: "" })} title={`take ${SHORT[name]} away`}>
              <span class="muted">{SHORT[name]}</span> {asked.get(name)} <span aria-hidden="true">×</span>
            </a>
          ))}
        </div>
      )}
      {wrong.value && <p class="wrong" role="alert">{wrong.value}</p>}
    </form>
  );
}

// What is done to those that are selected, or to everything that matches.
function Bulk({ list }: { list: List }) {
  if (!may("operator")) return null;
  const chosen = list.selected.value;
  const hasFilter = Object.keys(list.filters).length > 0 && !list.filters.problem;
  const jobs = () => list.jobs.peek().filter((job) => chosen.has(job.id));
  const done = () => {
    list.selected.value = new Set();
    list.load();
  };
  const act = (action: Action) => askBulk({ jobs: jobs() }, action, done);
  const actAll = (action: Action) => askBulk({ filter: list.filters }, action, done);
  if (chosen.size === 0 && !(hasFilter && list.count.value > 0)) return null;
  return (
    <div class="bulk" role="toolbar" aria-label="acts on many">
      {chosen.size > 0 ? (
        <>
          <b>{plural(chosen.size, "job")} selected</b>
          <button type="button" onClick={() => act("redrive")}>Redrive</button>
          <button type="button" class="danger" onClick={() => act("cancel")}>Cancel</button>
          {chosen.size === 2 && <a class="button" href={href("compare", "", { a: [...chosen][0], b: [...chosen][1] })}>Compare</a>}
          <button type="button" class="quiet" onClick={() => (list.selected.value = new Set())}>Select none</button>
        </>
      ) : (
        <>
          <span class="muted">Everything that matches:</span>
          <button type="button" onClick={() => actAll("redrive")}>Redrive all …</button>
          <button type="button" class="danger" onClick={() => actAll("cancel")}>Cancel all …</button>
        </>
      )}
    </div>
  );
}

const isNarrow = () => matchMedia("(max-width: 720px)").matches;
const heightOf = () => (isNarrow() ? 80 : density.value === "compact" ? 28 : 34);

function Rows({ list }: { list: List }) {
  const table = useRef<HTMLTableElement>(null);
  const place = useSignal({ from: 0, to: 60 });
  const active = useSignal<string | null>(null);
  const wantsFocus = useRef(false);
  const canSelect = may("operator");
  const jobs = list.jobs.value;
  const height = heightOf();

  // Which rows are in sight, and a few around them.
  const look = () => {
    if (!table.current) return;
    const top = table.current.getBoundingClientRect().top + 30;
    const first = Math.max(0, Math.floor(-top / height) - AROUND);
    const next = { from: first, to: first + Math.ceil(innerHeight / height) + 2 * AROUND };
    if (next.from !== place.peek().from || next.to !== place.peek().to) place.value = next;
    if (next.to >= list.jobs.peek().length) list.more();
  };
  useEffect(() => {
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [height]);
  useLayoutEffect(look, [jobs.length, height]);
  // The focus goes where the arrows went, once that row is there.
  useLayoutEffect(() => {
    if (!wantsFocus.current || !active.value) return;
    const row = table.current?.querySelector<HTMLElement>(`tr[data-id="${active.value}"]`);
    if (!row) return;
    wantsFocus.current = false;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  });

  const { from, to } = place.value;
  const shown = jobs.slice(from, to);
  const activeAt = Math.max(0, jobs.findIndex((job) => job.id === active.value));
  const stop = jobs[activeAt >= from && activeAt < to ? activeAt : from]?.id;
  const move = (n: number) => {
    const to = Math.max(0, Math.min(jobs.length - 1, n));
    active.value = jobs[to].id;
    wantsFocus.current = true;
    const top = table.current!.getBoundingClientRect().top + scrollY + 30 + to * height;
    if (top < scrollY + 60 || top + height > scrollY + innerHeight - 60) scrollTo({ top: top - innerHeight / 2 });
  };
  const keys = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest<HTMLElement>("tr[data-id]");
    if (!row || event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).tagName === "INPUT") return;
    const at = jobs.findIndex((job) => job.id === row.dataset.id);
    const page = Math.floor(innerHeight / height) - 4;
    const toggle = () => canSelect && list.select([row.dataset.id!], !list.selected.peek().has(row.dataset.id!));
    const acts: Record<string, () => unknown> = {
      ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), j: () => move(at + 1), k: () => move(at - 1), PageDown: () => move(at + page), PageUp: () => move(at - page),
      Home: () => move(0), End: () => move(jobs.length - 1), Enter: () => (location.hash = `#/jobs/${row.dataset.id}`), " ": toggle, x: toggle,
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  };
  const click = (event: MouseEvent) => {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>("tr[data-id]");
    // A row leads to its job, unless something in it was meant, or text is being selected.
    if (row && !target.closest("a, input, .c-select") && getSelection()!.isCollapsed) location.hash = `#/jobs/${row.dataset.id}`;
  };
  const isAll = jobs.length > 0 && jobs.every((job) => list.selected.value.has(job.id));
  if (!list.isRead.value) return null;
  if (jobs.length === 0) return <Nothing list={list} />;
  const spacer = (n: number) => n > 0 && <tbody class="spacer" aria-hidden="true"><tr><td colSpan={9} style={{ height: `${n * height}px` }} /></tr></tbody>;
  return (
    <section aria-label="jobs">
      {list.gathered.value.length > 0 && (
        <button type="button" class="gathered" onClick={() => (list.release(), scrollTo({ top: 0 }))}>
          {`${many(list.gathered.value.length)} new`}
        </button>
      )}
      <table ref={table} class="jobs" role="grid" aria-rowcount={list.next.value ? -1 : jobs.length + 1} aria-multiselectable={canSelect || undefined} onKeyDown={keys} onClick={click}>
        <caption class="hidden">jobs, newest first</caption>
        <thead>
          <tr aria-rowindex={1}>
            {canSelect && (
              <th class="c-select" scope="col">
                <input type="checkbox" checked={isAll} aria-label="select all that are loaded" onClick={(event) => list.select(jobs.map((job) => job.id), event.currentTarget.checked)} />
              </th>
            )}
            {HEADS.map(([name, text]) => <th class={`c-${name}`} scope="col">{text}</th>)}
          </tr>
        </thead>
        {spacer(Math.min(from, jobs.length))}
        <tbody>
          {shown.map((job, n) => (
            <Row key={job.id} job={job} at={from + n} isActive={job.id === stop} isSelected={list.selected.value.has(job.id)} canSelect={canSelect} touched={list.touched.get(job.id) ?? ""} onSelect={(id, isOn) => list.select([id], isOn)} />
          ))}
        </tbody>
        {spacer(Math.max(0, jobs.length - to))}
      </table>
      <p class="under muted">{list.skipped.value > 0 && `faster than eyes: ${many(list.skipped.value)} events left out · `}{list.next.value ? `${many(jobs.length)} loaded, more below` : plural(jobs.length, "job")}</p>
    </section>
  );
}

function Nothing({ list }: { list: List }) {
  if (list.problem.value) return null;
  if (list.next.value) return <Empty title="Nothing here yet" text={<button type="button" onClick={() => list.more()}>Look further back</button>} />;
  if (list.filters.dead) return <Empty title="No dead letters" text="Every job that ended, ended well or was cancelled." />;
  if (Object.keys(list.filters).length) return <Empty title="Nothing matches" text="Take a filter away, or wait: this list is live." />;
  return <Empty title="No jobs yet" text="Enqueue one, and it shows up here at once:" command={"windlass enqueue report --payload '{\"n\":1}'\nwindlass work --queue default --exec ./report.sh"} />;
}
