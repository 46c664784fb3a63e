// Is it healthy? Since when? What needs me?

import { useMemo } from "preact/hooks";
import { get, now as clock, type Alert, type Approval, type Mark, type Now, type ProblemGroup, type Schedule, type Stats, type Worker } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Icon, tick } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { brief, many, rate } from "../base/text.ts";
import { resume } from "./acts.tsx";
import { Panel, Trouble } from "./bits.tsx";
import { Chart, MarkList, Spark, type Line } from "./chart.tsx";
import { hoursOf, isNew } from "./problems.tsx";
import { deepest, depthOf, fold, last, percentile, verdict, windowOf, type Row, type Window } from "./stats.ts";

const NOW_MS = 3000;
// Stats come by the minute, and are the heaviest answer of all.
const STATS_MS = 45_000;
const QUEUE_TONES = ["warm", "accent", "rest", "good", "faint"];

type All = { alerts: Alert[]; now: Now; workers: Worker[]; problems: ProblemGroup[]; approvals: Approval[]; schedules: Schedule[] };

// A key that sees only some queues sees no `now` and no problems; what it may see is shown.
const orNone = <T,>(read: Promise<T>, none: T) =>
  read.catch((problem) => {
    if (problem.status === 403) return none;
    throw problem;
  });

async function readAll(signal: AbortSignal): Promise<All> {
  const [now, { workers }, { problems }, { approvals }, { schedules }, { alerts }] = await Promise.all([
    get<Now>("v1/now", {}, signal),
    get<{ workers: Worker[] }>("v1/workers", {}, signal),
    orNone(get<{ problems: ProblemGroup[] }>("v1/problems", { state: "open", limit: 20 }, signal), { problems: [] }),
    get<{ approvals: Approval[] }>("v1/approvals", { status: "pending", limit: 50 }, signal),
    get<{ schedules: Schedule[] }>("v1/schedules", {}, signal),
    orNone(get<{ alerts: Alert[] }>("v1/alerts", {}, signal), { alerts: [] }),
  ]);
  return { now, workers, problems, approvals, schedules, alerts };
}

export function Overview() {
  const asked = params.value.toString();
  const all = useReading(readAll, NOW_MS, []);
  const stats = useReading(
    async (signal) => {
      const view = windowOf(params.value, clock());
      const range = { from: new Date(view.from).toISOString(), to: view.isLive ? undefined : new Date(view.to).toISOString() };
      const [answer, { marks }] = await Promise.all([
        get<Stats>("v1/stats", { ...range, step: view.step, by: "queue" }, signal),
        orNone(get<{ marks: Mark[] }>("v1/marks", { ...range, limit: 50 }, signal), { marks: [] }),
      ]);
      return { view, answer, marks };
    },
    STATS_MS,
    [asked],
  );
  const soon = useSoon(all.look, 1000);
  useFeed("v1/feed", { params: { type: "job_failed,job_approval_asked,job_approval_voted" }, onEvents: soon }, []);
  const read = all.value.value;
  const drawn = stats.value.value;
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Trouble problem={all.problem.value ?? stats.problem.value} again={all.look} />
      {read && <Firing alerts={read.alerts} />}
      {read ? <State all={read} look={all.look} /> : <div class="state" data-tone="none" />}
      {drawn && <Charts stats={drawn.answer} view={drawn.view} now={read?.now} marks={drawn.marks} />}
      {read && (
        <div class="two">
          <ProblemsPanel problems={read.problems} />
          <NeedsPanel approvals={read.approvals} schedules={read.schedules} />
        </div>
      )}
    </>
  );
}

function Firing({ alerts }: { alerts: Alert[] }) {
  const firing = alerts.filter((alert) => alert.firing_since);
  if (firing.length === 0) return null;
  return (
    <section class="firing" aria-label="alerts">
      {firing.map((alert) => (
        <p key={alert.name} role="alert">
          <Icon name="failed" /> <a href="#/settings">{alert.name}</a> fires since <Ago at={alert.firing_since} />: {alert.why}
        </p>
      ))}
    </section>
  );
}

function State({ all, look }: { all: All; look: () => void }) {
  const at = tick.value;
  const said = verdict(all.now, all.workers, all.problems.filter((problem) => isNew(problem, at)), at);
  return (
    <section class="state" data-tone={said.tone} aria-label="state">
      <div>
        <h2>{said.title}</h2>
        <p class="muted">{said.text}</p>
        {said.command && <code>{said.command}</code>}
      </div>
      <div class="row">
        {said.links.map(([text, to]) => (
          <a class="button" href={to}>
            {text}
          </a>
        ))}
        {said.resume && may("operator") && (
          <button type="button" class="main" onClick={() => resume({ name: said.resume! }, look)}>
            Resume
          </button>
        )}
      </div>
    </section>
  );
}

function Charts({ stats, view, now, marks }: { stats: Stats; view: Window; now?: Now; marks: Mark[] }) {
  const made = useMemo(() => {
    const rows = fold(stats, view);
    const bounds = stats.bounds as number[];
    const at = rows.map((row) => row.at);
    const per = (row: Row, ...names: string[]) => names.reduce((sum, name) => sum + (row.counts[name] ?? 0), 0) / view.step;
    const outcomes = (name: string, tone: string, of: (row: Row) => number, isArea = false): Line => ({ name, tone, isArea, values: rows.map(of), latest: `${rate(last(rows, of) ?? 0)}/s` });
    const failed = (row: Row) => per(row, "failed", "timed_out");
    const waits = ([["p50", 0.5, "good"], ["p95", 0.95, "warm"], ["p99", 0.99, "bad"]] as const).map(([name, share, tone]): Line => {
      const of = (row: Row) => percentile(row.wait, share, bounds);
      const newest = last(rows, of);
      return { name, tone, values: rows.map(of), latest: newest === null ? "–" : duration(newest) };
    });
    return {
      at,
      rows,
      throughput: [outcomes("completed", "good", (row) => per(row, "completed"), true), outcomes("retried", "warm", (row) => per(row, "retried")), outcomes("failed", "bad", failed), outcomes("enqueued", "ink", (row) => per(row, "enqueued"))],
      waits,
    };
  }, [stats]);
  const { at, rows } = made;
  const depth = deepest(rows, now?.queues ?? [], QUEUE_TONES.length).map((name, n): Line => {
    const queue = now?.queues.find((found) => found.name === name);
    return { name, tone: QUEUE_TONES[n], isArea: n === 0, values: rows.map((row) => depthOf(row, name)), latest: queue ? `${many(Number(queue.due))}${queue.due_capped ? "+" : ""}` : "0" };
  });
  const shared = { at, stepMs: Number(stats.step) * 1000, marks };
  const slots: Line[] = [
    { name: "in use", tone: "accent", isArea: true, values: rows.map((row) => row.busy), latest: now && many(Number(now.statuses.running?.count ?? 0)) },
    { name: "capacity", tone: "faint", values: rows.map((row) => row.capacity), latest: now && many(Number(now.workers.capacity)) },
  ];
  return (
    <>
    <div class="charts">
      <Chart title="Throughput" note="jobs per second, by outcome" lines={made.throughput} show={(n) => brief(n)} least={0.1} {...shared} href="#/jobs" />
      <Chart title="Waiting in line" note="due jobs by queue" lines={depth} show={(n) => brief(n)} least={2} {...shared} href="#/queues" />
      <Chart title="Wait before start" note="p50 · p95 · p99, log scale" lines={made.waits} show={duration} isLog least={100} {...shared} />
      <Chart title="Workers" note="slots in use of capacity" lines={slots} show={(n) => brief(n)} least={2} {...shared} href="#/workers" />
    </div>
    <MarkList marks={marks} />
    </>
  );
}

function ProblemsPanel({ problems }: { problems: ProblemGroup[] }) {
  return (
    <Panel title="Problems" note={<a href="#/problems">all problems</a>}>
      {problems.length === 0 ? (
        <p class="quiet-line muted">Nothing fails.</p>
      ) : (
        <ul class="lines-list">
          {problems.slice(0, 5).map((problem) => (
            <li key={problem.fingerprint}>
              <a class="grow" href={href("problems", problem.fingerprint)}>
                <span class="code">{problem.code}</span> <b>{problem.kind}</b>
                <span class="muted clip">{problem.message}</span>
              </a>
              <Spark values={hoursOf(problem, tick.value)} what={`errors of the last 24 hours: ${problem.errors}`} />
              <span class="num figure-cell">{many(Number(problem.errors))}</span>
              <span class="since">{isNew(problem, tick.value) ? <span class="bad-word">new</span> : <Ago at={problem.last_seen_at} />}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

const SOON_MS = 3_600_000;

function NeedsPanel({ approvals, schedules }: { approvals: Approval[]; schedules: Schedule[] }) {
  const asked = [...approvals].sort((a, b) => (a.expires_at < b.expires_at ? -1 : 1)).slice(0, 4);
  const next = schedules.filter((schedule) => schedule.next_at && !schedule.paused).sort((a, b) => (a.next_at! < b.next_at! ? -1 : 1)).slice(0, 4);
  return (
    <Panel title="Needs a person · next fires" note={approvals.length > 4 ? <a href="#/approvals">{`all ${approvals.length}`}</a> : undefined}>
      <ul class="lines-list">
        {asked.map((approval) => (
          <li key={approval.id}>
            <a class="grow rest-word" href={href("approvals", approval.id)}>
              <Icon name="waiting" />
              <span class="clip">{approval.prompt}</span>
            </a>
            {Number(approval.required) > 1 && <span class="muted">{`${approval.approved} of ${approval.required} votes`}</span>}
            <span class={Date.parse(approval.expires_at) - tick.value < SOON_MS ? "since warm-word" : "since"}>
              expires <Ago at={approval.expires_at} />
            </span>
          </li>
        ))}
        {next.map((schedule) => (
          <li key={schedule.name}>
            <a class="grow" href={href("schedules", schedule.name)}>
              <Icon name="timed_out" />
              <span class="clip">
                {schedule.name} <span class="muted">{schedule.cron ? `${schedule.cron} ${schedule.timezone}` : `every ${duration(Number(schedule.every) * 1000).replace(".0", "")}`}</span>
              </span>
            </a>
            <span class="since">
              <Ago at={schedule.next_at} />
            </span>
          </li>
        ))}
      </ul>
      {asked.length + next.length === 0 && <p class="quiet-line muted">Nobody is asked, and nothing runs by the clock.</p>}
    </Panel>
  );
}
