// Who works, who is stuck?

import { get, type Job, type Worker } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty, tick } from "../base/parts.tsx";
import { href } from "../base/route.ts";
import { may } from "../base/session.ts";
import { many, short } from "../base/text.ts";
import { drain, undrain } from "./acts.tsx";
import { Bar, Facts, Page, Panel, Pill, Table, Trouble, type Column } from "./bits.tsx";

const EVERY_MS = 3000;
const HELD_MOST = 500;

type Read = { workers: Worker[]; held: Map<string, Job[]> };

// The workers, and what each of them holds.
async function read(signal: AbortSignal): Promise<Read> {
  const [{ workers }, { jobs }] = await Promise.all([get<{ workers: Worker[] }>("v1/workers", {}, signal), get<{ jobs: Job[] }>("v1/jobs", { status: "running", limit: HELD_MOST }, signal)]);
  return { workers, held: Map.groupBy(jobs, (job) => job.lease?.worker_id ?? "") };
}

const StatePill = ({ worker }: { worker: Worker }) => <Pill status={worker.live ? (worker.draining ? "waiting" : "completed") : "cancelled"} text={worker.live ? (worker.draining ? "draining" : "live") : "gone"} />;

// Up to now while it lives; up to when it was seen when it does not.
const Up = ({ worker }: { worker: Worker }) => <>{duration(Math.max(0, (worker.live ? tick.value : Date.parse(worker.seen_at)) - Date.parse(worker.started_at)))}</>;

const Slots = ({ n, of }: { n: number; of: number }) => (
  <span class="slots">
    <Bar progress={of ? (100 * n) / of : 0} /> <span>{`${many(n)} of ${many(of)}`}</span>
  </span>
);

const DrainButton = ({ worker, done }: { worker: Worker; done: () => void }) =>
  worker.live ? (
    worker.draining ? (
      <button type="button" onClick={() => undrain(worker, done)}>
        Take jobs again
      </button>
    ) : (
      <button type="button" onClick={() => drain(worker, done)}>
        Drain
      </button>
    )
  ) : null;

export function Workers() {
  const found = useReading(read, EVERY_MS, []);
  useFeed("v1/feed", { params: { type: "job_started,job_claimed" }, onEvents: useSoon(found.look, 1000) }, []);
  const all = found.value.value;
  const columns: Column<Worker>[] = [
    { name: "Worker", cell: (worker) => <a class="mono" href={href("workers", worker.id)}>{worker.id}</a> },
    { name: "State", cell: (worker) => <StatePill worker={worker} /> },
    { name: "In use", cell: (worker) => <Slots n={all!.held.get(worker.id)?.length ?? 0} of={Number(worker.capacity)} /> },
    { name: "Queues", isWide: true, cell: (worker) => worker.queues.join(", ") },
    { name: "Kinds", isWide: true, cell: (worker) => <span class="muted">{worker.kinds.join(", ") || "all"}</span> },
    { name: "Up", isNumber: true, cell: (worker) => <Up worker={worker} /> },
    { name: "Seen", cell: (worker) => <Ago at={worker.seen_at} /> },
    ...(may("operator", "worker") ? [{ name: "", isNumber: true, cell: (worker: Worker) => <DrainButton worker={worker} done={found.look} /> }] : []),
  ];
  return (
    <Page title="Workers">
      <Trouble problem={found.problem.value} again={found.look} />
      {all?.workers.length === 0 && <Empty title="No workers" text="Start one; any program can be a handler:" command="windlass work --queue default --exec ./report.sh" />}
      {all && all.workers.length > 0 && <Table caption="workers" rows={all.workers} keyOf={(worker) => worker.id} columns={columns} rowClass={(worker) => (worker.live ? "" : "gone")} />}
    </Page>
  );
}

export function OneWorker({ id }: { id: string }) {
  const found = useReading(read, EVERY_MS, []);
  useFeed("v1/feed", { params: { type: "job_started,job_claimed" }, onEvents: useSoon(found.look, 1000) }, []);
  const worker = found.value.value?.workers.find((worker) => worker.id === id);
  const held = found.value.value?.held.get(id) ?? [];
  return (
    <>
      <p class="back">
        <a href="#/workers">← workers</a>
      </p>
      <Trouble problem={found.problem.value} again={found.look} />
      {found.value.value && !worker && <Empty isPage title="There is no such worker" text="One that is gone for long is forgotten." />}
      {worker && (
        <Page title={worker.id} note={<StatePill worker={worker} />} acts={<>{may("operator", "worker") && <DrainButton worker={worker} done={found.look} />}</>}>
          <div class="two">
            <Panel title="Holds" note={`${many(held.length)} of ${many(Number(worker.capacity))}`}>
              <ul class="lines-list">
                {held.map((job) => (
                  <li key={job.id}>
                    <a class="grow" href={href("jobs", job.id)}>
                      {job.kind} <span class="mono muted">{short(job.id)}</span>
                    </a>
                    <span>{duration(Math.max(0, tick.value - Date.parse(job.started_at ?? job.updated_at)))}</span>
                    {job.lease?.expires_at && <span class="since muted">lease ends <Ago at={job.lease.expires_at} /></span>}
                  </li>
                ))}
              </ul>
              {held.length === 0 && <p class="muted">Nothing at the moment.</p>}
            </Panel>
            <Panel title="Facts">
              <Facts
                rows={[
                  ["queues", worker.queues.map((queue, n) => <>{n > 0 && ", "}<a href={href("queues", queue)}>{queue}</a></>)],
                  ["kinds", worker.kinds.join(", ") || "all"],
                  ["at once", many(Number(worker.capacity))],
                  ["slots", Object.entries(worker.slots ?? {}).map(([queue, n]) => `${queue} ${n}`).join(", ")],
                  ["labels", Object.entries(worker.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(", ")],
                  ["up", <Up worker={worker} />],
                  ["seen", <Ago at={worker.seen_at} />],
                ]}
              />
            </Panel>
          </div>
        </Page>
      )}
    </>
  );
}
