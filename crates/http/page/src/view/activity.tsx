// Who did what?

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asProblem, get, type AuditEntry } from "../base/api.ts";
import { diff, JsonBox, print } from "../base/json.tsx";
import { useFeed, useReading } from "../base/live.ts";
import { Ago, Empty, Stamp, tell } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { Page, Table, Trouble } from "./bits.tsx";

const EVERY_MS = 5000;
const PAGE = 100;
const FILTERS = ["actor", "action", "target", "since", "until"];

type Answer = { entries: AuditEntry[]; next_cursor?: string | null };
type Detail = { before?: unknown; after?: unknown } & Record<string, unknown>;

const isId = (text: string) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text);

// Where the thing that was touched is shown.
function linkOf({ action, target }: AuditEntry) {
  if (action.startsWith("queue.")) return href("queues", target);
  if (action.startsWith("schedule.")) return href("schedules", target);
  if (action.startsWith("problem.")) return href("problems", target);
  if (action.startsWith("worker.")) return href("workers", target);
  if (action.startsWith("settings.") || action.startsWith("leader.") || action.startsWith("key.")) return "#/settings";
  return isId(target) && action.startsWith("job") ? href("jobs", target) : "";
}

function What({ entry }: { entry: AuditEntry }) {
  const detail = entry.detail as Detail;
  if (Object.keys(detail).length === 0) return null;
  if (detail.before && detail.after) {
    const found = diff(detail.before, detail.after, 12);
    return (
      <dl class="diff">
        {found.map((change) => (
          <div key={change.path}>
            <dt class="mono">{change.path}</dt>
            <dd>
              {change.before !== undefined && <del>{print(change.before)}</del>} {change.after !== undefined && <ins>{print(change.after)}</ins>}
            </dd>
          </div>
        ))}
      </dl>
    );
  }
  // What was made has no before, what was removed no after.
  const shown = detail.after ?? detail.before ?? detail;
  const text = print(shown).replace(/\s+/g, " ");
  if (text.length < 90) return <span class="mono muted">{text.replace(/^\{ ?| ?\}$/g, "")}</span>;
  return (
    <details>
      <summary>{detail.after ? "as it was made" : detail.before ? "as it was" : "detail"}</summary>
      <JsonBox value={shown} what={`detail of ${entry.seq}`} />
    </details>
  );
}

export function Activity() {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, params.value.get(name) ?? ""]));
  const key = JSON.stringify(asked);
  const read = useReading((signal) => get<Answer>("v1/audit", { ...asked, limit: PAGE }, signal), EVERY_MS, [key]);
  const older = useSignal<AuditEntry[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  useEffect(() => {
    older.value = [];
    next.value = undefined;
  }, [key]);
  useFeed("v1/feed", { params: { type: "job_redriven,job_cancelled" }, onEvents: read.look }, []);
  const answer = read.value.value;
  const cursor = next.value === undefined ? answer?.next_cursor : next.value;
  const more = async () => {
    try {
      const page = await get<Answer>("v1/audit", { ...asked, limit: PAGE, cursor });
      older.value = [...older.peek(), ...page.entries];
      next.value = page.next_cursor ?? null;
    } catch (error) {
      tell(asProblem(error).title, "bad");
    }
  };
  const known = new Set(answer?.entries.map((entry) => entry.seq));
  const entries = [...(answer?.entries ?? []), ...older.value.filter((entry) => !known.has(entry.seq))];
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    location.hash = href("activity", "", Object.fromEntries(FILTERS.map((name) => [name, String(form.get(name) ?? "").trim()])));
  };
  return (
    <Page title="Activity" note="what people and programs did to the engine">
      <form class="filter" role="search" onSubmit={submit} key={key}>
        {(["actor", "action", "target"] as const).map((name) => (
          <input name={name} aria-label={name} placeholder={{ actor: "actor, such as key:root", action: "action, such as queue.pause", target: "target" }[name]} defaultValue={asked[name]} autocomplete="off" />
        ))}
        <input name="since" aria-label="since" placeholder="since, such as -1d" defaultValue={asked.since} autocomplete="off" />
        <button type="submit">Apply</button>
      </form>
      <Trouble problem={read.problem.value} again={read.look} />
      {answer && entries.length === 0 && <Empty title="Nothing was done" text="Take a filter away, or wait." />}
      {entries.length > 0 && (
        <Table
          caption="what was done, newest first"
          rows={entries}
          keyOf={(entry) => String(entry.seq)}
          columns={[
            { name: "When", cell: (entry) => <><Stamp at={entry.at} seconds /> <span class="muted"><Ago at={entry.at} /></span></> },
            { name: "Who", cell: (entry) => <a class="plain" href={href("activity", "", { actor: entry.actor })}>{entry.actor}</a> },
            { name: "Did", cell: (entry) => <a class="plain mono" href={href("activity", "", { action: entry.action })}>{entry.action}</a> },
            { name: "To", cell: (entry) => (linkOf(entry) ? <a href={linkOf(entry)}>{isId(entry.target) ? entry.target.slice(-8) : entry.target}</a> : entry.target) },
            { name: "What", isWide: true, cell: (entry) => <What entry={entry} /> },
          ]}
        />
      )}
      {cursor && (
        <div class="pager">
          <button type="button" onClick={more}>
            older
          </button>
        </div>
      )}
    </Page>
  );
}
