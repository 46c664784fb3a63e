// The limits of a queue, changed: a form, then what it changes, then the question.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { asProblem, get, put, type Problem, type Queue } from "../base/api.ts";
import { ProblemBox } from "../base/parts.tsx";
import { changed } from "../base/route.ts";
import { ask } from "../view/dialog.tsx";
import { Panel } from "../view/bits.tsx";
import { BeforeAfter, focusWrong, SelectField, TextField } from "./fields.tsx";
import { draftOf, lines, readDraft, ruleDraft, type RuleDraft } from "./limits.ts";
import { changes, type Wrong } from "./read.ts";

export const pathOf = (queue: Queue) => `v1/queues/${encodeURIComponent(queue.name)}`;

// Defaults that a request leaves out are unset, so they go back as they came; its mode and endpoint stay by themselves.
export const withFlow = (queue: Queue, flow: unknown) => ({ ...(queue.defaults as object), flow });

// The queue as it stands now.
async function standing(queue: Queue) {
  const { queues } = await get<{ queues: Queue[] }>("v1/queues");
  return queues.find((found) => found.name === queue.name) ?? queue;
}

const FULL: [string, string][] = [["refuse", "refuse the next job"], ["drop", "drop the next job"]];
const MODE: [string, string][] = [["wait", "all, one after the other"], ["newest", "the newest only"]];

type RuleProps = { at: string; rule: RuleDraft; set: (rule: RuleDraft) => void; wrong: Wrong; usual: [full: string, mode: string] };

// The fields of a rule for keys.
function RuleFields({ at, rule, set, wrong, usual }: RuleProps) {
  const field = (name: keyof RuleDraft) => ({ path: `${at}${name}`, wrong, value: rule[name], set: (value: string) => set({ ...rule, [name]: value }) });
  return (
    <div class="cells">
      <TextField label="Running at once" isNumber {...field("concurrency")} />
      <TextField label="Rate, such as 10/m" {...field("rate")} />
      <TextField label="Burst" isNumber {...field("burst")} />
      <TextField label="Jobs in a turn" isNumber {...field("weight")} />
      <TextField label="Waiting, at most" isNumber {...field("backlog")} />
      <SelectField label="When as many wait" of={[["", usual[0]], ...FULL]} {...field("full")} />
      <SelectField label="Which jobs run" of={[["", usual[1]], ...MODE]} {...field("mode")} />
    </div>
  );
}

export function LimitEditor({ queue, done }: { queue: Queue; done: () => void }) {
  const draft = useSignal(draftOf(queue.flow));
  const opened = useRef(lines(queue.flow));
  const form = useRef<HTMLFormElement>(null);
  const isTried = useSignal(false);
  const problem = useSignal<Problem | null>(null);
  const next = useRef(draft.value.keys.length);
  const read = readDraft(draft.value);
  const wrong = isTried.value ? read.wrong : {};
  const now = draft.value;
  const set = (change: Partial<typeof now>) => (draft.value = { ...draft.value, ...change });
  const field = (name: "concurrency" | "rate" | "burst" | "aging") => ({ path: name, wrong, value: now[name], set: (value: string) => set({ [name]: value }) });
  const breaker = (name: keyof typeof now.breaker) => ({ path: `breaker.${name}`, wrong, value: now.breaker[name], set: (value: string) => set({ breaker: { ...now.breaker, [name]: value } }) });
  const close = () => {
    location.hash = changed({ edit: "" });
  };
  const add = () => {
    const id = next.current++;
    set({ keys: [...now.keys, { id, key: "", rule: ruleDraft() }] });
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(`[name="${id}.key"]`)?.focus());
  };
  const drop = (id: number) => {
    set({ keys: now.keys.filter((key) => key.id !== id) });
    form.current?.querySelector<HTMLElement>("[data-add]")?.focus();
  };
  const review = async (event: Event) => {
    event.preventDefault();
    isTried.value = true;
    problem.value = null;
    const { flow, wrong } = readDraft(draft.value);
    if (Object.keys(wrong).length) return focusWrong(form.current!);
    try {
      // What stands now, not what stood when the form was opened.
      askLimits(await standing(queue), flow, opened.current, () => {
        close();
        done();
      });
    } catch (error) {
      problem.value = asProblem(error);
    }
  };
  return (
    <Panel title={`Limits of ${queue.name}`} note="in force with the next claim, for all workers; an empty field is no limit">
      <form ref={form} class="editor" onSubmit={review} noValidate>
        <fieldset>
          <legend>The whole queue</legend>
          <div class="cells">
            <TextField label="Running at once" isNumber {...field("concurrency")} />
            <TextField label="Rate, such as 100/s" {...field("rate")} />
            <TextField label="Burst" isNumber note="as many as the rate, when empty" {...field("burst")} />
            <TextField label="Aging, such as 5m" note="an older job goes before one of the next priority" {...field("aging")} />
          </div>
        </fieldset>
        <fieldset>
          <legend>Keys</legend>
          <label class="tick">
            <input type="checkbox" name="takesTurns" checked={now.takesTurns} onChange={(event) => set({ takesTurns: event.currentTarget.checked })} />
            keys take turns, and may have limits
          </label>
          {now.takesTurns && <RuleFields at="each." rule={now.each} set={(each) => set({ each })} wrong={wrong} usual={["refuse the next job (usual)", "all (usual)"]} />}
        </fieldset>
        {now.takesTurns && (
          <fieldset>
            <legend>Some keys</legend>
            <p class="muted">What is empty is as for every key.</p>
            {now.keys.map((one) => (
              <div key={one.id} class="key-rule" role="group" aria-label={`key ${one.key}`}>
                <div class="key-name">
                  <TextField label="Key" path={`${one.id}.key`} wrong={wrong} value={one.key} isRequired set={(key) => set({ keys: now.keys.map((other) => (other.id === one.id ? { ...other, key } : other)) })} />
                  <button type="button" class="danger" aria-label={`remove the rule of ${one.key || "this key"}`} onClick={() => drop(one.id)}>
                    Remove
                  </button>
                </div>
                <RuleFields at={`${one.id}.`} rule={one.rule} set={(rule) => set({ keys: now.keys.map((other) => (other.id === one.id ? { ...other, rule } : other)) })} wrong={wrong} usual={["as for every key", "as for every key"]} />
              </div>
            ))}
            <button type="button" data-add onClick={add}>
              Add a key
            </button>
          </fieldset>
        )}
        <fieldset>
          <legend>Breaker</legend>
          <p class="muted">When so many attempts fail, nothing starts for a while; then one job at a time is tried until one succeeds.</p>
          <div class="cells">
            <TextField label="Failures" isNumber {...breaker("errors")} />
            <TextField label="Of so many attempts" isNumber {...breaker("of")} />
            <TextField label="Within, such as 1m" {...breaker("within")} />
            <TextField label="Pause, such as 30s" {...breaker("pause")} />
          </div>
        </fieldset>
        {problem.value && <ProblemBox problem={problem.value} />}
        {isTried.value && Object.keys(read.wrong).length > 0 && (
          <p class="wrong" role="alert">
            Something in it cannot be read: see beside the fields.
          </p>
        )}
        <div class="row">
          <button type="submit" class="main">
            Review the changes
          </button>
          <button type="button" onClick={close}>
            Leave it as it is
          </button>
        </div>
      </form>
    </Panel>
  );
}

function askLimits(queue: Queue, flow: object, opened: [string, string][], done: () => void) {
  const before = lines(queue.flow);
  const found = changes(before, lines(flow));
  const isMoved = changes(opened, before).length > 0;
  ask({
    title: found.length ? `Change the limits of ${queue.name}?` : "Nothing would change",
    isWide: true,
    text: [isMoved && "They were changed while you wrote; “now” is what stands.", queue.broken && found.length > 0 && "The queue is broken; setting its limits mends it at once.", !found.length && "The limits are already as you wrote them."].filter(Boolean).join(" "),
    fields: found.length > 0 && <BeforeAfter of={found} />,
    yes: found.length ? "Set the limits" : "Go back to the queue",
    send: async () => {
      if (found.length) {
        const stands = await standing(queue);
        if (changes(before, lines(stands.flow)).length) throw new Error("the limits were changed while you looked at this; go back and review them again");
        await put(pathOf(queue), withFlow(stands, flow));
      }
      done();
      document.getElementById("view")?.focus();
      return found.length ? `the limits of ${queue.name} are set` : undefined;
    },
  });
}
