// What fails, is it one thing, is it over?

import { asProblem, get, put, type Job, type ProblemGroup } from "../base/api.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty, tell, tick } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { many } from "../base/text.ts";
import { askBulk } from "./bulk.tsx";
import { Facts, JobLink, Page, Panel, Pill, Table, Tabs, Trouble } from "./bits.tsx";
import { Spark } from "./chart.tsx";
import { atOnce } from "./acts.tsx";

const HOUR_MS = 3_600_000;
const EVERY_MS = 5000;
const GROUP_MOST = 1000;

// Seen for the first time, or again after somebody said that it was over, within the last hour.
export const isNew = (problem: ProblemGroup, now: number) => problem.state === "open" && now - Math.max(Date.parse(problem.first_seen_at), Number(problem.reopened) > 0 ? Date.parse(problem.state_at) : 0) < HOUR_MS;

// Errors of each of the last 24 hours, oldest first.
export function hoursOf(problem: ProblemGroup, now: number): number[] {
  const last = Math.floor(now / HOUR_MS);
  const found = new Map(problem.hours.map((hour) => [Math.floor(Date.parse(hour.at) / HOUR_MS), Number(hour.errors)]));
  return Array.from({ length: 24 }, (_, n) => found.get(last - 23 + n) ?? 0);
}

export function setState(problem: ProblemGroup, state: string, done: () => void) {
  const words: Record<string, string> = { open: "is open again", resolved: "is resolved", muted: "is muted" };
  return atOnce(() => put(`v1/problems/${problem.fingerprint}`, { state }), `${problem.code} ${words[state]}`, done);
}

const StateButtons = ({ problem, done }: { problem: ProblemGroup; done: () => void }) =>
  may("operator") ? (
    <span class="row">
      {problem.state === "open" ? (
        <>
          <button type="button" onClick={() => setState(problem, "resolved", done)}>
            Resolve
          </button>
          <button type="button" onClick={() => setState(problem, "muted", done)}>
            Mute
          </button>
        </>
      ) : (
        <button type="button" onClick={() => setState(problem, "open", done)}>
          Open again
        </button>
      )}
    </span>
  ) : null;

export function Problems() {
  const state = params.value.get("state") ?? "open";
  const read = useReading((signal) => get<{ problems: ProblemGroup[]; next_cursor?: string }>("v1/problems", { state: state === "all" ? "" : state, limit: 200 }, signal), EVERY_MS, [state]);
  const soon = useSoon(read.look, 1000);
  useFeed("v1/feed", { params: { type: "job_failed,job_retried,job_timed_out" }, onEvents: soon }, []);
  const all = read.value.value?.problems;
  return (
    <Page title="Problems" note="errors that differ only in numbers and ids are one">
      <Tabs label="state" at={state} of={["open", "resolved", "muted", "all"].map((name) => [name, name, href("problems", "", { state: name === "open" ? "" : name })])} />
      <Trouble problem={read.problem.value} again={read.look} />
      {all?.length === 0 && <Empty title={state === "open" ? "Nothing fails" : "None"} text="A failed attempt shows up here within a second or two." />}
      {all && all.length > 0 && (
        <Table
          caption="problems"
          rows={all}
          keyOf={(problem) => problem.fingerprint}
          columns={[
            {
              name: "What",
              isWide: true,
              cell: (problem) => (
                <a class="problem-name" href={href("problems", problem.fingerprint)}>
                  <span>
                    <span class="code">{problem.code}</span> <b>{problem.kind}</b> {isNew(problem, tick.value) && <span class="badge bad">new</span>}
                  </span>
                  <span class="muted">{problem.message}</span>
                </a>
              ),
            },
            { name: "24 hours", cell: (problem) => <Spark values={hoursOf(problem, tick.value)} what={`errors per hour; ${problem.errors} in all`} /> },
            { name: "Errors", isNumber: true, cell: (problem) => many(Number(problem.errors)) },
            { name: "Dead", isNumber: true, cell: (problem) => many(Number(problem.dead)) },
            { name: "First", cell: (problem) => <Ago at={problem.first_seen_at} /> },
            { name: "Last", cell: (problem) => <Ago at={problem.last_seen_at} /> },
            ...(state === "all" ? [{ name: "State", cell: (problem: ProblemGroup) => problem.state }] : []),
            ...(may("operator") ? [{ name: "", isNumber: true, cell: (problem: ProblemGroup) => <StateButtons problem={problem} done={read.look} /> }] : []),
          ]}
        />
      )}
    </Page>
  );
}

// The dead jobs of a problem, at most a thousand.
async function deadJobs(fingerprint: string) {
  const found: Job[] = [];
  let cursor: string | undefined;
  do {
    const answer: { jobs: Job[]; next_cursor?: string } = await get("v1/jobs", { problem: fingerprint, dead: true, limit: 1000, cursor });
    found.push(...answer.jobs);
    cursor = answer.next_cursor ?? undefined;
  } while (cursor && found.length < GROUP_MOST);
  return found.slice(0, GROUP_MOST);
}

async function redriveGroup(fingerprint: string, done: () => void) {
  try {
    const jobs = await deadJobs(fingerprint);
    if (jobs.length === 0) tell("no dead job has this problem");
    else askBulk({ jobs }, "redrive", done);
  } catch (error) {
    tell(asProblem(error).title, "bad");
  }
}

export function OneProblem({ id }: { id: string }) {
  const read = useReading(
    async (signal) => {
      const [problem, { jobs }] = await Promise.all([get<ProblemGroup>(`v1/problems/${id}`, {}, signal), get<{ jobs: Job[] }>("v1/jobs", { problem: id, limit: 20 }, signal)]);
      return { problem, jobs };
    },
    EVERY_MS,
    [id],
  );
  useFeed("v1/feed", { params: { type: "job_failed,job_retried,job_timed_out" }, onEvents: useSoon(read.look, 1000) }, []);
  const found = read.value.value;
  if (!found) return <Trouble problem={read.problem.value} again={read.look} />;
  const { problem, jobs } = found;
  return (
    <>
      <p class="back">
        <a href="#/problems">← problems</a>
      </p>
      <Page
        title={`${problem.code} in ${problem.kind}`}
        acts={
          <>
            {may("operator") && Number(problem.dead) > 0 && (
              <button type="button" class="main" onClick={() => redriveGroup(problem.fingerprint, read.look)}>
                Redrive its dead jobs
              </button>
            )}
            <StateButtons problem={problem} done={read.look} />
          </>
        }
      >
        <p class="message">{problem.message}</p>
        <div class="columns">
          <Panel title="Jobs" note={<a href={href("jobs", "", { problem: problem.fingerprint })}>all of them</a>}>
            <ul class="children">
              {jobs.map((job) => (
                <li key={job.id}>
                  <Pill status={job.status} />
                  <JobLink id={job.id} text={job.kind} />
                  <span class="mono muted">{job.id.slice(-8)}</span>
                  <span class="muted clip">{job.error?.message}</span>
                </li>
              ))}
            </ul>
            {jobs.length === 0 && <p class="muted">None has it as its last error any more.</p>}
          </Panel>
          <Panel title="Facts">
            <Spark values={hoursOf(problem, tick.value)} what="errors per hour of the last day" />
            <Facts
              rows={[
                ["state", problem.state],
                ["errors", many(Number(problem.errors))],
                ["dead", many(Number(problem.dead))],
                ["first seen", <Ago at={problem.first_seen_at} />],
                ["last seen", <Ago at={problem.last_seen_at} />],
                ["last job", <JobLink id={problem.last_job} />],
                ["reopened", Number(problem.reopened) > 0 && `${problem.reopened} times`],
                [problem.state, problem.state_by && <span>{`by ${problem.state_by}`}</span>],
              ]}
            />
          </Panel>
        </div>
      </Page>
    </>
  );
}
