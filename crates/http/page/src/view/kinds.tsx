// Is a kind of job slow, or sick?

import { get, now, type Job, type Stats } from "../base/api.ts";
import { duration, hour } from "../base/clock.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { brief, many, rate } from "../base/text.ts";
import { JobLink, Page, Panel, Pill, Table, Trouble, type Column } from "./bits.tsx";
import { Chart, Spark, ticks, type Line } from "./chart.tsx";
import { fold, kindsOf, last, percentile, windowOf, type KindTotals, type Row, type Window } from "./stats.ts";
import { Tile } from "./queues.tsx";

const EVERY_MS = 45_000;
const SOON_MS = 10_000;
const SLOWEST = 20;
const LOOKED_AT = 500;

async function readStats(kind: string | undefined, signal: AbortSignal) {
  const view = windowOf(params.value, now());
  const stats = await get<Stats>("v1/stats", { from: new Date(view.from).toISOString(), to: view.isLive ? undefined : new Date(view.to).toISOString(), step: view.step, by: "kind", kind }, signal);
  return { view, stats };
}

// Stats come by the minute; an end that is bad is worth a look before that.
function useEnds(kind: string | undefined, look: () => void) {
  useFeed("v1/feed", { params: { type: "job_failed,job_timed_out", kind }, onEvents: useSoon(look, SOON_MS) }, [kind]);
}

const share = (n: number | null) => (n === null ? "–" : n === 1 ? "100 %" : `${(n * 100).toFixed(n > 0.999 ? 2 : 1)} %`);
const time = (ms: number | null) => (ms === null ? <span class="muted">–</span> : duration(ms));

export function Kinds() {
  const read = useReading((signal) => readStats(undefined, signal), EVERY_MS, [params.value.toString()]);
  useEnds(undefined, read.look);
  const found = read.value.value;
  const bounds = (found?.stats.bounds ?? []) as number[];
  const kinds = found ? kindsOf(found.stats) : [];
  const columns: Column<KindTotals>[] = [
    { name: "Kind", cell: (kind) => (kind.name === "other" ? <span class="muted">all others</span> : <a href={href("kinds", kind.name, { from: params.value.get("from") ?? undefined, to: params.value.get("to") ?? undefined })}>{kind.name}</a>) },
    { name: "Over time", cell: (kind) => <Spark tone="accent" values={kind.perStep} what={`${kind.name}: attempts that ended, over the range`} /> },
    { name: "Completed", isNumber: true, cell: (kind) => many(kind.completed) },
    { name: "Succeeds", isNumber: true, cell: (kind) => <span class={kind.success !== null && kind.success < 0.95 ? "bad-word" : ""}>{share(kind.success)}</span> },
    { name: "Retried", isNumber: true, cell: (kind) => many(kind.retried) },
    { name: "Dead", isNumber: true, cell: (kind) => (kind.dead > 0 ? <a class="bad-word" href={href("jobs", "", { kind: kind.name, dead: "true" })}>{many(kind.dead)}</a> : 0) },
    { name: "Wait p95", isNumber: true, cell: (kind) => time(percentile(kind.wait, 0.95, bounds)) },
    { name: "Run p50", isNumber: true, cell: (kind) => time(percentile(kind.run, 0.5, bounds)) },
    { name: "Run p99", isNumber: true, cell: (kind) => time(percentile(kind.run, 0.99, bounds)) },
  ];
  return (
    <Page title="Kinds" note="what each kind of job did in the range, the busiest first">
      <Trouble problem={read.problem.value} again={read.look} />
      {found && kinds.length === 0 && <Empty title="Nothing happened" text="Take a longer range, or enqueue a job." />}
      {kinds.length > 0 && <Table caption="kinds" rows={kinds} keyOf={(kind) => kind.name} columns={columns} />}
    </Page>
  );
}

export function OneKind({ id }: { id: string }) {
  const read = useReading((signal) => readStats(id, signal), EVERY_MS, [params.value.toString(), id]);
  useEnds(id, read.look);
  const found = read.value.value;
  const back = (
    <p class="back">
      <a href="#/kinds">← kinds</a>
    </p>
  );
  return (
    <>
      {back}
      <Page title={id} acts={<a class="button" href={href("jobs", "", { kind: id })}>Its jobs</a>}>
        <Trouble problem={read.problem.value} again={read.look} />
        {found && <Drawn id={id} view={found.view} stats={found.stats} />}
        <Slowest kind={id} />
      </Page>
    </>
  );
}

function Drawn({ id, view, stats }: { id: string; view: Window; stats: Stats }) {
  const rows = fold(stats, view);
  const bounds = stats.bounds as number[];
  const totals = kindsOf(stats).find((kind) => kind.name === id);
  const at = { at: rows.map((row) => row.at), stepMs: Number(stats.step) * 1000 };
  const per = (...names: string[]) => (row: Row) => names.reduce((sum, name) => sum + (row.counts[name] ?? 0), 0) / view.step;
  const line = (name: string, tone: string, of: (row: Row) => number | null, show: (n: number) => string, isArea = false): Line => {
    const newest = last(rows, of);
    return { name, tone, isArea, values: rows.map(of), latest: newest === null ? "–" : show(newest) };
  };
  const perSecond = (n: number) => `${rate(n)}/s`;
  const times = ([["p50", 0.5, "good"], ["p95", 0.95, "warm"], ["p99", 0.99, "bad"]] as const).map(([name, of, tone]) => line(name, tone, (row) => percentile(row.run, of, bounds), duration));
  return (
    <>
      <div class="tiles">
        <Tile name="completed" value={many(totals?.completed ?? 0)} />
        <Tile name="succeeds" value={share(totals?.success ?? null)} />
        <Tile name="retried" value={many(totals?.retried ?? 0)} />
        <Tile name="dead" value={many(totals?.dead ?? 0)} />
        <Tile name="wait p95" value={time(totals ? percentile(totals.wait, 0.95, bounds) : null)} />
        <Tile name="run p95" value={time(totals ? percentile(totals.run, 0.95, bounds) : null)} />
      </div>
      <div class="charts">
        <Chart title="Throughput" note="jobs per second" lines={[line("completed", "good", per("completed"), perSecond, true), line("retried", "warm", per("retried"), perSecond), line("failed", "bad", per("failed", "timed_out"), perSecond)]} show={brief} least={0.1} {...at} />
        <Chart title="Run time" note="p50 · p95 · p99, log scale" lines={times} show={duration} isLog least={100} {...at} />
        <Heat title="How long it ran" rows={rows} of="run" bounds={bounds} stepMs={at.stepMs} />
        <Heat title="How long it waited" rows={rows} of="wait" bounds={bounds} stepMs={at.stepMs} />
      </div>
    </>
  );
}

const BANDS = 16;

// Time across, length of time upwards on a log scale; the darker, the more jobs. Two populations show as two bands.
function Heat({ title, rows, of, bounds, stepMs }: { title: string; rows: Row[]; of: "run" | "wait"; bounds: number[]; stepMs: number }) {
  const used = rows.flatMap((row) => [...row[of].keys()]);
  const [low, high] = [Math.max(0, Math.min(...used) - 1), Math.max(...used) + 1];
  const per = Math.max(1, Math.ceil((high - low + 1) / BANDS));
  const bands = Math.ceil((high - low + 1) / per);
  const cells = new Map<string, number>();
  rows.forEach((row, n) => row[of].forEach((count, bucket) => {
    const key = `${n} ${Math.floor((bucket - low) / per)}`;
    cells.set(key, (cells.get(key) ?? 0) + count);
  }));
  const peak = Math.max(1, ...cells.values());
  const first = rows[0]?.at ?? 0;
  const span = rows.length * stepMs || 1;
  const top = (band: number) => (bounds[Math.min(bounds.length - 1, low + band * per)] ?? 0) * 1000;
  const total = [...cells.values()].reduce((sum, n) => sum + n, 0);
  return (
    <section class="panel chart" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span class="muted">{total ? `${many(total)} measured, at most ${many(peak)} in a cell` : "log scale"}</span>
      </header>
      {total === 0 ? (
        <p class="quiet-line muted">Nothing was measured in this range.</p>
      ) : (
        <div class="plot" role="img" aria-label={`${title}: ${many(total)} measured, between ${duration(top(0))} and ${duration(top(bands - 1))}`}>
          <svg viewBox={`0 0 ${rows.length} ${bands}`} preserveAspectRatio="none" aria-hidden="true">
            {[...cells].map(([key, count]) => {
              const [n, band] = key.split(" ").map(Number);
              return <rect key={key} class="heat" x={n} y={bands - 1 - band} width={1.02} height={1.02} fill-opacity={0.15 + 0.85 * Math.sqrt(count / peak)} />;
            })}
          </svg>
          {[0, Math.floor((bands - 1) / 2), bands - 1].map((band) => (
            <span class="y" style={{ top: `${((bands - 1 - band) / bands) * 100}%` }}>
              {duration(top(band)).replace(".0 ", " ")}
            </span>
          ))}
          {ticks(first, first + span).map((at) => {
            const place = ((at - first) / span) * 100;
            return <span class="x" data-edge={place < 6 ? "left" : place > 94 ? "right" : undefined} style={{ left: `${place}%` }}>{hour(new Date(at))}</span>;
          })}
        </div>
      )}
    </section>
  );
}

const ran = (job: Job) => (job.started_at && job.finished_at ? Date.parse(job.finished_at) - Date.parse(job.started_at) : 0);

// There is no index by length of time; so of the newest, and said so.
function Slowest({ kind }: { kind: string }) {
  const read = useReading((signal) => get<{ jobs: Job[] }>("v1/jobs", { kind, status: "completed", limit: LOOKED_AT }, signal), EVERY_MS, [kind]);
  const jobs = read.value.value?.jobs ?? [];
  const slowest = [...jobs].sort((a, b) => ran(b) - ran(a)).slice(0, SLOWEST);
  return (
    <Panel title="Slowest" note={jobs.length ? `of the newest ${many(jobs.length)} that completed` : undefined}>
      <Trouble problem={read.problem.value} again={read.look} />
      {read.value.value && jobs.length === 0 && <p class="quiet-line muted">None has completed.</p>}
      {slowest.length > 0 && (
        <Table
          caption="slowest jobs"
          rows={slowest}
          keyOf={(job) => job.id}
          columns={[
            { name: "Job", cell: (job) => <JobLink id={job.id} /> },
            { name: "Status", cell: (job) => <Pill status={job.status} /> },
            { name: "Queue", cell: (job) => job.queue },
            { name: "Ran", isNumber: true, cell: (job) => duration(ran(job)) },
            { name: "Attempt", isNumber: true, cell: (job) => many(Number(job.attempt)) },
            { name: "Ended", isNumber: true, cell: (job) => <Ago at={job.finished_at} /> },
          ]}
        />
      )}
    </Panel>
  );
}
