// Charts over time in SVG: themed by the style sheet, one crosshair for all that stand together, zoom by dragging or by keys.

import { signal } from "@preact/signals";
import { useRef, useState } from "preact/hooks";
import type { Mark } from "../base/api.ts";
import { change } from "../base/route.ts";
import { day, hour, zone } from "../base/clock.ts";

// Where the crosshair stands, as a point in time, for every chart of the view.
const cross = signal<number | null>(null);

// Marks of the last stretches, as text for who does not see lines.
export const MarkList = ({ marks }: { marks: Mark[] }) =>
  marks.length > 0 && (
    <p class="marks muted">
      marked:{" "}
      {marks.slice(0, 5).map((mark) => (
        <span key={mark.id}>
          {mark.text} <b>{hour(new Date(mark.at))}</b>
        </span>
      ))}
    </p>
  );

export type Line = { name: string; tone: string; values: (number | null)[]; isArea?: boolean; latest?: string; isStacked?: boolean };

type Props = {
  title: string;
  note: string;
  at: number[];
  stepMs: number;
  lines: Line[];
  show: (value: number) => string;
  isLog?: boolean;
  least?: number;
  href?: string;
  marks?: Mark[];
};

const H = 100;

// The next number that reads well: 1, 2, 5, 10, 20, 50 …
export function niceMax(n: number) {
  if (n <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((m) => m * unit).find((m) => m >= n)!;
}

// Lengths of time that read well, for the top of a logarithmic axis, and what stands in its middle.
const TOPS: [number, number][] = [[100, 10], [1000, 30], [10_000, 100], [60_000, 250], [600_000, 1000], [3_600_000, 2000], [36_000_000, 6000], [86_400_000, 10_000], [6_048e5, 30_000]];

export const logTop = (peak: number) => TOPS.find(([top]) => top >= peak) ?? TOPS.at(-1)!;

const label = (ms: number, spanMs: number) => {
  const at = new Date(ms);
  return spanMs > 2 * 86_400_000 ? day(at).replace(/ \d{4}$/, "") : hour(at);
};

// Points in time that are round and not too many.
export function ticks(from: number, to: number, most = 4): number[] {
  const steps = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600].map((s) => s * 1000);
  const step = steps.find((ms) => (to - from) / ms <= most) ?? (to - from) / most;
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, n) => first + n * step).filter((at) => at >= from && at <= to);
}

export function Chart({ title, note, at, stepMs, lines, show, isLog = false, least = 1, href, marks = [] }: Props) {
  const plot = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  // Times follow the zone.
  zone.value;
  const from = at[0] ?? 0;
  const to = (at.at(-1) ?? 0) + stepMs;
  const span = to - from || 1;
  const peak = Math.max(least, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const [top, half] = logTop(peak);
  const max = isLog ? top : niceMax(peak);
  const min = isLog ? 1 : 0;
  const y = (value: number) => {
    const share = isLog ? Math.log(Math.max(value, min) / min) / Math.log(max / min) : value / max;
    return H - Math.max(0, Math.min(1, share)) * H;
  };
  const x = (n: number) => ((at[n] + stepMs / 2 - from) / span) * 1000;
  const grid = isLog ? [min, half, max] : [0, max / 2, max];
  const timeAt = (clientX: number) => {
    const box = plot.current!.getBoundingClientRect();
    return from + Math.max(0, Math.min(1, (clientX - box.left) / box.width)) * span;
  };
  const index = cross.value === null ? -1 : Math.floor((cross.value - from) / stepMs);
  const isHit = index >= 0 && index < at.length;
  const share = (time: number) => `${((time - from) / span) * 100}%`;
  const zoom = (a: number, b: number) => {
    if (b - a >= 2 * stepMs && b - a >= 120_000) change({ from: new Date(Math.floor(a / 1000) * 1000).toISOString(), to: new Date(Math.ceil(b / 1000) * 1000).toISOString() });
  };
  const up = () => {
    if (drag) zoom(Math.min(...drag), Math.max(...drag));
    setDrag(null);
  };
  const keys = (event: KeyboardEvent) => {
    const middle = cross.value ?? to - stepMs / 2;
    const moves: Record<string, () => void> = {
      ArrowLeft: () => (cross.value = Math.max(from, middle - stepMs)),
      ArrowRight: () => (cross.value = Math.min(to - 1, middle + stepMs)),
      Home: () => (cross.value = from),
      End: () => (cross.value = to - 1),
      "+": () => zoom(Math.max(from, middle - span / 4), Math.min(to, middle + span / 4)),
      "-": () => change({ from: new Date(from - span / 2).toISOString(), to: new Date(to + span / 2).toISOString() }),
      Escape: () => (cross.value = null),
    };
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    moves[event.key]();
    event.preventDefault();
    event.stopPropagation();
  };
  const now = (line: Line) => {
    if (isHit) return line.values[index] === null || line.values[index] === undefined ? "–" : show(line.values[index]!);
    return line.latest ?? "";
  };
  return (
    <section class="panel chart" aria-label={title}>
      <header>
        <h2>{href ? <a href={href}>{title}</a> : title}</h2>
        <span class="muted">{isHit ? `${label(at[index], 86_400_000 * 3)} ${hour(new Date(at[index]))}` : note}</span>
      </header>
      <div
        class="plot"
        ref={plot}
        tabIndex={0}
        role="group"
        aria-label={`${title}: ${lines.map((line) => `${line.name} ${now(line)}`).join(", ")}. Arrows move through time, plus zooms in, minus out.`}
        onPointerMove={(event) => {
          cross.value = timeAt(event.clientX);
          if (drag) setDrag([drag[0], cross.value]);
        }}
        onPointerLeave={() => drag === null && (cross.value = null)}
        onPointerDown={(event) => {
          if (event.button !== 0 || event.pointerType === "touch") return;
          plot.current!.setPointerCapture(event.pointerId);
          setDrag([timeAt(event.clientX), timeAt(event.clientX)]);
        }}
        onPointerUp={up}
        onPointerCancel={() => setDrag(null)}
        onKeyDown={keys}
        onBlur={() => (cross.value = null)}
      >
        <svg viewBox={`0 0 1000 ${H}`} preserveAspectRatio="none" aria-hidden="true">
          {grid.map((value) => (
            <path class="grid" d={`M0 ${y(value)}H1000`} />
          ))}
          {lines.map((line) => (line.isArea ? <path key={line.name} class="area" data-tone={line.tone} d={area(line.values, x, y)} /> : null))}
          {lines.map((line) => (
            <path key={line.name} class={line.isArea ? "line thin" : "line"} data-tone={line.tone} d={path(line.values, x, y)} />
          ))}
        </svg>
        {drag && <span class="drag" style={{ left: share(Math.min(...drag)), width: `${(Math.abs(drag[1] - drag[0]) / span) * 100}%` }} />}
        {marks.filter((mark) => Date.parse(mark.at) >= from && Date.parse(mark.at) <= to).map((mark) => (
          <span key={mark.id} class="mark" title={`${mark.text}, ${hour(new Date(mark.at))}`} style={{ left: share(Date.parse(mark.at)) }} />
        ))}
        {isHit && <span class="cross" style={{ left: share(at[index] + stepMs / 2) }} />}
        {grid.slice(1).map((value) => (
          <span class="y" style={{ top: `${y(value)}%` }}>
            {show(value).replace(".0 ", " ")}
          </span>
        ))}
        {ticks(from, to).map((time) => {
          const place = ((time - from) / span) * 100;
          return (
            <span class="x" data-edge={place < 6 ? "left" : place > 94 ? "right" : undefined} style={{ left: `${place}%` }}>
              {label(time, span)}
            </span>
          );
        })}
      </div>
      <p class="legend">
        {lines.map((line) => (
          <span key={line.name}>
            <i data-tone={line.tone} aria-hidden="true" />
            {line.name} <b>{now(line)}</b>
          </span>
        ))}
      </p>
    </section>
  );
}

// Two decimals of a thousandth of the width are finer than any screen.
const p = (n: number) => Math.round(n * 10) / 10;

function runs(values: (number | null)[]) {
  const found: number[][] = [];
  values.forEach((value, n) => {
    if (value === null || value === undefined) return;
    if (n > 0 && values[n - 1] !== null && values[n - 1] !== undefined && found.length) found.at(-1)!.push(n);
    else found.push([n]);
  });
  return found;
}

function path(values: (number | null)[], x: (n: number) => number, y: (value: number) => number) {
  return runs(values).map((run) => (run.length === 1 ? `M${p(x(run[0]) - 2)} ${p(y(values[run[0]]!))}h4` : `M${run.map((n) => `${p(x(n))} ${p(y(values[n]!))}`).join("L")}`)).join("");
}

function area(values: (number | null)[], x: (n: number) => number, y: (value: number) => number) {
  return runs(values).map((run) => `M${p(x(run[0]))} ${H}L${run.map((n) => `${p(x(n))} ${p(y(values[n]!))}`).join("L")}L${p(x(run.at(-1)!))} ${H}Z`).join("");
}

// Bars of the last hours, without axes: whether it goes on.
export function Spark({ values, what, tone }: { values: number[]; what: string; tone?: string }) {
  const peak = Math.max(1, ...values);
  return (
    <svg class="spark" data-tone={tone} viewBox={`0 0 ${values.length * 4} 16`} preserveAspectRatio="none" role="img" aria-label={what}>
      {values.map((value, n) => (value > 0 ? <rect x={n * 4} y={16 - Math.max(2, (value / peak) * 16)} width={3} height={Math.max(2, (value / peak) * 16)} /> : <rect class="none" x={n * 4} y={15} width={3} height={1} />))}
    </svg>
  );
}
