// Did it fire, and when next?

import { get, now, onceKey, post, remove, type Calendar, type Job, type Schedule, type Trigger } from "../base/api.ts";
import { duration, full, hour } from "../base/clock.ts";
import { JsonBox } from "../base/json.tsx";
import { later } from "../base/later.tsx";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty, Icon } from "../base/parts.tsx";
import { changed, href, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { word } from "../base/status.ts";
import { many, short } from "../base/text.ts";
import { atOnce } from "./acts.tsx";
import { Facts, Flag, JobLink, Page, Panel, Pill, Table, Trouble, type Column } from "./bits.tsx";
import { ticks } from "./chart.tsx";
import { ask } from "./dialog.tsx";

const ScheduleEditor = later(() => import("../edit/edit.tsx").then((edit) => edit.ScheduleEditor));

// Whether somebody who may is writing.
const isEdited = () => may("operator") && params.value.get("edit") === "schedule";

const EVERY_MS = 5000;
const NEXT = 10;
const LAST = 30;

type Named = { kind?: string; queue?: string };
const job = (schedule: Schedule) => (schedule.job ?? {}) as Named;

export const timing = (schedule: Schedule) => (schedule.cron ? schedule.cron : `every ${duration(Number(schedule.every) * 1000).replace(".0", "")}`);

const path = (schedule: Schedule) => `v1/schedules/${encodeURIComponent(schedule.name)}`;

function trigger(schedule: Schedule, done: () => void) {
  const key = onceKey();
  ask({
    title: `Run ${schedule.name} now?`,
    text: "Its job is enqueued at once, beside its slots.",
    yes: "Run now",
    send: async () => {
      await post(`${path(schedule)}/trigger`, undefined, { "idempotency-key": key });
      done();
      return `${schedule.name} was enqueued`;
    },
  });
}

function forget(schedule: Schedule) {
  ask({
    title: `Remove ${schedule.name}?`,
    text: "It fires no more. The jobs it made stay.",
    yes: "Remove",
    tone: "danger",
    send: async () => {
      await remove(path(schedule));
      location.hash = "#/schedules";
      return `${schedule.name} is removed`;
    },
  });
}

const Buttons = ({ schedule, done }: { schedule: Schedule; done: () => void }) => (
  <span class="row">
    <button type="button" onClick={() => trigger(schedule, done)}>
      Run now
    </button>
    {schedule.paused ? (
      <button type="button" onClick={() => atOnce(() => post(`${path(schedule)}/resume`), `${schedule.name} goes on`, done)}>
        Resume
      </button>
    ) : (
      <button type="button" onClick={() => atOnce(() => post(`${path(schedule)}/pause`), `${schedule.name} is paused`, done)}>
        Pause
      </button>
    )}
  </span>
);

// Its newest jobs: those of its kind and queue which it made.
async function made(schedule: Schedule, signal: AbortSignal) {
  const { kind, queue } = job(schedule);
  const { jobs } = await get<{ jobs: Job[] }>("v1/jobs", { kind, queue, limit: 200 }, signal);
  return jobs.filter((found) => found.schedule === schedule.name).slice(0, LAST);
}

// How the last ones ended, oldest first: shape, colour and words.
const Outcomes = ({ jobs }: { jobs: Job[] }) => (
  <span class="outcomes" role="img" aria-label={`the last ${jobs.length}: ${jobs.map((job) => word(job.status)).join(", ")}`}>
    {jobs.toReversed().map((job) => (
      <a key={job.id} href={href("jobs", job.id)} class="status" data-status={job.status} title={`${word(job.status)} · ${full(job.created_at)}`} tabIndex={-1} aria-hidden="true">
        <Icon name={job.status} />
      </a>
    ))}
  </span>
);

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

// The next day: where each one fires. What fires too often to be drawn is a band.
function NextDay({ calendar }: { calendar: Calendar }) {
  const [from, to] = [Date.parse(calendar.from), Date.parse(calendar.to)];
  const place = (at: number) => ((at - from) / (to - from)) * 1000;
  return (
    <Panel title="The next day" note={calendar.complete ? "when each fires" : "when each fires, as far as it was reckoned"}>
      <div class="calendar">
        {calendar.schedules.slice(0, 30).map(({ name, slots, hours, count }) => (
          <div class="row" key={name}>
            <a class="clip" href={href("schedules", name)}>{name}</a>
            <svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={`${name} fires ${many(Number(count))} times, first ${full(slots[0] ?? hours[0].at)}`}>
              <path class="grid" d="M0 19.5H1000" />
              {slots.map((at) => <path class="slot" d={`M${place(Date.parse(at)).toFixed(1)} 3V17`} />)}
              {hours.map(({ at }) => {
                const [begin, end] = [Math.max(0, place(Date.parse(at))), Math.min(1000, place(Date.parse(at) + 3_600_000))];
                return <path class="band" d={`M${begin.toFixed(1)} 6H${end.toFixed(1)}V14H${begin.toFixed(1)}Z`} />;
              })}
            </svg>
            <span class="muted num">{`${many(Number(count))} ×`}</span>
          </div>
        ))}
        <div class="row hours" aria-hidden="true">
          <span />
          <span class="axis">{ticks(from, to, 6).map((at) => <span style={{ left: `${place(at) / 10}%` }}>{hour(new Date(at))}</span>)}</span>
          <span />
        </div>
      </div>
    </Panel>
  );
}

export function Schedules() {
  const read = useReading(
    async (signal) => {
      const [{ schedules }, { triggers }] = await Promise.all([get<{ schedules: Schedule[] }>("v1/schedules", {}, signal), get<{ triggers: Trigger[] }>("v1/triggers", {}, signal)]);
      return { schedules, triggers };
    },
    EVERY_MS,
    [],
  );
  useFeed("v1/feed", { params: { type: "job_created" }, onEvents: useSoon(read.look, 2000) }, []);
  const found = read.value.value;
  const ahead = useReading(
    (signal) => {
      // The same minute gives the same picture.
      const from = Math.floor(now() / MINUTE_MS) * MINUTE_MS;
      return get<Calendar>("v1/calendar", { from: new Date(from).toISOString(), to: new Date(from + DAY_MS).toISOString() }, signal);
    },
    MINUTE_MS,
    [found?.schedules.map((schedule) => `${schedule.name} ${schedule.version}`).join()],
  ).value.value;
  const columns: Column<Schedule>[] = [
    { name: "Schedule", cell: (schedule) => <><a href={href("schedules", schedule.name)}>{schedule.name}</a> <Flag paused={schedule.paused} /></> },
    { name: "When", isWide: true, cell: (schedule) => <><span class="mono">{timing(schedule)}</span> {schedule.cron && <span class="muted">{schedule.timezone}</span>}</> },
    { name: "Job", cell: (schedule) => job(schedule).kind },
    { name: "Next", cell: (schedule) => (schedule.broken ? <span class="bad-word" title={schedule.broken}>broken</span> : schedule.next_at ? <Ago at={schedule.next_at} /> : <span class="muted">never</span>) },
    { name: "Last", cell: (schedule) => (schedule.last_slot ? <>{schedule.last_job ? <a href={href("jobs", schedule.last_job)}><Ago at={schedule.last_slot} /></a> : <Ago at={schedule.last_slot} />}</> : <span class="muted">not yet</span>) },
    ...(may("operator") ? [{ name: "", isNumber: true, cell: (schedule: Schedule) => <Buttons schedule={schedule} done={read.look} /> }] : []),
  ];
  return (
    <Page title="Schedules" acts={may("operator") && !isEdited() && <a class="button" href={changed({ edit: "schedule" })}>New schedule</a>}>
      <Trouble problem={read.problem.value} again={read.look} />
      {isEdited() && <ScheduleEditor schedule={null} done={read.look} />}
      {found?.schedules.length === 0 && !isEdited() && <Empty title="No schedules" text="Make one, and it fires on whichever server leads:" command="windlass schedules put nightly --cron '0 2 * * *' --timezone Europe/Berlin --kind report.build" />}
      {found && found.schedules.length > 0 && <Table caption="schedules" rows={found.schedules} keyOf={(schedule) => schedule.name} columns={columns} />}
      {ahead && ahead.schedules.length > 0 && <NextDay calendar={ahead} />}
      {found && found.triggers.length > 0 && (
        <>
          <h2 class="below">Triggers</h2>
          <Table
            caption="triggers"
            rows={found.triggers}
            keyOf={(trigger) => trigger.name}
            columns={[
              { name: "Trigger", cell: (trigger) => <b>{trigger.name}</b> },
              { name: "Webhook", isWide: true, cell: (trigger) => <span class="mono">{trigger.webhook}</span> },
              { name: "Signed", cell: (trigger) => (trigger.signed ? "yes" : <span class="muted">no secret yet</span>) },
              { name: "Makes", isWide: true, cell: (trigger) => (trigger.jobs as Named[]).map((made) => made.kind).join(", ") },
              { name: "Changed", cell: (trigger) => <Ago at={trigger.updated_at} /> },
            ]}
          />
        </>
      )}
    </Page>
  );
}

export function OneSchedule({ id }: { id: string }) {
  const read = useReading(
    async (signal) => {
      const schedule = await get<Schedule>(`v1/schedules/${encodeURIComponent(id)}`, {}, signal);
      const [{ next }, jobs] = await Promise.all([get<{ next: string[] }>(`v1/schedules/${encodeURIComponent(id)}/next`, { n: NEXT }, signal), made(schedule, signal)]);
      return { schedule, next, jobs };
    },
    EVERY_MS,
    [id],
  );
  useFeed("v1/feed", { params: { type: "job_created,job_completed,job_failed" }, onEvents: useSoon(read.look, 1000) }, []);
  const found = read.value.value;
  return (
    <>
      <p class="back">
        <a href="#/schedules">← schedules</a>
      </p>
      {read.problem.value?.status === 404 ? <Empty isPage title="There is no such schedule" /> : <Trouble problem={read.problem.value} again={read.look} />}
      {found && read.problem.value?.status !== 404 && (
        <Page
          title={found.schedule.name}
          note={<Flag paused={found.schedule.paused} />}
          acts={may("operator") && <><Buttons schedule={found.schedule} done={read.look} />{!isEdited() && <a class="button" href={changed({ edit: "schedule" })}>Change</a>}<button type="button" class="danger" onClick={() => forget(found.schedule)}>Remove</button></>}
        >
          {found.schedule.broken && <p class="blocked"><strong>It does not fire: </strong>{found.schedule.broken}</p>}
          {isEdited() && <ScheduleEditor schedule={found.schedule} done={read.look} />}
          <div class="columns">
            <div>
              <Panel title="Last" note={<Outcomes jobs={found.jobs} />}>
                <ul class="children">
                  {found.jobs.slice(0, 12).map((job) => (
                    <li key={job.id}>
                      <Pill status={job.status} />
                      <JobLink id={job.id} text={full(job.created_at)} />
                      <span class="mono muted">{short(job.id)}</span>
                    </li>
                  ))}
                </ul>
                {found.jobs.length === 0 && <p class="muted">None of its jobs is kept.</p>}
              </Panel>
              <Panel title="Job"><JsonBox value={found.schedule.job} what="job" /></Panel>
            </div>
            <div>
              <Panel title="Next" note={found.schedule.timezone}>
                <ol class="next">
                  {found.next.map((at) => (
                    <li key={at}><span>{full(at)}</span> <span class="muted"><Ago at={at} /></span></li>
                  ))}
                </ol>
                {found.schedule.paused && <p class="muted">It is paused: nothing fires until it is resumed.</p>}
              </Panel>
              <Panel title="Facts">
                <Facts
                  rows={[
                    ["when", <span class="mono">{timing(found.schedule)}</span>], ["zone", found.schedule.timezone], ["missed", found.schedule.missed], ["overlap", found.schedule.overlap],
                    ["jitter", Number(found.schedule.jitter) > 0 && `${found.schedule.jitter} s`], ["starts", found.schedule.starts_at && <Ago at={found.schedule.starts_at} />], ["ends", found.schedule.ends_at && <Ago at={found.schedule.ends_at} />],
                    ["last slot", found.schedule.last_slot && <Ago at={found.schedule.last_slot} />], ["version", String(found.schedule.version)], ["changed", <Ago at={found.schedule.updated_at} />],
                  ]}
                />
              </Panel>
            </div>
          </div>
        </Page>
      )}
    </>
  );
}
