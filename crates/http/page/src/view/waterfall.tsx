// The waterfall of a job's life. Positions are set through the object model: the policy lets no style stand in markup.

import { now, type JobEvent } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { tick } from "../base/parts.tsx";
import { axis, lanes, type Axis, type Span } from "./life.ts";

const LANES_MAX = 60;
const STEPS = [1, 2, 5, 10, 20, 30].flatMap((n) => [1, 1000, 60_000, 3_600_000, 86_400_000].map((unit) => n * unit)).concat([50, 100, 200, 500, 300_000, 6 * 3_600_000]).sort((a, b) => a - b);
// Labels nearer than this to one another would touch.
const LABEL_SHARE = 0.11;

type Tick = { at: number; text: string; place: number };

// Labels of time since the beginning, where there is room for them.
function marks(view: Axis): Tick[] {
  const shown = view.folds.reduce((sum, gap) => sum - (gap.to - gap.from), view.to - view.from);
  const step = STEPS.find((ms) => shown / ms <= 6) ?? shown / 5;
  const span = view.to - view.from;
  const wanted: number[] = view.folds.map((gap) => gap.to - view.from);
  // Between folds time is as long as it is; a fold that spans many steps is stepped over.
  let at = 0;
  for (let n = 0; n < 64 && at <= span; n += 1) {
    wanted.push(at);
    const gap = view.folds.find((gap) => at + step > gap.from - view.from && at + step <= gap.to - view.from);
    at = gap ? Math.ceil((gap.to - view.from) / step) * step : at + step;
  }
  const found: Tick[] = [];
  for (const ms of [...new Set(wanted)].sort((a, b) => a - b)) {
    const place = view.share(view.from + ms);
    if (place > 0.93 || (found.length && place - found.at(-1)!.place < LABEL_SHARE)) continue;
    found.push({ at: ms, text: ms === 0 ? "0" : duration(ms).replace(".0", ""), place });
  }
  return found;
}

const percent = (share: number) => `${(share * 100).toFixed(3)}%`;

export function Waterfall({ events, until, onPick }: { events: JobEvent[]; until: string | null | undefined; onPick: (version: number) => void }) {
  if (events.length === 0) return null;
  if (!until) tick.value;
  const from = Date.parse(events[0].at);
  const to = Math.max(until ? Date.parse(until) : now(), Date.parse(events.at(-1)!.at), from + 1);
  const all = lanes(events);
  const view = axis(all, from, to);
  return (
    <div class="timeline">
      <div class="lane">
        <span class="lane-name muted">{duration(to - from)}</span>
        <div class="track axis">
          {marks(view).map((mark) => (
            <span style={{ left: percent(mark.place) }}>{mark.text}</span>
          ))}
        </div>
      </div>
      {all.slice(0, LANES_MAX).map((lane) => (
        <div class={lane.kind === "step" ? "lane step" : "lane"}>
          <span class="lane-name" title={lane.name}>
            {lane.name}
          </span>
          <div class="track">
            {view.folds.map((gap) => (
              <span class="fold" style={{ left: percent(view.share(gap.from)), width: percent(view.share(gap.to) - view.share(gap.from)) }} title={`${duration(gap.to - gap.from)} without work, folded`} />
            ))}
            {lane.bars.map((bar) => (
              <Drawn bar={bar} view={view} end={to} onPick={onPick} />
            ))}
          </div>
        </div>
      ))}
      {view.folds.length > 0 && (
        <div class="lane" aria-hidden="true">
          <span />
          <div class="track axis folds">
            {view.folds.map((gap) => (
              <span style={{ left: percent(view.share(gap.from)), width: percent(view.share(gap.to) - view.share(gap.from)) }}>{duration(gap.to - gap.from)}</span>
            ))}
          </div>
        </div>
      )}
      {all.length > LANES_MAX && <p class="muted">{`${all.length - LANES_MAX} more are in the events below`}</p>}
    </div>
  );
}

function Drawn({ bar, view, end, onPick }: { bar: Span; view: Axis; end: number; onPick: (version: number) => void }) {
  const to = bar.to ?? end;
  const text = bar.isMark ? bar.text : `${bar.text} · ${duration(to - bar.from)}${bar.to ? "" : " so far"}`;
  const left = view.share(bar.from);
  return (
    <span
      class={`span ${bar.isMark ? "mark" : ""} ${bar.to ? "" : "open"}`}
      data-tone={bar.tone}
      title={text}
      role="img"
      aria-label={text}
      style={{ left: percent(left), ...(!bar.isMark && { width: percent(view.share(to) - left) }) }}
      onClick={() => onPick(bar.version)}
    />
  );
}
