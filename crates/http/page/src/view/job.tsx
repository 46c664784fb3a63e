// One job: where it stands and why, its life by time, what it was given and gave, its log; and what can be done to it.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { asProblem, get, now, type Approval, type Job, type JobEvent, type Problem } from "../base/api.ts";
import { duration, full } from "../base/clock.ts";
import { has, JsonBox, TextBox, ValueBox } from "../base/json.tsx";
import { diff, print } from "../base/print.ts";
import { useFeed, useReading } from "../base/live.ts";
import { Ago, CopyButton, Empty, ProblemBox, tick, WithTimes } from "../base/parts.tsx";
import { change, href, last, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { isTerminal, word } from "../base/status.ts";
import { many, short } from "../base/text.ts";
import { cancel, fork, redrive, sendSignal } from "./acts.tsx";
import { ApprovalCard } from "./approvals.tsx";
import { Bar, Facts, JobLink, Panel, Pill } from "./bits.tsx";
import { EventLog } from "./events.tsx";
import { FlowPanel } from "./flow.tsx";
import { attempts } from "./life.ts";
import { Log } from "./log.tsx";
import { Waterfall } from "./waterfall.tsx";

const PAGE = 100;
const FAMILY = 200;
const RUNNING_MS = 1000;

type Page = { events: JobEvent[]; next_after?: number | null };

export function OneJob({ id }: { id: string }) {
  const job = useSignal<Job | null>(null);
  const events = useSignal<Map<number, JobEvent>>(new Map());
  const next = useSignal<number | null>(null);
  const problem = useSignal<Problem | null>(null);
  const stir = useSignal(0);
  const started = useSignal("");
  const soon = useRef(0);
  const path = `v1/jobs/${id}`;

  const add = (found: JobEvent[]) => {
    const fresh = found.filter((event) => !events.peek().has(Number(event.version)));
    if (fresh.length) events.value = new Map([...events.peek(), ...fresh.map((event) => [Number(event.version), event] as const)]);
    return fresh.length > 0;
  };
  // The newest events, or those before the oldest that is known.
  const older = async () => {
    const answer = await get<Page>(`${path}/events`, { order: "desc", limit: PAGE, after: next.peek() });
    next.value = answer.next_after ?? null;
    add(answer.events);
  };
  const refresh = async () => {
    try {
      job.value = await get<Job>(path);
      stir.value += 1;
    } catch (error) {
      if (asProblem(error).status !== 401) soon.current = setTimeout(refresh, 2000);
    }
  };
  const start = async () => {
    try {
      const [read] = await Promise.all([get<Job>(path), older()]);
      problem.value = null;
      const newest = Math.max(Number(read.version), ...events.peek().keys());
      started.value = String(newest);
      job.value = read;
      // It moved between the two answers, and the feed goes on after the newer one.
      if (newest > Number(read.version)) refresh();
    } catch (error) {
      const said = asProblem(error);
      if (said.status !== 401) problem.value = said;
    }
  };
  useEffect(() => {
    start();
    return () => clearTimeout(soon.current);
  }, []);
  useFeed(
    `${path}/feed`,
    {
      after: String(Math.max(0, ...events.peek().keys())),
      isOff: !started.value,
      onEvents: (found) => {
        if (!add(found)) return;
        clearTimeout(soon.current);
        soon.current = setTimeout(refresh, 50);
      },
    },
    [started.value],
  );
  // Lines of a log are no events: asked for while it runs.
  const isRunning = job.value?.status === "running";
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => document.hidden || (stir.value += 1), RUNNING_MS);
    return () => clearInterval(timer);
  }, [isRunning]);

  if (problem.value) {
    return (
      <>
        <Back />
        {problem.value.status === 404 ? <Empty isPage title="There is no such job" text="It may have been removed: finished jobs are kept for a while." /> : <ProblemBox problem={problem.value} again={start} />}
      </>
    );
  }
  if (!job.value) return <Back />;
  const all = [...events.value.values()].sort((a, b) => Number(a.version) - Number(b.version));
  return <Shown job={job.value} events={all} older={next.value ? older : undefined} stir={stir.value} done={(changed) => (changed ? (job.value = changed) : refresh())} />;
}

const Back = () => (
  <p class="back">
    <a href={last.list}>← jobs</a>
  </p>
);

type Props = { job: Job; events: JobEvent[]; older?: () => void; stir: number; done: (job?: Job) => void };

function Shown({ job: today, events, older, stir, done }: Props) {
  const asked = Number.parseInt(params.value.get("at") ?? "", 10);
  const at = asked > 0 ? asked : null;
  const past = useReading(async (signal) => (at === null ? null : get<Job>(`v1/jobs/${today.id}`, { at_version: at }, signal)), 3_600_000, [at]);
  const old = past.value.value;
  const job = at === null ? today : old && Number(old.version) === at ? old : null;
  const seen = at === null ? events : events.filter((event) => Number(event.version) <= at);
  // To a version, or back to now: through the address, so that it can be shared.
  const go = (version: number | null) => change({ at: version === null || version >= Number(today.version) ? "" : String(version), vs: "" });
  useEffect(() => {
    document.title = `${(job ?? today).kind} ${word((job ?? today).status)} · Windlass`;
  }, [job, today]);
  return (
    <>
      <Back />
      <header class="job-head">
        <Head job={job ?? today} />
        <Acts job={today} at={at} done={done} />
      </header>
      {at !== null && (
        <div class="past">
          {past.problem.value ? <ProblemBox problem={past.problem.value} again={() => go(null)} /> : <span>{`This is the job as it stood at version ${at} of ${today.version}, `}{job && <Ago at={job.updated_at} />}.</span>}
          <button type="button" onClick={() => go(null)}>back to now</button>
        </div>
      )}
      {at === null && <AskedOf job={today} done={done} />}
      <div class="columns">
        <div>
          <Panel title="Timeline">
            <Waterfall events={seen} until={at === null ? today.finished_at : seen.at(-1)?.at} onPick={open} />
          </Panel>
          {at === null && <FlowPanel job={today} />}
          <AttemptsPanel events={seen} isWhole={!older} />
          <Panel title="Events">
            <div class="travel">
              <label for="at">as it stood at version </label>
              <input type="range" id="at" min={1} max={Number(today.version)} step={1} value={at ?? Number(today.version)} onInput={(event) => go(Number(event.currentTarget.value))} />
            </div>
            <EventLog events={events} at={at} onPick={go} older={older} />
          </Panel>
          <Log id={today.id} stir={stir} />
        </div>
        <div>
          <Panel title="Facts"><JobFacts job={job ?? today} /></Panel>
          {job && <Values job={job} />}
          {at !== null && job && <Changes before={job} today={today} />}
          <Family job={today} stir={today.version} />
        </div>
      </div>
    </>
  );
}

// From a bar to the event that began it.
function open(version: number) {
  const row = document.querySelector<HTMLElement>(`.events tr[data-version="${version}"]`);
  if (!row) return;
  row.scrollIntoView({ block: "center" });
  row.querySelector("details")?.setAttribute("open", "");
  row.querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
}

function Head({ job }: { job: Job }) {
  const blocked = job.blocked;
  return (
    <div class="lead">
      <div class="title">
        <Pill status={job.status} />
        <h1>{job.kind}</h1>
        <span class="mono muted id">{job.id}</span>
        <CopyButton text={job.id} what="id" />
      </div>
      {(job.stage || Number(job.progress) > 0) && (
        <p class="stage"><Bar progress={job.progress} />{`${job.progress} %`}{job.stage && ` · ${job.stage}`}</p>
      )}
      {blocked && (
        <p class="blocked">
          <strong>{blocked.reason === "cancelling" ? "Stopping: " : "Not running: "}</strong>
          {`${blocked.reason.replace("_", " ")}, ${blocked.by}, since `}<Ago at={blocked.since} />. Help: <WithCommands text={blocked.fix} />.
        </p>
      )}
    </div>
  );
}

// Text in which commands stand between backticks. Times tick as "in 5 s", so what leads to them goes.
const WithCommands = ({ text }: { text: string }) => (
  <>{text.replace(/ at (?=\d{4}-)/g, " ").split("`").map((part, n) => (n % 2 ? <code>{part}</code> : <WithTimes text={part} />))}</>
);

function Acts({ job, at, done }: { job: Job; at: number | null; done: (job?: Job) => void }) {
  const isOver = isTerminal(job.status);
  return (
    <div class="row acts">
      {at === null && !isOver && may("producer", "operator") && <button type="button" class="danger" onClick={() => cancel(job, done)}>Cancel</button>}
      {at === null && !isOver && may("producer") && job.waiting_for === "signal" && <button type="button" onClick={() => sendSignal(job)}>Signal</button>}
      {at === null && isOver && job.status !== "completed" && may("operator") && <button type="button" class="main" onClick={() => redrive(job, done)}>Redrive</button>}
      <a class="button" href={href("compare", "", { a: at === null ? job.id : `${job.id}@${at}`, b: at === null ? "" : job.id })}>Compare</a>
      {may("operator") && <button type="button" onClick={() => fork(job, at)}>{at === null ? "Fork" : `Fork at ${at}`}</button>}
    </div>
  );
}

// The questions that wait for somebody.
function AskedOf({ job, done }: { job: Job; done: () => void }) {
  const isAsked = job.waiting_for === "approval";
  const read = useReading(async (signal) => (isAsked ? get<{ approvals: Approval[] }>("v1/approvals", { job_id: job.id, status: "pending" }, signal) : null), 5000, [isAsked, job.version]);
  if (!isAsked || !read.value.value) return null;
  return <div>{read.value.value.approvals.map((approval) => <ApprovalCard key={approval.id} approval={approval} done={done} withJob={false} />)}</div>;
}

function AttemptsPanel({ events, isWhole }: { events: JobEvent[]; isWhole: boolean }) {
  const found = useMemo(() => attempts(events), [events]);
  if (found.length < 2) return null;
  return (
    <Panel title="Attempts" note={isWhole ? `${many(found.length)}` : "of the events below"}>
      <div class="wide">
        <table class="attempts">
          <caption class="hidden">attempts, newest first</caption>
          <thead><tr><th scope="col">#</th><th scope="col">Outcome</th><th scope="col">Worker</th><th scope="col" class="num">Waited</th><th scope="col" class="num">Ran</th></tr></thead>
          <tbody>
            {found.toReversed().slice(0, 50).map((attempt) => (
              <tr key={attempt.version}>
                <td>{attempt.n}</td>
                <td><Pill status={attempt.outcome} /> {attempt.code && <span class="code">{attempt.code}</span>}</td>
                <td class="mono clip">{attempt.worker}</td>
                <td class="num">{attempt.waitMs === null ? "–" : duration(attempt.waitMs)}</td>
                <td class="num">{duration((attempt.to ?? Math.max(tick.value, attempt.from)) - attempt.from)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

const Only = ({ name, value }: { name: string; value: string }) => <a href={href("jobs", "", { [name]: value })}>{value}</a>;
const Time = ({ at }: { at: string }) => <><Ago at={at} /><span class="muted">{` ${full(at)}`}</span></>;

function JobFacts({ job }: { job: Job }) {
  const took = job.started_at && duration(Date.parse(job.finished_at ?? job.updated_at) - Date.parse(job.started_at));
  const time = (at: string | null | undefined) => at && <Time at={at} />;
  return (
    <Facts
      rows={[
        ["queue", <Only name="queue" value={job.queue} />], ["attempt", String(job.attempt)], ["retries", `${job.retries} of ${job.max_retries} used`],
        ["lost leases", Number(job.crashes) > 0 && String(job.crashes)], ["priority", Number(job.priority) !== 0 && String(job.priority)], ["redrives", Number(job.generation) > 0 && String(job.generation)],
        ["held by", job.lease && <><Only name="worker_id" value={job.lease.worker_id} /> until <Ago at={job.lease.expires_at} /></>],
        ["due", job.status !== "running" && time(job.due_at)], ["deadline", time(job.deadline_at)], ["created", time(job.created_at)], ["started", time(job.started_at)],
        ["finished", time(job.finished_at)], ["last attempt", isTerminal(job.status) && took], ["timeout", job.timeout !== undefined && job.timeout !== null && `${job.timeout} s`],
        ["tags", job.tags.length > 0 && job.tags.map((tag, n) => <>{n > 0 && ", "}<Only name="tag" value={tag} /></>)], ["agent", job.agent_id && <Only name="agent_id" value={job.agent_id} />],
        ["schedule", job.schedule && <a href={href("schedules", job.schedule)}>{job.schedule}</a>],
        ["parent", job.parent_id && <JobLink id={job.parent_id} />], ["version", String(job.version)], ["as JSON", <a href={`v1/jobs/${job.id}`}>/v1/jobs/…</a>],
      ]}
    />
  );
}

function Values({ job }: { job: Job }) {
  const holder = job as unknown as Record<string, unknown>;
  const value = (title: string, field: string) => has(holder, field) && holder[field] !== null && <Panel title={title}><ValueBox holder={holder} field={field} /></Panel>;
  return (
    <div class="values">
      {job.erased && <Panel title="Erased"><p class="muted">What this job was given, found and printed was erased. Its history says by whom and when.</p></Panel>}
      {job.error && (
        <Panel title={isTerminal(job.status) ? "Error" : "Last error"}>
          <p><span class="code">{job.error.code}</span> {job.error.at && <span class="muted"><Ago at={job.error.at} /></span>}</p>
          {job.error.message && <TextBox text={job.error.message} what="error" />}
        </Panel>
      )}
      {value("Result", "result")}
      {value("Payload", "payload")}
      {value("Checkpoint", "checkpoint")}
      {job.metadata && Object.keys(job.metadata).length > 0 && <Panel title="Metadata"><JsonBox value={job.metadata} what="metadata" /></Panel>}
    </div>
  );
}

const COMPARED = ["status", "stage", "progress", "attempt", "retries", "payload", "result", "error", "checkpoint", "metadata", "waiting_for", "wait_name"] as const;
const part = (job: Job) => Object.fromEntries(COMPARED.filter((name) => job[name] !== undefined && job[name] !== null).map((name) => [name, job[name]]));

// What changed between the version that is looked at and another: now, unless the address names one.
function Changes({ before, today }: { before: Job; today: Job }) {
  const asked = Number.parseInt(params.value.get("vs") ?? "", 10);
  const vs = asked > 0 && asked < Number(today.version) ? asked : null;
  const read = useReading(async (signal) => (vs === null ? null : get<Job>(`v1/jobs/${today.id}`, { at_version: vs }, signal)), 3_600_000, [vs]);
  const after = vs === null ? today : read.value.value;
  const found = after ? diff(part(before), part(after)) : [];
  const say = (value: unknown) => print(value).slice(0, 400);
  return (
    <Panel title="Changes" note={
      <label>
        {`from ${before.version} to `}
        <select aria-label="to version" value={vs ?? ""} onChange={(event) => change({ vs: event.currentTarget.value })}>
          <option value="">now</option>
          {Array.from({ length: Math.min(200, Number(today.version) - 1) }, (_, n) => Number(today.version) - 1 - n).map((n) => <option value={n}>{n}</option>)}
        </select>
      </label>
    }>
      {found.length === 0 && <p class="muted">Nothing that is shown here.</p>}
      <dl class="diff">
        {found.map((change) => (
          <div key={change.path}>
            <dt class="mono">{change.path}</dt>
            <dd>{change.before !== undefined && <del>{say(change.before)}</del>} {change.after !== undefined && <ins>{say(change.after)}</ins>}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

// Its children, and how they stand.
function Family({ job, stir }: { job: Job; stir: unknown }) {
  const read = useReading((signal) => get<{ jobs: Job[]; next_cursor?: string }>("v1/jobs", { parent_id: job.id, limit: FAMILY }, signal), isTerminal(job.status) ? 60_000 : 3000, [job.id, stir]);
  const answer = read.value.value;
  if (!answer?.jobs.length) return null;
  const by = new Map<string, number>();
  for (const child of answer.jobs) by.set(child.status, (by.get(child.status) ?? 0) + 1);
  return (
    <Panel title="Children" note={<a href={href("jobs", "", { parent_id: job.id })}>all children</a>}>
      <p class="tally">
        {[...by].map(([status, n]) => <Pill status={status} text={`${many(n)}${answer.next_cursor ? "+" : ""} ${word(status)}`} />)}
      </p>
      <ul class="children">
        {answer.jobs.slice(0, 20).map((child) => (
          <li key={child.id}>
            <Pill status={child.status} />
            <a href={href("jobs", child.id)}>{child.kind}</a>
            <span class="mono muted">{short(child.id)}</span>
            {child.started_at && <span class="muted num">{duration((child.finished_at ? Date.parse(child.finished_at) : now()) - Date.parse(child.started_at))}</span>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
