// The log of a job: one line per event, newest first, and what each of them says in words.

import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { JobEvent } from "../base/api.ts";
import { has, JsonBox, ValueBox } from "../base/json.tsx";
import { print } from "../base/print.ts";
import { Ago, Clock } from "../base/parts.tsx";
import { said } from "../base/status.ts";
import { JobLink } from "./bits.tsx";

type Words = (told: Record<string, any>, event: JobEvent) => ComponentChildren;

const Code = ({ text }: { text: string }) => <span class="code">{text}</span>;

const SAYS: Record<string, Words> = {
  job_created: (told) => [told.queue && `in queue ${told.queue}`, told.parent_id && [", spawned by ", <JobLink id={told.parent_id} />]],
  job_claimed: (_, event) => `attempt ${event.attempt}`,
  job_retried: (told) => [<Code text={told.code} />, `, retry ${told.retries}, due `, <Ago at={told.due_at} />],
  job_released: (told) => ["due again ", <Ago at={told.due_at} />],
  job_failed: (told) => <Code text={told.code} />,
  job_timed_out: (told) => (told.due_at ? ["due again ", <Ago at={told.due_at} />] : "for good"),
  job_waiting: (told) => [`for ${told.waits_for}${told.name ? ` ${told.name}` : ""}`, told.deadline_at && [", until ", <Ago at={told.deadline_at} />]],
  job_woken: (told) => `${told.waits_for} expired`,
  job_signalled: (told) => `${told.name}${told.woke ? ", which it waited for" : ", kept"}`,
  job_child_finished: (told) => [<JobLink id={told.child} />, ` ${told.status}`],
  job_children_added: (told) => `${told.children.length} children`,
  job_cancel_requested: (told) => [told.reason, " forced ", <Ago at={told.force_at} />],
  job_cancelled: (told) => told.reason,
  job_redriven: (told) => (told.from_start ? "from the start" : "recorded steps kept"),
  job_forked: (told) => ["from ", <JobLink id={told.from} />, ` at version ${told.from_version}`],
  job_progressed: (told) => [told.progress !== undefined && `${told.progress} % `, told.stage],
  job_approval_asked: (told) => told.prompt,
  job_approval_voted: (told) => `${told.decision} by ${told.by}${told.reason ? `: ${told.reason}` : ""}`,
};

const WORDED = ["name", "code", "retries", "due_at", "waits_for", "deadline_at", "progress", "stage", "woke", "reason", "from", "from_version", "from_start"];

export function says(event: JobEvent): ComponentChildren {
  const told = said(event);
  const tell = SAYS[event.type];
  return tell ? tell(told, event) : (told.name ?? (event.detail ? print(event.detail) : ""));
}

// Made when it is opened: an event can bring a mebibyte.
function More({ event }: { event: JobEvent }) {
  const [isOpen, open] = useState(false);
  const hasPayload = has(event as Record<string, unknown>, "payload") && event.payload !== null;
  // What was said in words already is not offered again.
  const hasDetail = event.detail && Object.keys(event.detail).some((name) => !WORDED.includes(name));
  if (!hasDetail && !hasPayload) return null;
  return (
    <details onToggle={(toggled) => open(toggled.currentTarget.open)}>
      <summary>{hasPayload ? "payload" : "detail"}</summary>
      {isOpen && (
        <div>
          {hasPayload && <ValueBox holder={event as Record<string, unknown>} field="payload" what={`payload of event ${event.version}`} />}
          {hasDetail && <JsonBox value={event.detail} what={`detail of event ${event.version}`} />}
        </div>
      )}
    </details>
  );
}

type Props = { events: JobEvent[]; at: number | null; onPick: (version: number) => void; older?: () => void };

// Events come oldest first and stand newest first.
export function EventLog({ events, at, onPick, older }: Props) {
  return (
    <div>
      <table class="events">
        <caption class="hidden">events, newest first</caption>
        <thead>
          <tr>
            {["#", "When", "Event", "Says", "By"].map((text) => (
              <th scope="col">{text}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {events.toReversed().map((event, n, all) => {
            const version = Number(event.version);
            return (
              <tr key={version} data-version={version} class={`${version === at ? "at" : ""} ${at !== null && version > at ? "later" : ""}`}>
                <td class="c-version">
                  <button type="button" class="quiet version" title={`the job as it stood at version ${version}`} onClick={() => onPick(version)}>
                    {version}
                  </button>
                </td>
                <td class="c-at">
                  <Clock at={event.at} after={n === 0 ? "" : all[n - 1].at} />
                </td>
                <td class="c-type mono">{event.type}</td>
                <td class="c-says">
                  <span>{says(event)}</span>
                  <More event={event} />
                </td>
                <td class="c-by muted" title={event.actor}>
                  {event.actor.replace(/^worker:/, "")}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {older && (
        <div class="pager">
          <button type="button" onClick={older}>
            older events
          </button>
        </div>
      )}
    </div>
  );
}
