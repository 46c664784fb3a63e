// Who did what?

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asProblem, get, post, type AuditEntry, type Operation } from "../base/api.ts";
import { JsonBox } from "../base/json.tsx";
import { diff, print } from "../base/print.ts";
import { useFeed, useReading } from "../base/live.ts";
import { Ago, Empty, Stamp, tell, tick } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { may } from "../base/session.ts";
import { many } from "../base/text.ts";
import { Page, Panel, Table, Trouble } from "./bits.tsx";
import { isOver, stopped } from "./bulk.tsx";

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

// What is done to many jobs, as long as it is news.
function Operations() {
  const read = useReading((signal) => get<{ operations: Operation[] }>("v1/operations", { limit: 10 }, signal), EVERY_MS, []);
  const shown = (read.value.value?.operations ?? []).filter((one) => !isOver(one) || tick.value - Date.parse(one.ended_at ?? one.created_at) < 86_400_000);
  if (shown.length === 0) return null;
  const stop = (one: Operation) => post<Operation>(`v1/operations/${one.id}/stop`).then((now) => (read.look(), tell(stopped(now, "changed"))), (error) => tell(asProblem(error).title, "bad"));
  const to = (one: Operation) => (one.filter ? print(one.filter).replace(/\s+/g, " ").replace(/^\{ ?| ?\}$/g, "") : `${one.ids} that were named`);
  return (
    <Panel title="Operations" note="what was done to many jobs in the last day">
      <Table
        caption="operations, the latest first"
        rows={shown}
        keyOf={(one) => one.id}
        columns={[
          { name: "When", cell: (one) => <Stamp at={one.created_at} seconds /> },
          { name: "Who", cell: (one) => one.by },
          { name: "Did", cell: (one) => <span class="mono">{one.action}</span> },
          { name: "To jobs", isWide: true, cell: (one) => <span class="mono muted">{to(one)}</span> },
          { name: "State", cell: (one) => (one.phase === "held" ? <>begins <Ago at={one.begins_at} /></> : one.phase) },
          { name: "Done", isNumber: true, cell: (one) => many(Number(one.done)) },
          { name: "", cell: (one) => !isOver(one) && may("operator") && <button type="button" onClick={() => stop(one)}>{one.phase === "held" ? "Undo" : "Stop"}</button> },
        ]}
      />
    </Panel>
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
      <Operations />
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
