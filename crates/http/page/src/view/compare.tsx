// Why this one and not that one?

import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { get, type Job, type JobEvent } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { diff, print } from "../base/print.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Empty } from "../base/parts.tsx";
import { change, href, params } from "../base/route.ts";
import { plural, short } from "../base/text.ts";
import { Page, Panel, Pill, Trouble } from "./bits.tsx";
import { having, ID } from "./filter.ts";
import { attempts, stepsOf, type Step } from "./life.ts";

const EVENTS = 1000;
const MOST = 200;
const SOON_MS = 500;

type Side = { job: Job; events: JobEvent[]; isWhole: boolean };

// ID, or ID@7 for the job as it stood at version 7.
async function readSide(text: string, signal: AbortSignal): Promise<Side | null> {
  const [id, version] = text.split("@");
  if (!ID.test(id)) return null;
  const at = Number(version) || undefined;
  const [job, page] = await Promise.all([get<Job>(`v1/jobs/${id.toLowerCase()}`, { at_version: at }, signal), get<{ events: JobEvent[]; next_after?: number | null }>(`v1/jobs/${id.toLowerCase()}/events`, { limit: EVENTS }, signal)]);
  return { job, events: page.events.filter((event) => !at || Number(event.version) <= at), isWhole: !page.next_after };
}

type Line = { name: string; a: string; b: string; delta?: ComponentChildren; isSame: boolean };

const time = (ms: number | null) => (ms === null ? "–" : duration(ms));

function delta(a: number | null, b: number | null) {
  if (a === null || b === null || a === b) return undefined;
  const times = a > 0 && b > 0 ? Math.max(a, b) / Math.min(a, b) : 0;
  const text = `${b > a ? "+" : "−"}${duration(Math.abs(b - a))}`;
  return <span class={b > a ? "warm-word" : "good-word"}>{times >= 1.5 && times < 1000 ? `${text}, × ${times.toFixed(1)}` : text}</span>;
}

function facts(a: Side, b: Side): Line[] {
  const lived = ({ job }: Side) => (job.finished_at ? Date.parse(job.finished_at) - Date.parse(job.created_at) : null);
  const sum = (side: Side, of: (attempt: ReturnType<typeof attempts>[number]) => number | null) => attempts(side.events).reduce((all, attempt) => all + (of(attempt) ?? 0), 0);
  const length = (name: string, of: (side: Side) => number | null): Line => ({ name, a: time(of(a)), b: time(of(b)), delta: delta(of(a), of(b)), isSame: of(a) === of(b) });
  const said = (name: string, of: (job: Job) => unknown): Line => {
    const text = (job: Job) => (of(job) === null || of(job) === undefined || of(job) === "" ? "–" : typeof of(job) === "string" ? String(of(job)) : print(of(job)));
    return { name, a: text(a.job), b: text(b.job), isSame: text(a.job) === text(b.job) };
  };
  return [
    said("status", (job) => job.status.replace("_", " ")), said("kind", (job) => job.kind), said("queue", (job) => job.queue), said("priority", (job) => job.priority),
    said("error", (job) => job.error?.code), said("attempts", (job) => job.attempt), said("retries", (job) => `${job.retries} of ${job.max_retries}`), said("crashes", (job) => job.crashes),
    said("redrives", (job) => job.generation), said("stage", (job) => job.stage), said("tags", (job) => (job.tags ?? []).join(", ")), said("agent", (job) => job.agent_id),
    said("requires", (job) => job.requires), said("waits for", (job) => job.waiting_for && `${job.waiting_for}${job.wait_name ? ` ${job.wait_name}` : ""}`),
    said("workers", () => undefined),
    length("waited in line", (side) => sum(side, (attempt) => attempt.waitMs)), length("ran", (side) => sum(side, (attempt) => (attempt.to === null ? null : attempt.to - attempt.from))), length("from enqueue to end", lived),
  ].map((line) => {
    if (line.name !== "workers") return line;
    const by = (side: Side) => [...new Set(attempts(side.events).map((attempt) => attempt.worker))].join(", ") || "–";
    return { ...line, a: by(a), b: by(b), isSame: by(a) === by(b) };
  });
}

// What each holds under one name: a line per leaf that differs.
function values(a: unknown, b: unknown): Line[] {
  const text = (value: unknown) => (value === undefined ? "–" : print(value));
  return diff(a, b, MOST).map((change) => ({ name: change.path, a: text(change.before), b: text(change.after), isSame: false }));
}

function steps(a: Side, b: Side): Line[] {
  const [left, right] = [stepsOf(a.events), stepsOf(b.events)];
  const names = [...new Set([...left.keys(), ...right.keys()])];
  const ms = (step: Step | undefined) => (step?.ms ?? null);
  const text = (step: Step | undefined) => (!step ? "not there" : step.isDone ? time(step.ms) : "not finished");
  return names.map((name) => {
    const [one, other] = [left.get(name), right.get(name)];
    return { name, a: text(one), b: text(other), delta: delta(ms(one), ms(other)), isSame: text(one) === text(other) };
  });
}

// A long one scrolls, also by keys.
const LONG = 300;
const Value = ({ text, what }: { text: string; what: string }) => (text.length > LONG ? <div class="value long" tabIndex={0} role="group" aria-label={what}>{text}</div> : <span class="value">{text}</span>);

function Lines({ title, lines, isAll, empty }: { title: string; lines: Line[]; isAll: boolean; empty: string }) {
  const shown = isAll ? lines : lines.filter((line) => !line.isSame);
  const hidden = lines.length - shown.length;
  return (
    <Panel title={title} note={hidden ? `${plural(hidden, "line")} alike` : undefined}>
      {shown.length === 0 ? (
        <p class="quiet-line muted">{empty}</p>
      ) : (
        <div class="wide">
          <table class="plain-table compare">
            <caption class="hidden">{title}</caption>
            <thead><tr>{["", "A", "B", "B against A"].map((name) => <th scope="col">{name || <span class="hidden">what</span>}</th>)}</tr></thead>
            <tbody>
              {shown.map((line) => (
                <tr key={line.name} class={line.isSame ? "muted" : ""}>
                  <th scope="row" class="mono">{line.name}</th>
                  <td data-name="A"><Value text={line.a} what={`${line.name} of A`} /></td>
                  <td data-name="B"><Value text={line.b} what={`${line.name} of B`} /></td>
                  <td data-name="B against A">{line.delta}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

const whole = (name: "payload" | "result", job: Job) => (job as Record<string, unknown>)[name] ?? (job as Record<string, unknown>)[`${name}_base64`];

export function Compare() {
  const [a, b] = [params.value.get("a") ?? "", params.value.get("b") ?? ""];
  const isAll = params.value.get("all") === "true";
  const read = useReading(async (signal) => ({ of: `${a} ${b}`, sides: await Promise.all([readSide(a, signal), readSide(b, signal)]) }), 3_600_000, [a, b]);
  const soon = useSoon(read.look, SOON_MS);
  const [first, second] = [a, b].map((text) => text.split("@")[0]);
  useFeed(`v1/jobs/${first}/feed`, { isOff: !ID.test(first), onOpen: soon, onEvents: soon }, [first]);
  useFeed(`v1/jobs/${second}/feed`, { isOff: !ID.test(second) || first === second, onOpen: soon, onEvents: soon }, [second]);
  // What was read for another pair is not shown under this one.
  const isThis = read.value.value?.of === `${a} ${b}`;
  const [left, right] = isThis ? read.value.value!.sides : [null, null];
  const made = useMemo(() => (left && right ? { facts: facts(left, right), steps: steps(left, right), payload: values(whole("payload", left.job), whole("payload", right.job)), result: values(whole("result", left.job), whole("result", right.job)), error: values(left.job.error ?? undefined, right.job.error ?? undefined) } : null), [left, right]);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    // A piece of an id will do, as lists show its end.
    const found = async (name: string) => {
      const text = String(form.get(name) ?? "").trim();
      return text && !ID.test(text.split("@")[0]) ? ((await having(text.toLowerCase()).catch(() => []))[0] ?? text) : text;
    };
    location.hash = href("compare", "", { a: await found("a"), b: await found("b"), all: isAll ? "true" : "" });
  };
  const head = (name: string, side: Side | null) =>
    side && (
      <p>
        <b>{name}</b> <a href={href("jobs", side.job.id, { at: (name === "A" ? a : b).split("@")[1] })} title={side.job.id}>{side.job.kind}</a> <span class="mono muted">{short(side.job.id)}</span> <Pill status={side.job.status} />
        {!side.isWhole && <span class="muted">{` of its first ${EVENTS} events`}</span>}
      </p>
    );
  return (
    <Page
      title="Compare"
      note="two jobs, or one at two versions: what differs"
      acts={made && <button type="button" aria-pressed={isAll} onClick={() => change({ all: isAll ? "" : "true" })}>{isAll ? "Only what differs" : "Show all"}</button>}
    >
      <form class="filter" onSubmit={submit} key={`${a} ${b}`}>
        {[["a", a], ["b", b]].map(([name, value]) => (
          <input name={name} aria-label={`job ${name.toUpperCase()}`} placeholder={`job ${name.toUpperCase()}: its id, or id@version`} defaultValue={value} autocomplete="off" spellcheck={false} class="mono" />
        ))}
        <button type="submit">Compare</button>
      </form>
      <Trouble problem={read.problem.value} again={read.look} />
      {isThis && !made && !read.problem.value && <Empty title="Name two jobs" text="An id, its last eight digits as lists show them, or id@version. Two selected rows of Jobs can be compared too." />}
      {left && right && made && (
        <>
          <div class="two sides">{head("A", left)}{head("B", right)}</div>
          <Lines title="Facts" lines={made.facts} isAll={isAll} empty="Nothing differs." />
          <Lines title="Payload" lines={made.payload} isAll={isAll} empty="They were given the same." />
          {made.steps.length > 0 && <Lines title="Steps" lines={made.steps} isAll={isAll} empty="They took the same steps in the same time." />}
          <Lines title="Result" lines={made.result} isAll={isAll} empty="They gave the same." />
          {made.error.length > 0 && <Lines title="Error" lines={made.error} isAll={isAll} empty="The same." />}
        </>
      )}
    </Page>
  );
}
