// What happens right now?

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { JobEvent } from "../base/api.ts";
import { useFeed } from "../base/live.ts";
import { Clock, Empty } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { many } from "../base/text.ts";
import { JobLink, Page } from "./bits.tsx";
import { says } from "./events.tsx";

const KEPT = 300;
const FILTERS = ["queue", "kind", "type"];

type Line = { key: string; event: JobEvent };

// Events of all jobs as they come, the newest first. What comes while it is held is gathered behind a button.
export function Tail() {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, params.value.get(name) ?? ""]));
  const key = JSON.stringify(asked);
  const lines = useSignal<Line[]>([]);
  const held = useSignal<Line[] | null>(null);
  const skipped = useSignal(0);
  useEffect(() => {
    lines.value = [];
    held.value = held.peek() && [];
    skipped.value = 0;
  }, [key]);
  const add = (to: Line[], found: JobEvent[]) => [...found.map((event) => ({ key: `${event.job_id} ${event.version}`, event })).reverse(), ...to].slice(0, KEPT);
  useFeed(
    "v1/feed",
    {
      params: asked,
      onEvents: (found) => {
        if (held.peek()) held.value = add(held.peek()!, found);
        else lines.value = add(lines.peek(), found);
      },
      onSkipped: (n) => (skipped.value += n),
    },
    [key],
  );
  const goOn = () => {
    const waiting = held.peek() ?? [];
    lines.value = [...waiting, ...lines.peek()].slice(0, KEPT);
    held.value = null;
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    location.hash = href("tail", "", Object.fromEntries(FILTERS.map((name) => [name, String(form.get(name) ?? "").trim()])));
  };
  const waiting = held.value?.length ?? 0;
  return (
    <Page
      title="Tail"
      note={skipped.value > 0 ? <span id="skipped">{`${many(skipped.value)} skipped: it is faster than eyes; of each job the newest event is shown`}</span> : "events of all jobs, as they happen"}
      acts={
        held.value ? (
          <button type="button" class="main" onClick={goOn}>{waiting ? `Go on, ${many(waiting)}${waiting === KEPT ? "+" : ""} new` : "Go on"}</button>
        ) : (
          <button type="button" onClick={() => (held.value = [])}>Hold</button>
        )
      }
    >
      <form class="filter" role="search" onSubmit={submit} key={key}>
        {FILTERS.map((name) => (
          <input name={name} aria-label={name} placeholder={{ queue: "queue", kind: "kind", type: "types, such as job_failed,job_retried" }[name]} defaultValue={asked[name]} autocomplete="off" spellcheck={false} />
        ))}
        <button type="submit">Apply</button>
      </form>
      {lines.value.length === 0 ? (
        <Empty title="Nothing has happened yet" text="Events show up here as soon as they are written." />
      ) : (
        <div class="wide">
          <table class="events tail">
            <caption class="hidden">events, newest first</caption>
            <thead>
              <tr>{["When", "Job", "Kind", "Queue", "Event", "Says", "By"].map((name) => <th scope="col">{name}</th>)}</tr>
            </thead>
            <tbody>
              {lines.value.map(({ key, event }, n, all) => (
                <tr key={key}>
                  <td><Clock at={event.at} after={all[n + 1]?.event.at} /></td>
                  <td><JobLink id={event.job_id!} /></td>
                  <td><a class="plain" href={href("tail", "", { ...asked, kind: event.kind ?? "" })}>{event.kind}</a></td>
                  <td><a class="plain" href={href("tail", "", { ...asked, queue: event.queue ?? "" })}>{event.queue}</a></td>
                  <td class="mono">{event.type}</td>
                  <td>{says(event)}</td>
                  <td class="muted clip">{event.actor}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Page>
  );
}
