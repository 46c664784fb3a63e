// An act on many jobs: first what it would do, then a question, then ten seconds to take it back, then batches that can be stopped.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asProblem, get, now as clock, post, type BulkDone, type Job, type Operation, type Problem } from "../base/api.ts";
import { pin, ProblemBox, tell } from "../base/parts.tsx";
import { many, plural, short } from "../base/text.ts";
import { ask, Field, Reason, reason } from "./dialog.tsx";

export type Action = "cancel" | "redrive";
export type Target = { filter: Record<string, string> } | { jobs: Job[] };

// Above this many, the number has to be typed.
const TYPED_ABOVE = 1000;

const words = { cancel: ["Cancel", "cancelled"], redrive: ["Redrive", "redriven"] } as const;

// The filter of an address, as the API takes it in a body.
export function bodyFilter(filter: Record<string, string>) {
  const { dead, status, ...rest } = filter;
  return { ...rest, ...(dead && { dead: true }), ...(status && { status: status.split(",") }) };
}

// What would happen, page by page, until everything is counted or it is enough to know.
async function count(filter: Record<string, string>, action: Action) {
  let cursor: string | undefined;
  let [matched, pages] = [0, 0];
  const sample: string[] = [];
  do {
    const answer: BulkDone = await post("v1/bulk", { filter: bodyFilter(filter), action, dry_run: true, ...(cursor && { cursor }) });
    matched += answer.matched;
    sample.push(...answer.sample);
    cursor = answer.next_cursor ?? undefined;
    pages += 1;
  } while (cursor && pages < 20);
  return { matched, sample: sample.slice(0, 5), isMore: Boolean(cursor) };
}

const HOLD = "10s";
const MOST = 1000;

export const isOver = ({ phase }: Operation) => phase === "done" || phase === "stopped";

export const stopped = ({ done }: Operation, past: string) => (Number(done) === 0 ? "stopped: every job is as it was" : `stopped: ${many(Number(done))} ${past} before`);

// Follows an operation to its end. While it is held it can be taken back, and then it can be stopped.
async function follow(operation: Operation, action: Action, done: () => void) {
  const [, past] = words[action];
  const say = pin();
  let now = operation;
  const stop = () => post<Operation>(`v1/operations/${now.id}/stop`).then((answer) => (now = answer), (error) => tell(asProblem(error).title, "bad"));
  while (!isOver(now)) {
    const left = Math.ceil((Date.parse(now.begins_at) - clock()) / 1000);
    if (now.phase === "held" && left > 0) say(`Jobs are ${past} in ${left} s`, { word: "Undo", run: stop });
    else say(`${many(Number(now.done))} ${past} …`, { word: "Stop", run: stop });
    await new Promise((wake) => setTimeout(wake, 500));
    // An answer that is lost is asked for again; one that was stopped meanwhile stays so.
    const read = await get<Operation>(`v1/operations/${now.id}`).catch(() => now);
    if (!isOver(now)) now = read;
  }
  say("");
  done();
  const skipped = Number(now.skipped) ? `, ${many(Number(now.skipped))} had moved on` : "";
  tell(now.phase === "stopped" ? stopped(now, past) : `${many(Number(now.done))} ${past}${skipped}`);
}

// Asks about an act on many jobs, after a dry run that says what it would touch.
export function askBulk(target: Target, action: Action, done: () => void) {
  const [verb] = words[action];
  const size = { n: "jobs" in target ? target.jobs.length : 0 };
  ask({
    title: "jobs" in target ? `${verb} ${plural(target.jobs.length, "job")}?` : `${verb} everything that matches?`,
    isWide: true,
    text: action === "cancel" ? "Jobs that run are asked to stop; the others will not run. Each can be redriven later." : "Each goes back into its queue with all its retries. Recorded steps are not done again. What a redriven job does cannot be undone.",
    fields: [
      "filter" in target ? <DryRun filter={target.filter} action={action} size={size} /> : <Sample ids={target.jobs.map((job) => job.id)} />,
      action === "redrive" && "filter" in target && (
        <Field label="Spread over, such as 10m; empty is at once">
          <input name="spread" autocomplete="off" />
        </Field>
      ),
      (action === "cancel" || "filter" in target) && <Reason />,
    ],
    yes: action === "cancel" ? "Cancel the jobs" : "Redrive",
    tone: action === "cancel" ? "danger" : "",
    send: async (form) => {
      if (size.n > TYPED_ABOVE && form.count?.value.replaceAll(",", "").trim() !== String(size.n)) throw new Error(`type ${size.n} to say that you mean all of them`);
      const spread = form.spread?.value.trim();
      const which = "jobs" in target ? { ids: target.jobs.map((job) => job.id) } : { filter: bodyFilter(target.filter) };
      const body = { ...which, action, dry_run: false, hold: HOLD, ...(form.reason && reason(form)), ...(spread && { spread }) };
      if ("jobs" in target && target.jobs.length > MOST) throw new Error(`select at most ${many(MOST)} jobs, or filter and take all that match`);
      // It goes on while the page is left; Activity shows it too.
      void follow(await post<Operation>("v1/bulk", body), action, done);
    },
  });
}

const Sample = ({ ids }: { ids: string[] }) => (
  <p class="muted">
    {ids.slice(0, 5).map((id, n) => (
      <span class="mono">
        {n > 0 && ", "}
        {short(id)}
      </span>
    ))}
    {ids.length > 5 && ` and ${many(ids.length - 5)} more`}
  </p>
);

function DryRun({ filter, action, size }: { filter: Record<string, string>; action: Action; size: { n: number } }) {
  const found = useSignal<{ matched: number; sample: string[]; isMore: boolean } | null>(null);
  const problem = useSignal<Problem | null>(null);
  useEffect(() => {
    count(filter, action).then(
      (answer) => {
        size.n = answer.matched;
        found.value = answer;
      },
      (error) => (problem.value = asProblem(error)),
    );
  }, []);
  if (problem.value) return <ProblemBox problem={problem.value} />;
  if (!found.value) return <p class="muted">Counting …</p>;
  const { matched, sample, isMore } = found.value;
  return (
    <div class="dry" role="status">
      <p>
        <b class="figure">{many(matched)}</b> {matched === 1 ? "job" : "jobs"}
        {isMore && " or more"} would be {words[action][1]}
        {Object.entries(filter).map(([name, value]) => (
          <span class="chip still">{`${name}: ${value}`}</span>
        ))}
      </p>
      <Sample ids={sample} />
      {matched > TYPED_ABOVE && (
        <Field label={`Type ${matched} to say that you mean all of them`}>
          <input name="count" autocomplete="off" inputMode="numeric" />
        </Field>
      )}
    </div>
  );
}
