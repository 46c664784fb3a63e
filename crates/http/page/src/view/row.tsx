// One row of the list of jobs. It is drawn again only when its job changed.

import { Component } from "preact";
import type { Job } from "../base/api.ts";
import { duration } from "../base/clock.ts";
import { Ago, tick } from "../base/parts.tsx";
import { href } from "../base/route.ts";
import { isTerminal } from "../base/status.ts";
import { short } from "../base/text.ts";
import { Bar, Pill } from "./bits.tsx";

const Only = ({ name, value }: { name: string; value: string }) => (
  <a class="plain" tabIndex={-1} href={href("jobs", "", { [name]: value })} title={`only ${name} ${value}`}>
    {value}
  </a>
);

function Doing({ job }: { job: Job }) {
  if (job.status === "running" && (job.stage || Number(job.progress) > 0)) {
    return (
      <>
        <Bar progress={job.progress} /> <span class="stage">{job.stage ?? `${job.progress} %`}</span>
      </>
    );
  }
  if (job.status === "running") return job.lease?.worker_id ? <span class="muted">on <span class="mono">{job.lease.worker_id}</span></span> : null;
  if (job.status === "waiting") return <span>for {job.waiting_for}{job.wait_name && <span class="mono"> {job.wait_name}</span>}</span>;
  if (job.error?.code && job.status !== "completed" && job.status !== "pending") {
    return (
      <>
        <a class="plain code" tabIndex={-1} href={href("jobs", "", { error_code: job.error.code })}>
          {job.error.code}
        </a>{" "}
        {job.error.message && <span class="muted">{job.error.message}</span>}
      </>
    );
  }
  return job.stage ? <span class="muted stage">{job.stage}</span> : null;
}

function When({ job }: { job: Job }) {
  if (isTerminal(job.status)) return <Ago at={job.finished_at ?? job.updated_at} />;
  if (job.status === "running") return <Ago at={job.started_at ?? job.updated_at} />;
  if (job.due_at && job.status !== "waiting") return <>due <Ago at={job.due_at} /></>;
  return <Ago at={job.updated_at} />;
}

function Took({ job }: { job: Job }) {
  if (!job.started_at) return <>–</>;
  if (isTerminal(job.status) && job.finished_at) return <>{duration(Date.parse(job.finished_at) - Date.parse(job.started_at))}</>;
  return job.status === "running" ? <>{duration(Math.max(0, tick.value - Date.parse(job.started_at)))}</> : <>–</>;
}

export const HEADS = [["status", "Status"], ["kind", "Kind"], ["queue", "Queue"], ["doing", "Doing"], ["tries", "Attempt"], ["took", "Took"], ["when", "When"], ["id", "Id"]] as const;

type Props = { job: Job; at: number; isActive: boolean; isSelected: boolean; canSelect: boolean; touched: string; onSelect: (id: string, isOn: boolean) => void };

export class Row extends Component<Props> {
  shouldComponentUpdate(next: Props) {
    const was = this.props;
    return next.job !== was.job || next.at !== was.at || next.isActive !== was.isActive || next.isSelected !== was.isSelected || next.canSelect !== was.canSelect;
  }

  render({ job, at, isActive, isSelected, canSelect, touched, onSelect }: Props) {
    return (
      <tr data-id={job.id} data-status={job.status} class={touched === "new" ? "new" : ""} tabIndex={isActive ? 0 : -1} aria-rowindex={at + 2} aria-selected={canSelect ? isSelected : undefined}>
        {canSelect && (
          <td class="c-select">
            <input type="checkbox" tabIndex={-1} checked={isSelected} aria-label={`select ${job.kind} ${short(job.id)}`} onClick={(event) => onSelect(job.id, event.currentTarget.checked)} />
          </td>
        )}
        <td key={job.status} class={touched === "moved" ? "c-status moved" : "c-status"}>
          <Pill status={job.status} />
        </td>
        <td class="c-kind">
          <a class="kind" tabIndex={-1} href={href("jobs", job.id)}>
            {job.kind}
          </a>
          {job.tags.length > 0 && <span class="tags">{job.tags.map((tag) => <Only name="tag" value={tag} />)}</span>}
        </td>
        <td class="c-queue">
          <Only name="queue" value={job.queue} />
        </td>
        <td class="c-doing">
          <Doing job={job} />
        </td>
        <td class="c-tries">
          {Number(job.attempt) || "–"}
          {Number(job.retries) > 0 && <span class="muted" title={`${job.retries} of ${job.max_retries} retries used`}>{` (${job.retries}/${job.max_retries})`}</span>}
        </td>
        <td class="c-took">
          <Took job={job} />
        </td>
        <td class="c-when">
          <When job={job} />
        </td>
        <td class="c-id">
          <a class="plain mono" tabIndex={-1} href={href("jobs", job.id)} title={job.id}>
            {short(job.id)}
          </a>
        </td>
      </tr>
    );
  }
}
