// The limits of a queue in words, and its keys: what runs and waits of each, which is full, which is held.

import { useSignal } from "@preact/signals";
import { get, post, type LaneState, type Queue } from "../base/api.ts";
import { useReading } from "../base/live.ts";
import { Ago, tick } from "../base/parts.tsx";
import { changed } from "../base/route.ts";
import { may } from "../base/session.ts";
import { many } from "../base/text.ts";
import { ask } from "../view/dialog.tsx";
import { Facts, Panel, Table, Trouble, type Column } from "../view/bits.tsx";
import { lines, ruleOf } from "./limits.ts";
import { pathOf } from "./limit-editor.tsx";

const EVERY_MS = 5000;
const PAGE = 100;

type Page = { lanes: LaneState[]; next_cursor?: string | null };

// So many pages of keys.
async function readLanes(queue: Queue, pages: number, signal: AbortSignal) {
  const found: LaneState[] = [];
  let cursor: string | null | undefined;
  for (let n = 0; n < pages; n++) {
    const page: Page = await get(`${pathOf(queue)}/lanes`, { limit: PAGE, cursor }, signal);
    found.push(...page.lanes);
    cursor = page.next_cursor;
    if (!cursor) break;
  }
  return { lanes: found, isMore: Boolean(cursor) };
}

function letGo(queue: Queue, key: string, done: () => void) {
  ask({
    title: `Let key ${key} go?`,
    text: "Its jobs start again at once, and what it owes of its rate is forgotten. What asked to slow down may ask again.",
    yes: "Let it go",
    send: async () => {
      const { released } = await post<{ released: boolean }>(`${pathOf(queue)}/lanes/release`, { key });
      done();
      return released ? `key ${key} goes on` : `nothing held key ${key} any more`;
    },
  });
}

// As many as may wait do; those that are due are a part of them.
const isFull = (queue: Queue, lane: LaneState) => {
  const { backlog, mode } = ruleOf(queue.flow, lane.key);
  return backlog != null && mode !== "newest" && Number(lane.due) >= Number(backlog);
};

const isAhead = (at: string | null | undefined): at is string => Boolean(at) && Date.parse(at!) > tick.value;

export function QueueLimits({ queue }: { queue: Queue }) {
  const pages = useSignal(1);
  const read = useReading((signal) => readLanes(queue, pages.value, signal), EVERY_MS, [queue.name, pages.value, JSON.stringify(queue.flow)]);
  const found = read.value.value;
  const said = lines(queue.flow);
  const full = found?.lanes.filter((lane) => isFull(queue, lane)) ?? [];
  const columns: Column<LaneState>[] = [
    { name: "Key", cell: (lane) => lane.key ?? <span class="muted">no job of it is left</span> },
    {
      name: "Running", isNumber: true,
      cell: (lane) => {
        const most = ruleOf(queue.flow, lane.key).concurrency;
        return <>{many(Number(lane.running))}{most != null && <span class="muted">{` of ${many(Number(most))}`}</span>}</>;
      },
    },
    {
      name: "Due", isNumber: true,
      cell: (lane) => {
        const { backlog, full } = ruleOf(queue.flow, lane.key);
        return (
          <>
            {isFull(queue, lane) && <span class="bad-word" title={full === "drop" ? "the next job is dropped" : "the next job is refused"}>full </span>}
            {many(Number(lane.due))}
            {lane.due_capped && "+"}
            {backlog != null && <span class="muted">{` of ${many(Number(backlog))}`}</span>}
          </>
        );
      },
    },
    { name: "Held", cell: (lane) => (isAhead(lane.held_until) ? <span class="warm-word">ends <Ago at={lane.held_until} /></span> : <span class="muted">no</span>) },
    { name: "Next unit", cell: (lane) => (isAhead(lane.next_at) ? <Ago at={lane.next_at} /> : <span class="muted">–</span>) },
    ...(may("operator") ? [{ name: "", isNumber: true, cell: (lane: LaneState) => lane.key && (isAhead(lane.held_until) || isAhead(lane.next_at)) && <button type="button" aria-label={`let go of ${lane.key}`} onClick={() => letGo(queue, lane.key!, read.look)}>Let go</button> }] : []),
  ];
  return (
    <>
      <Panel title="Limits" note={may("operator") && <a href={changed({ edit: "limits" })}>change</a>}>
        {said.length ? <Facts rows={said} /> : <p class="quiet-line muted">None: its jobs start as soon as a worker has room.</p>}
      </Panel>
      <Trouble problem={read.problem.value} again={read.look} />
      {full.length > 0 && (
        <p class="blocked">
          <strong>{full.length === 1 ? `Key ${full[0].key} is full.` : `${many(full.length)} keys are full.`}</strong>
          {` As many jobs wait as may; the next is ${ruleOf(queue.flow, full[0].key).full === "drop" ? "dropped" : "refused"}.`}
        </p>
      )}
      {found && found.lanes.length > 0 && (
        <>
          <h2 class="below">Keys</h2>
          <Table caption="keys" rows={found.lanes} keyOf={(lane) => lane.key ?? `lane ${found.lanes.indexOf(lane)}`} columns={columns} />
          {found.isMore && (
            <p class="pager">
              <button type="button" onClick={() => (pages.value += 1)}>
                More keys
              </button>
            </p>
          )}
        </>
      )}
    </>
  );
}
