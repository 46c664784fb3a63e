// What do they want of me? The soonest to run out first.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { get, type Approval } from "../base/api.ts";
import { useFeed, useReading, useSoon } from "../base/live.ts";
import { Ago, Empty, tick } from "../base/parts.tsx";
import { href, params } from "../base/route.ts";
import { may, session } from "../base/session.ts";
import { plural } from "../base/text.ts";
import { decide } from "./acts.tsx";
import { JobLink, Page, Pill, Tabs, Trouble } from "./bits.tsx";
import { isAsking } from "./dialog.tsx";

const EVERY_MS = 5000;
const SOON_MS = 3_600_000;

// For anybody, or for somebody of this name.
export const isMine = (approval: Approval, name: string | undefined) => approval.approvers.length === 0 || (name !== undefined && approval.approvers.includes(name));

export const stirred = () => dispatchEvent(new Event("approvals"));

type CardProps = { approval: Approval; done: () => void; withJob?: boolean; isActive?: boolean };

// A question, what is known about it, and its buttons.
export function ApprovalCard({ approval, done, withJob = true, isActive = false }: CardProps) {
  const isOpen = approval.status === "pending";
  const isSoon = isOpen && Date.parse(approval.expires_at) - tick.value < SOON_MS;
  const acted = () => {
    stirred();
    done();
  };
  const statuses: Record<string, string> = { pending: "waiting", approved: "completed", denied: "failed", expired: "timed_out", void: "cancelled" };
  return (
    <article class={isActive ? "approval active" : "approval"} data-id={approval.id} data-status={approval.status}>
      <div class="asked">
        <p class="prompt">{approval.prompt}</p>
        <p class="muted">
          {withJob && (
            <>
              <JobLink id={approval.job_id} /> ·{" "}
            </>
          )}
          {approval.name} · asked <Ago at={approval.asked_at} />
          {isOpen && (
            <span class={isSoon ? "warm-word" : ""}>
              {" "}
              · denied by silence <Ago at={approval.expires_at} />
            </span>
          )}
          {Number(approval.required) > 1 && ` · ${approval.approved} of ${approval.required} votes`}
          {approval.approvers.length > 0 && ` · for ${approval.approvers.join(", ")}`}
          {approval.decisions.map((vote) => ` · ${vote.decision === "approve" ? "approved" : "denied"} by ${vote.by}${vote.reason ? `: ${vote.reason}` : ""}`)}
        </p>
      </div>
      {isOpen && may("approver") ? (
        <div class="row">
          <button type="button" class="main" onClick={() => decide(approval, "approve", acted)}>
            Approve
          </button>
          <button type="button" onClick={() => decide(approval, "deny", acted)}>
            Deny
          </button>
        </div>
      ) : (
        <Pill status={statuses[approval.status] ?? "pending"} text={isOpen ? "waiting" : approval.status} />
      )}
    </article>
  );
}

export function Approvals({ id }: { id: string }) {
  const show = params.value.get("show") ?? (params.value.get("all") ? "all" : "mine");
  const read = useReading((signal) => get<{ approvals: Approval[]; next_cursor?: string }>("v1/approvals", { status: show === "mine" || show === "waiting" ? "pending" : "", limit: 100 }, signal), EVERY_MS, [show]);
  const soon = useSoon(read.look, 100);
  useFeed("v1/feed", { params: { type: "job_approval_asked,job_approval_voted,job_waiting" }, onEvents: soon }, []);
  const at = useSignal(0);
  const list = useRef<HTMLDivElement>(null);
  const name = session.value?.name;
  const found = (read.value.value?.approvals ?? [])
    .filter((approval) => (show === "mine" ? isMine(approval, name) : show === "decided" ? approval.status !== "pending" : true))
    .sort((a, b) => (show === "mine" || show === "waiting" ? (a.expires_at < b.expires_at ? -1 : 1) : a.asked_at < b.asked_at ? 1 : -1));
  const chosen = id ? Math.max(0, found.findIndex((approval) => approval.id === id)) : Math.min(at.value, Math.max(0, found.length - 1));
  // Before anybody can see it and press: an effect would come after that.
  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (isAsking() || event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).closest("input, textarea, select")) return;
      const approval = found[chosen];
      const go = (n: number) => {
        at.value = Math.max(0, Math.min(found.length - 1, n));
        if (id) location.hash = href("approvals", "", Object.fromEntries(params.value));
        list.current?.querySelectorAll("article")[at.value]?.scrollIntoView({ block: "nearest" });
      };
      const canDecide = approval?.status === "pending" && may("approver");
      if (event.key === "j") go(chosen + 1);
      else if (event.key === "k") go(chosen - 1);
      else if (event.key === "a" && canDecide) decide(approval, "approve", read.look);
      else if (event.key === "d" && canDecide) decide(approval, "deny", read.look);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });
  const tabs: [string, string][] = [["mine", "for me"], ["waiting", "waiting"], ["decided", "decided"], ["all", "all"]];
  return (
    <Page title="Approvals" note={found.length > 1 && may("approver") ? <span><kbd>j</kbd> <kbd>k</kbd> move, <kbd>a</kbd> approves, <kbd>d</kbd> denies</span> : undefined}>
      <Tabs label="which" at={show} of={tabs.map(([key, text]) => [key, text, href("approvals", "", { show: key === "mine" ? "" : key })])} />
      <Trouble problem={read.problem.value} again={read.look} />
      {read.value.value && found.length === 0 && <Empty title={show === "mine" || show === "waiting" ? "Nobody waits for you" : "Nobody ever asked"} text="A job asks with ctx.approval(…), or over HTTP, and holds no worker meanwhile." />}
      <div ref={list}>
        {found.map((approval, n) => (
          <ApprovalCard key={approval.id} approval={approval} done={read.look} isActive={n === chosen && found.length > 1} />
        ))}
      </div>
      {read.value.value?.next_cursor && found.length > 0 && <p class="muted">{`These are among the newest ${plural(100, "question")}.`}</p>}
    </Page>
  );
}
