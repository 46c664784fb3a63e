// One queue over time.

import { get, now, type Stats } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { useReading } from "../base/live.ts";
import { params } from "../base/route.ts";
import { brief, rate } from "../base/text.ts";
import { Chart, type Line } from "./chart.tsx";
import { Trouble } from "./bits.tsx";
import { depthOf, fold, last, percentile, windowOf, type Row } from "./stats.ts";

const EVERY_MS = 45_000;

export function QueueCharts({ queue }: { queue: string }) {
  const asked = params.value.toString();
  const read = useReading(
    async (signal) => {
      const view = windowOf(params.value, now());
      const stats = await get<Stats>("v1/stats", { from: new Date(view.from).toISOString(), to: view.isLive ? undefined : new Date(view.to).toISOString(), step: view.step, by: "queue", queue }, signal);
      return { view, stats };
    },
    EVERY_MS,
    [asked, queue],
  );
  const found = read.value.value;
  if (!found) return <Trouble problem={read.problem.value} again={read.look} />;
  const { view, stats } = found;
  const rows = fold(stats, view);
  const bounds = stats.bounds as number[];
  const line = (name: string, tone: string, of: (row: Row) => number | null, show: (n: number) => string = brief, isArea = false): Line => {
    const newest = last(rows, of);
    return { name, tone, isArea, values: rows.map(of), latest: newest === null ? "–" : show(newest) };
  };
  const perSecond = (n: number) => `${rate(n)}/s`;
  const per = (...names: string[]) => (row: Row) => names.reduce((sum, name) => sum + (row.counts[name] ?? 0), 0) / view.step;
  const at = { at: rows.map((row) => row.at), stepMs: Number(stats.step) * 1000 };
  const times = (name: "wait" | "run") => ([["p50", 0.5, "good"], ["p95", 0.95, "warm"], ["p99", 0.99, "bad"]] as const).map(([text, share, tone]) => line(text, tone, (row) => percentile(row[name], share, bounds), duration));
  return (
    <div class="charts">
      <Chart title="Throughput" note="jobs per second" lines={[line("completed", "good", per("completed"), perSecond, true), line("retried", "warm", per("retried"), perSecond), line("failed", "bad", per("failed", "timed_out"), perSecond), line("enqueued", "ink", per("enqueued"), perSecond)]} show={brief} least={0.1} {...at} />
      <Chart title="Waiting in line" note="due jobs" lines={[line("due", "warm", (row) => depthOf(row, queue), brief, true)]} show={brief} least={2} {...at} />
      <Chart title="Wait before start" note="p50 · p95 · p99, log scale" lines={times("wait")} show={duration} isLog least={100} {...at} />
      <Chart title="Run time" note="p50 · p95 · p99, log scale" lines={times("run")} show={duration} isLog least={100} {...at} />
    </div>
  );
}
