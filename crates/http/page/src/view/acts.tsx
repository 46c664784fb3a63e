// What a person can do to a job, an approval, a queue, a worker. Each asks first, sends one request, and says what came of it.

import { asProblem, onceKey, post, put, type Approval, type Job, type Queue, type Worker } from "../base/api.ts";
import { print } from "../base/print.ts";
import { tell } from "../base/parts.tsx";
import { word } from "../base/status.ts";
import { ask, Field, Reason, reason, Tick, type Fields } from "./dialog.tsx";

type OneJob = { job: Job };

// A payload to be changed. It starts with today's, as the server wrote it; what is left as it is, is not sent.
const written = (job: Job) => (job.payload === undefined ? "" : print(job.payload));

const PayloadField = ({ job }: { job: Job }) => (
  <Field label={job.payload_base64 ? "Another payload, as JSON; empty keeps the present one, which is not JSON" : "Payload, as JSON"}>
    <textarea name="payload" rows={6} spellcheck={false} class="mono" defaultValue={written(job)} />
  </Field>
);

// The body of a request with a payload as it stands in the form, digit by digit.
export function spliced(body: Record<string, unknown>, text: string) {
  JSON.parse(text);
  return JSON.stringify({ ...body, payload: null }).replace(/null}$/, () => `${text}}`);
}

function withPayload(body: Record<string, unknown>, form: Fields, job: Job) {
  const text = form.payload.value.trim();
  return !text || text === written(job).trim() ? body : spliced(body, text);
}

export function cancel(job: Job, done: (job: Job) => void) {
  const isHeld = job.status === "running";
  ask({
    title: `Cancel ${job.kind}?`,
    text: isHeld ? "Its worker is asked to stop and has 30 seconds; what it finishes before that counts." : "It will not run. It can be redriven later.",
    fields: [<Reason />, isHeld && <Tick name="force" label="do not wait for the worker" />],
    yes: "Cancel the job",
    tone: "danger",
    send: async (form) => {
      const answer = await post<OneJob>(`v1/jobs/${job.id}/cancel`, { ...reason(form), ...(form.force?.checked && { force: true }) });
      done(answer.job);
      return answer.job.status === "cancelled" ? "the job is cancelled" : "the worker was asked to stop";
    },
  });
}

export function redrive(job: Job, done: (job: Job) => void) {
  const key = onceKey();
  ask({
    title: `Send ${job.kind} back?`,
    text: "It goes back into its queue with all its retries. Recorded steps are not done again.",
    fields: [<PayloadField job={job} />, <Tick name="from_start" label="forget recorded steps and begin at the start" />],
    yes: "Redrive",
    send: async (form) => {
      const body = withPayload(form.from_start.checked ? { from_start: true } : {}, form, job);
      const answer = await post<OneJob>(`v1/jobs/${job.id}/redrive`, body, { "idempotency-key": key });
      done(answer.job);
      return `the job is ${word(answer.job.status)} again`;
    },
  });
}

export function fork(job: Job, version: number | null) {
  const key = onceKey();
  ask({
    title: version ? `Fork ${job.kind} at version ${version}?` : `Fork ${job.kind}?`,
    text: "A new job with the same log up to here: recorded steps are not done again. This one stays as it is.",
    fields: <PayloadField job={job} />,
    yes: "Fork",
    send: async (form) => {
      const body = withPayload(version ? { from_version: version } : {}, form, job);
      const answer = await post<OneJob>(`v1/jobs/${job.id}/fork`, body, { "idempotency-key": key });
      location.hash = `#/jobs/${answer.job.id}`;
      return "this is the new job";
    },
  });
}

export function sendSignal(job: Job) {
  const key = onceKey();
  ask({
    title: `Signal ${job.kind}?`,
    text: "A job that waits for this name goes on; one that does not keeps it until it asks.",
    fields: [
      <Field label="Name">
        <input name="signal" required autocomplete="off" defaultValue={job.waiting_for === "signal" ? (job.wait_name ?? "") : ""} />
      </Field>,
      <Field label="Payload, as JSON; may be empty">
        <textarea name="payload" rows={4} spellcheck={false} class="mono" />
      </Field>,
    ],
    yes: "Send",
    send: async (form) => {
      const text = form.payload.value.trim();
      const body = { name: form.signal.value.trim() };
      await post(`v1/jobs/${job.id}/signal`, text ? spliced(body, text) : body, { "idempotency-key": key });
      return `${body.name} was sent`;
    },
  });
}

export function enqueue(known: { queues: string[]; kinds: string[] }) {
  const key = onceKey();
  const offer = (id: string, values: string[]) => (
    <datalist id={id}>
      {values.map((value) => (
        <option value={value} />
      ))}
    </datalist>
  );
  ask({
    title: "Enqueue a job",
    fields: [
      <div class="pair">
        <Field label="Kind">
          <input name="kind" required autocomplete="off" list="kinds" />
        </Field>
        <Field label="Queue">
          <input name="queue" autocomplete="off" list="queues" placeholder="default" />
        </Field>
      </div>,
      <Field label="Payload, as JSON; may be empty">
        <textarea name="payload" rows={5} spellcheck={false} class="mono" />
      </Field>,
      <Field label="Delay, such as 10m; empty is at once">
        <input name="delay" autocomplete="off" />
      </Field>,
      offer("kinds", known.kinds),
      offer("queues", known.queues),
    ],
    yes: "Enqueue",
    send: async (form) => {
      const [queue, delay, text] = [form.queue.value.trim(), form.delay.value.trim(), form.payload.value.trim()];
      const body = { kind: form.kind.value.trim(), ...(queue && { queue }), ...(delay && { delay }) };
      const answer = await post<OneJob>("v1/jobs", text ? spliced(body, text) : body, { "idempotency-key": key });
      location.hash = `#/jobs/${answer.job.id}`;
      return "it is enqueued";
    },
  });
}

export function decide(approval: Approval, decision: "approve" | "deny", done: () => void) {
  const isYes = decision === "approve";
  ask({
    title: isYes ? "Approve?" : "Deny?",
    text: [<span class="prompt">{approval.prompt}</span>, !isYes && <span class="muted"> The job fails when it is denied.</span>],
    fields: <Reason />,
    yes: isYes ? "Approve" : "Deny",
    tone: isYes ? "" : "danger",
    send: async (form) => {
      const answer = await post<{ status: string }>(`v1/approvals/${approval.id}/decide`, { decision, ...reason(form) });
      done();
      return answer.status === "pending" ? "your vote counts; more are needed" : `it is ${answer.status}`;
    },
  });
}

export function pause(queue: Queue, done: () => void) {
  ask({
    title: `Pause queue ${queue.name}?`,
    text: "No worker takes its jobs until it is resumed; those that run go on.",
    yes: "Pause",
    send: async () => {
      await post(`v1/queues/${encodeURIComponent(queue.name)}/pause`);
      done();
      return `queue ${queue.name} is paused`;
    },
  });
}

// What is harmless needs no question; a refusal is said in the corner.
export async function atOnce(act: () => Promise<unknown>, said: string, done: () => void) {
  try {
    await act();
    done();
    tell(said);
  } catch (error) {
    const problem = asProblem(error);
    tell(`${problem.title}: ${problem.detail}`, "bad");
  }
}

export const resume = (queue: { name: string }, done: () => void) => atOnce(() => post(`v1/queues/${encodeURIComponent(queue.name)}/resume`), `queue ${queue.name} goes on`, done);

export function drain(worker: Worker, done: () => void) {
  ask({
    title: `Drain worker ${worker.id}?`,
    text: "It takes no more jobs; those that run go on. Let it take jobs again, or end it when it is idle.",
    yes: "Drain",
    send: async () => {
      await put(`v1/workers/${encodeURIComponent(worker.id)}`, { draining: true });
      done();
      return `worker ${worker.id} drains`;
    },
  });
}

export const undrain = (worker: Worker, done: () => void) => atOnce(() => put(`v1/workers/${encodeURIComponent(worker.id)}`, { draining: false }), `worker ${worker.id} takes jobs again`, done);
