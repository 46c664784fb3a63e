// Does each queue keep up, and until when?

import { get, post, put, type Queue, type Worker } from "../base/api.ts";
import { duration, seconds } from "../base/clock.ts";
import { later } from "../base/later.tsx";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty, Icon, tick } from "../base/parts.tsx";
import { changed, href, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { many, plural, rate } from "../base/text.ts";
import { pause, resume } from "./acts.tsx";
import { Facts, Flag, Page, Panel, Table, Trouble, type Column } from "./bits.tsx";
import { QueueCharts } from "./queue-charts.tsx";
import type { ComponentChildren } from "preact";
import { ask, Field } from "./dialog.tsx";
import { drainMs, serves } from "./stats.ts";

const LimitEditor = later(() => import("../edit/edit.tsx").then((edit) => edit.LimitEditor));
const QueueLimits = later(() => import("../edit/edit.tsx").then((edit) => edit.QueueLimits));

const EVERY_MS = 3000;
const TYPES = "job_created,job_claimed,job_completed,job_failed";

type Read = { queues: Queue[]; workers: Worker[] };

async function readQueues(signal: AbortSignal): Promise<Read> {
  const [{ queues }, { workers }] = await Promise.all([get<{ queues: Queue[] }>("v1/queues", {}, signal), get<{ workers: Worker[] }>("v1/workers", {}, signal)]);
  return { queues, workers };
}

export const due = (queue: Queue) => `${many(Number(queue.due))}${queue.due_capped ? "+" : ""}`;

// "retries 10, timeout 30 s"
export const defaults = (said: Record<string, unknown>) =>
  Object.entries(said)
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => `${name.replace("max_", "").replaceAll("_", " ")} ${name === "max_retries" ? value : seconds(value)}`)
    .join(", ");

// When it is empty, at the pace of the last minute.
function Drains({ queue }: { queue: Queue }) {
  const n = Number(queue.due);
  if (n === 0) return <span class="muted">–</span>;
  const left = drainMs(n, { enqueued: Number(queue.rates.enqueued), started: Number(queue.rates.started) });
  return left === null ? <span class="warm-word">not at this pace</span> : <>{`in ${duration(left)}`}</>;
}

const PauseButton = ({ queue, done }: { queue: Queue; done: () => void }) =>
  queue.paused ? (
    <button type="button" onClick={() => resume(queue, done)}>
      Resume
    </button>
  ) : (
    <button type="button" onClick={() => pause(queue, done)}>
      Pause
    </button>
  );

export function Queues() {
  const read = useReading(readQueues, EVERY_MS, []);
  useFeed("v1/feed", { params: { type: TYPES }, onEvents: useSoon(read.look, 1000) }, []);
  const found = read.value.value;
  const columns: Column<Queue>[] = [
    {
      name: "Queue",
      cell: (queue) => (
        <>
          <a href={href("queues", queue.name)}>{queue.name}</a> <Flag paused={queue.paused} />
          {queue.broken && <span class="flag bad-word"><Icon name="failed" />broken</span>}
        </>
      ),
    },
    { name: "Due", isNumber: true, cell: due },
    { name: "Oldest due", cell: (queue) => (queue.oldest_due_at ? <Ago at={queue.oldest_due_at} /> : <span class="muted">–</span>) },
    { name: "Drained", cell: (queue) => <Drains queue={queue} /> },
    ...(["enqueued", "completed", "dead"] as const).map((name): Column<Queue> => ({ name: `${{ enqueued: "In", completed: "Done", dead: "Dead" }[name]} /s`, isNumber: true, cell: (queue) => (name === "dead" && Number(queue.rates[name]) > 0 ? <span class="bad-word">{rate(Number(queue.rates[name]))}</span> : rate(Number(queue.rates[name]))) })),
    {
      name: "Workers",
      isNumber: true,
      cell: (queue) => {
        const n = found!.workers.filter((worker) => serves(worker, queue.name)).length;
        return n === 0 && Number(queue.due) > 0 ? <span class="bad-word">none</span> : many(n);
      },
    },
    { name: "Defaults", isWide: true, cell: (queue) => <span class="muted">{defaults(queue.defaults as Record<string, unknown>)}</span> },
    ...(may("operator") ? [{ name: "", isNumber: true, cell: (queue: Queue) => <PauseButton queue={queue} done={read.look} /> }] : []),
  ];
  return (
    <Page title="Queues" note="rates are those of the last minute, as this server saw it">
      <Trouble problem={read.problem.value} again={read.look} />
      {found?.queues.length === 0 && <Empty title="No queues yet" text="A queue is there as soon as a job is in it:" command="windlass enqueue report --queue reports" />}
      {found && found.queues.length > 0 && <Table caption="queues" rows={found.queues} keyOf={(queue) => queue.name} columns={columns} />}
    </Page>
  );
}

// What jobs of the queue fall back to, before and after.
function editDefaults(queue: Queue, done: () => void) {
  const was = queue.defaults as Record<string, unknown>;
  ask({
    title: `Defaults of ${queue.name}`,
    text: `Jobs that say nothing else fall back to these. Now: ${defaults(was) || "nothing is set"}.`,
    fields: (
      <div class="pair">
        <Field label="Retries">
          <input name="max_retries" inputMode="numeric" autocomplete="off" defaultValue={String(was.max_retries ?? "")} />
        </Field>
        <Field label="Timeout, such as 30s">
          <input name="timeout" autocomplete="off" defaultValue={was.timeout === undefined || was.timeout === null ? "" : `${was.timeout}s`} />
        </Field>
      </div>
    ),
    yes: "Set",
    send: async (form) => {
      const [retries, timeout] = [form.max_retries.value.trim(), form.timeout.value.trim()];
      await put(`v1/queues/${encodeURIComponent(queue.name)}`, { ...was, mode: queue.mode, max_retries: retries ? Number(retries) : undefined, timeout: timeout || undefined });
      done();
      return `the defaults of ${queue.name} are set`;
    },
  });
}

const path = (queue: Queue) => `v1/queues/${encodeURIComponent(queue.name)}`;

// Setting a queue's limits makes it whole, also those it has.
function mend(queue: Queue, done: () => void) {
  ask({
    title: `Mend ${queue.name} now?`,
    text: "Its jobs start at once, as fast as its limits let them. If they fail, it breaks again.",
    yes: "Mend it",
    send: async () => {
      // As they stand now: another may have changed them since this was read.
      const { queues } = await get<{ queues: Queue[] }>("v1/queues");
      const stands = queues.find((found) => found.name === queue.name) ?? queue;
      await put(path(queue), { ...(stands.defaults as object), flow: stands.flow ?? {} });
      done();
      return `${queue.name} is mended`;
    },
  });
}

function letGo(queue: Queue, done: () => void) {
  ask({
    title: `Let ${queue.name} go?`,
    text: "Its jobs start again at once; keys that are held for themselves stay so. What asked to slow down may ask again.",
    yes: "Let it go",
    send: async () => {
      await post(`${path(queue)}/lanes/release`, {});
      done();
      return `${queue.name} goes on`;
    },
  });
}

// Why nothing of the queue starts, although nobody paused it.
function Stopped({ queue, done }: { queue: Queue; done: () => void }) {
  const { broken, held_until: held } = queue;
  const isAhead = (at: string) => Date.parse(at) > tick.value;
  return (
    <>
      {broken && (
        <div class="blocked with-act">
          <p>
            <strong>It broke <Ago at={broken.at} />: </strong>
            {`${many(Number(broken.failed))} of ${many(Number(broken.ended))} attempts failed. `}
            {isAhead(broken.until) ? <>Nothing starts; it tries again <Ago at={broken.until} />, one job at a time until one succeeds.</> : "One job at a time is tried until one succeeds."}
          </p>
          {may("operator") && <button type="button" onClick={() => mend(queue, done)}>Mend now</button>}
        </div>
      )}
      {held && isAhead(held) && (
        <div class="blocked with-act">
          <p><strong>It is held: </strong>a job was asked to slow down. Nothing starts; it goes on <Ago at={held} />.</p>
          {may("operator") && <button type="button" onClick={() => letGo(queue, done)}>Let go</button>}
        </div>
      )}
    </>
  );
}

export function OneQueue({ id }: { id: string }) {
  const read = useReading(readQueues, EVERY_MS, []);
  useFeed("v1/feed", { params: { queue: id, type: TYPES }, onEvents: useSoon(read.look, 1000) }, [id]);
  const found = read.value.value;
  const queue = found?.queues.find((queue) => queue.name === id);
  const back = (
    <p class="back">
      <a href="#/queues">← queues</a>
    </p>
  );
  if (!found) return <><p>{back}</p><Trouble problem={read.problem.value} again={read.look} /></>;
  if (!queue) return <>{back}<Empty isPage title="There is no such queue" text="A queue is there while it holds jobs or has settings." /></>;
  const workers = found.workers.filter((worker) => worker.queues.includes(id));
  const isEdited = may("operator") && params.value.get("edit") === "limits";
  const body = (
    <>
        <div class="tiles">
          <Tile name="due" value={due(queue)} />
          <Tile name="oldest" value={queue.oldest_due_at ? <Ago at={queue.oldest_due_at} /> : "–"} />
          <Tile name="drained" value={<Drains queue={queue} />} />
          <Tile name="done /s" value={rate(Number(queue.rates.completed))} />
          <Tile name="dead /s" value={rate(Number(queue.rates.dead))} />
        </div>
        <QueueCharts queue={queue.name} />
        <div class="two">
          <Panel title="Who serves it">
            <ul class="lines-list">
              {workers.map((worker) => (
                <li key={worker.id}>
                  <a class="grow mono clip" href={href("workers", worker.id)}>
                    {worker.id}
                  </a>
                  <span class="muted">{worker.live ? (worker.draining ? "draining" : plural(Number(worker.slots?.[id] ?? worker.capacity), "slot")) : "gone"}</span>
                  <span class="since">
                    <Ago at={worker.seen_at} />
                  </span>
                </li>
              ))}
            </ul>
            {workers.length === 0 && <p class="muted">Nobody. Start one: <code>{`windlass work --queue ${id} --exec ./handler`}</code></p>}
          </Panel>
          <Panel title="Settings">
            <Facts rows={[["mode", queue.mode], ["defaults", defaults(queue.defaults as Record<string, unknown>) || "none"], ["paused", queue.paused && <><Ago at={queue.paused.at} />{` by ${queue.paused.by}`}</>]]} />
          </Panel>
        </div>
        <QueueLimits queue={queue} />
    </>
  );
  return (
    <>
      {back}
      <Page
        title={queue.name}
        note={<Flag paused={queue.paused} />}
        acts={
          <>
            <a class="button" href={href("jobs", "", { queue: queue.name })}>
              Its jobs
            </a>
            {may("operator") && <button type="button" onClick={() => editDefaults(queue, read.look)}>Defaults</button>}
            {may("operator") && !isEdited && <a class="button" href={changed({ edit: "limits" })}>Limits</a>}
            {may("operator") && <PauseButton queue={queue} done={read.look} />}
          </>
        }
      >
        <Trouble problem={read.problem.value} again={read.look} />
        <Stopped queue={queue} done={read.look} />
        {isEdited ? <LimitEditor queue={queue} done={read.look} /> : body}
      </Page>
    </>
  );
}

export const Tile = ({ name, value }: { name: string; value: ComponentChildren }) => (
  <div class="tile">
    <span class="muted">{name}</span>
    <b>{value}</b>
  </div>
);
