// An act on many jobs: first what it would do, then a question, then batches that can be stopped.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asProblem, post, type BulkDone, type Job, type Problem } from "../base/api.ts";
import { ProblemBox, tell } from "../base/parts.tsx";
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

type Progress = { done: number; skipped: number };

async function run(target: Target, action: Action, body: Record<string, unknown>, onStep: (progress: Progress) => void) {
  const progress: Progress = { done: 0, skipped: 0 };
  if ("jobs" in target) {
    for (const job of target.jobs) {
      // One that has moved on meanwhile is left as it is.
      await post(`v1/jobs/${job.id}/${action}`, action === "cancel" ? { reason: body.reason } : {}).then(
        () => (progress.done += 1),
        (error) => {
          if (asProblem(error).status !== 409) throw error;
          progress.skipped += 1;
        },
      );
      onStep({ ...progress });
    }
    return progress;
  }
  let cursor: string | undefined;
  do {
    const answer: BulkDone = await post("v1/bulk", { filter: bodyFilter(target.filter), action, dry_run: false, ...body, ...(cursor && { cursor }) });
    progress.done += answer.done;
    progress.skipped += answer.skipped;
    cursor = answer.next_cursor ?? undefined;
    onStep({ ...progress });
  } while (cursor);
  return progress;
}

// Asks about an act on many jobs, after a dry run that says what it would touch.
export function askBulk(target: Target, action: Action, done: () => void) {
  const [verb, past] = words[action];
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
      const body = { ...(form.reason && reason(form)), ...(spread && { spread }) };
      const told = document.getElementById("bulk-progress");
      const progress = await run(target, action, body, (now) => told && (told.textContent = `${many(now.done)} ${past}`));
      done();
      tell(`${many(progress.done)} ${past}${progress.skipped ? `, ${many(progress.skipped)} had moved on` : ""}`);
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
      <p id="bulk-progress" class="muted" />
      {matched > TYPED_ABOVE && (
        <Field label={`Type ${matched} to say that you mean all of them`}>
          <input name="count" autocomplete="off" inputMode="numeric" />
        </Field>
      )}
    </div>
  );
}
