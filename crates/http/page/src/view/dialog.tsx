// A question before an act. A refusal stays in the dialog, which stays open.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem, type Problem } from "../base/api.ts";
import { ProblemBox, tell } from "../base/parts.tsx";

export type Fields = Record<string, HTMLInputElement & HTMLTextAreaElement & HTMLSelectElement>;

export type Asked = {
  title: string;
  text?: ComponentChildren;
  fields?: ComponentChildren;
  yes: string;
  tone?: string;
  isWide?: boolean;
  // Resolves to what is said in the corner, if anything.
  send: (form: Fields) => Promise<string | void>;
};

const asked = signal<Asked | null>(null);

export const ask = (question: Asked) => (asked.value = question);
export const isAsking = () => asked.value !== null;
export const stopAsking = () => (asked.value = null);

export function Dialog() {
  return asked.value && <Question key={asked.value.title} {...asked.value} />;
}

function Question({ title, text, fields, yes, tone = "", isWide, send }: Asked) {
  const dialog = useRef<HTMLDialogElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isSending, setSending] = useState(false);
  // Before the next key: an Esc that comes with the paint is meant for the question.
  useLayoutEffect(() => {
    const held = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    (form.current!.querySelector<HTMLElement>("input, textarea, select") ?? form.current!.querySelector<HTMLElement>("button[type=submit]"))!.focus();
    return () => held?.isConnected && held.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    try {
      const said = await send(form.current!.elements as unknown as Fields);
      stopAsking();
      if (said) tell(said);
    } catch (error) {
      const refusal = asProblem(error);
      if (refusal.status === 401) stopAsking();
      else setProblem(refusal);
      setSending(false);
    }
  };
  return (
    <dialog ref={dialog} aria-label={title} class={isWide ? "wide-dialog" : ""} onClose={stopAsking}>
      <form ref={form} method="dialog" onSubmit={submit}>
        <h2>{title}</h2>
        {text && <p>{text}</p>}
        {fields}
        {problem && <ProblemBox problem={problem} />}
        <div class="row">
          <button type="button" onClick={stopAsking}>
            Not now
          </button>
          <button type="submit" class={`main ${tone}`} disabled={isSending}>
            {yes}
          </button>
        </div>
      </form>
    </dialog>
  );
}

export const Field = ({ label, children }: { label: ComponentChildren; children: ComponentChildren }) => (
  <label class="field">
    <span>{label}</span>
    {children}
  </label>
);

export const Tick = ({ name, label }: { name: string; label: string }) => (
  <label class="tick">
    <input type="checkbox" name={name} />
    {label}
  </label>
);

export const Reason = () => (
  <Field label="Reason, for the record">
    <input name="reason" maxLength={1000} autocomplete="off" />
  </Field>
);

export const reason = (form: Fields) => (form.reason.value.trim() ? { reason: form.reason.value.trim() } : {});
