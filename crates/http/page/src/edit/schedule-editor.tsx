// A schedule, made or changed: a form, then what it changes and when it fires, then the question.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { asProblem, get, post, put, type Problem, type Schedule } from "../base/api.ts";
import { full } from "../base/clock.ts";
import { Ago, ProblemBox } from "../base/parts.tsx";
import { changed, href } from "../base/route.ts";
import { ask } from "../view/dialog.tsx";
import { Panel } from "../view/bits.tsx";
import { AreaField, BeforeAfter, focusWrong, SelectField, TextField } from "./fields.tsx";
import { bodyText, draftOf, kept, lines, readDraft, unknown, type Draft } from "./schedule.ts";
import { changes } from "./read.ts";

const SHOWN = 5;

const path = (name: string) => `v1/schedules/${encodeURIComponent(name)}`;

const MISSED: [string, string][] = [["", "fire the newest once (usual)"], ["once", "fire the newest once"], ["skip", "leave them out"], ["all", "fire them all"]];
const OVERLAP: [string, string][] = [["", "fire all the same (usual)"], ["allow", "fire all the same"], ["skip", "leave the slot out"], ["cancel", "cancel the older job"]];
const TIMING: [string, string][] = [["cron", "by the clock (cron)"], ["every", "in an interval"]];

// Makes a schedule, or changes the one that is given.
export function ScheduleEditor({ schedule, done }: { schedule: Schedule | null; done: () => void }) {
  const opened = useRef(schedule);
  const draft = useSignal(draftOf(schedule));
  const form = useRef<HTMLFormElement>(null);
  const isTried = useSignal(false);
  const problem = useSignal<Problem | null>(null);
  const now = draft.value;
  const before = opened.current;
  const read = readDraft(now, before);
  const wrong = isTried.value ? read.wrong : {};
  const field = (name: keyof Draft) => ({ path: name, wrong, value: now[name], set: (value: string) => (draft.value = { ...draft.value, [name]: value }) });
  const close = () => (location.hash = changed({ edit: "" }));
  const review = async (event: Event) => {
    event.preventDefault();
    isTried.value = true;
    problem.value = null;
    const { body, wrong } = readDraft(draft.value, before);
    if (Object.keys(wrong).length) return focusWrong(form.current!);
    try {
      // At the version that the form was made from: what another changed meanwhile is not written over.
      const sent = bodyText({ ...body, expected_version: before ? Number(before.version) : 0 });
      const { next } = await post<{ next: string[] }>(`${path(now.name.trim())}/preview?n=${SHOWN}`, sent);
      askSchedule(before, draft.value, sent, next, done);
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  const lost = before ? unknown(before) : [];
  const still = kept(before);
  const fresh = async () => {
    try {
      opened.current = await get<Schedule>(path(now.name.trim()));
      problem.value = null;
      draft.value = draftOf(opened.current);
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  return (
    <Panel title={before ? `Change ${before.name}` : "New schedule"} note="fires on the server that leads">
      {lost.length > 0 && <p class="blocked">{`Its job has what this form does not know and would lose: ${lost.join(", ")}. Change it where it was made.`}</p>}
      <form ref={form} class="editor" onSubmit={review} noValidate>
        <fieldset>
          <legend>When</legend>
          <div class="cells">
            <TextField label="Name" isRequired isLocked={Boolean(before)} {...field("name")} />
            <SelectField label="It fires" of={TIMING} {...field("timing")} />
            {now.timing === "cron" ? (
              <>
                <TextField label="Cron" placeholder="0 2 * * *" isRequired note="minute, hour, day, month, weekday; or @hourly" {...field("cron")} />
                <TextField label="Time zone" placeholder="UTC" list="schedule-zones" {...field("timezone")} />
              </>
            ) : (
              <TextField label="Every, such as 15m" isRequired {...field("every")} />
            )}
            <TextField label="Jitter, such as 5m" note="each job up to so long after its slot" {...field("jitter")} />
            <TextField label="Not before" placeholder="2026-12-01T00:00:00Z" {...field("starts_at")} />
            <TextField label="Not from then on" placeholder="2027-01-01T00:00:00Z" {...field("ends_at")} />
          </div>
          <datalist id="schedule-zones">{["UTC", ...Intl.supportedValuesOf("timeZone")].map((name) => <option value={name} />)}</datalist>
        </fieldset>
        <fieldset>
          <legend>What it enqueues</legend>
          <div class="cells">
            <TextField label="Kind" isRequired {...field("kind")} />
            <TextField label="Queue" placeholder="default" {...field("queue")} />
            <TextField label="Priority, -5 to 5" {...field("priority")} />
            <TextField label="Retries" isNumber {...field("max_retries")} />
            <TextField label="Timeout, such as 30s" {...field("timeout")} />
            <TextField label="Key" {...field("key")} />
            <TextField label="Tags, by commas" {...field("tags")} />
          </div>
          <AreaField label="Payload, as JSON; may be empty" rows={4} {...field("payload")} />
          {still.length > 0 && <p class="muted">{`Kept as it is: ${still.join(", ")}.`}</p>}
        </fieldset>
        <fieldset>
          <legend>When something is in the way</legend>
          <div class="cells">
            <SelectField label="Slots that were missed" of={MISSED} {...field("missed")} />
            {now.missed === "all" && <TextField label="At most so many of them" isNumber {...field("missed_max")} />}
            <SelectField label="While the last job lives" of={OVERLAP} {...field("overlap")} />
          </div>
        </fieldset>
        {problem.value && <ProblemBox problem={problem.value} />}
        {problem.value?.code === "version_mismatch" && (
          <p class="row">
            <button type="button" onClick={fresh}>
              Begin anew with what stands there
            </button>
          </p>
        )}
        {isTried.value && Object.keys(read.wrong).length > 0 && (
          <p class="wrong" role="alert">
            Something in it cannot be read: see beside the fields.
          </p>
        )}
        <div class="row">
          <button type="submit" class="main" disabled={lost.length > 0}>
            {before ? "Review the changes" : "Review it"}
          </button>
          <button type="button" onClick={close}>
            {before ? "Leave it as it is" : "Make none"}
          </button>
        </div>
      </form>
    </Panel>
  );
}

function askSchedule(before: Schedule | null, draft: Draft, sent: string, next: string[], done: () => void) {
  const name = draft.name.trim();
  const found = changes(before ? lines(draftOf(before)) : [], lines(draft));
  const verb = before ? "Change" : "Make";
  ask({
    title: found.length ? `${verb} ${name}?` : "Nothing would change",
    isWide: true,
    text: before?.paused && "It is paused, and stays so: these are the slots it would have.",
    fields: (
      <>
        {found.length > 0 && <BeforeAfter of={found} />}
        <section class="dry" aria-label="next slots">
          <p class="muted">It fires next, in the zone of this page:</p>
          <ol class="next">
            {next.map((at) => (
              <li key={at}>
                <span>{full(at)}</span>
                <span class="muted"><Ago at={at} /></span>
              </li>
            ))}
          </ol>
        </section>
      </>
    ),
    yes: found.length ? `${verb} it` : "Go back",
    send: async () => {
      if (found.length) await put(path(name), sent);
      location.hash = href("schedules", name);
      done();
      document.getElementById("view")?.focus();
      return found.length ? `${name} is ${before ? "changed" : "made"}` : undefined;
    },
  });
}
