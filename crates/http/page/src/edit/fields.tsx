// Fields of a form that says beside each what is wrong with it, and what a change would change.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Change, Wrong } from "./read.ts";

type Given = { label: string; path: string; wrong: Wrong; note?: ComponentChildren };

const Cell = ({ label, path, wrong, note, id, children }: Given & { id: string; children: ComponentChildren }) => (
  <div class="cell">
    <label class="field">
      <span>{label}</span>
      {children}
    </label>
    {wrong[path] ? <p class="wrong" id={id}>{wrong[path]}</p> : note && <p class="muted" id={id}>{note}</p>}
  </div>
);

type Text = Given & { value: string; set: (value: string) => void; isNumber?: boolean; placeholder?: string; isRequired?: boolean; list?: string; isLocked?: boolean };

export function TextField({ value, set, isNumber, placeholder, isRequired, list, isLocked, ...given }: Text) {
  const id = useId();
  const isWrong = Boolean(given.wrong[given.path]);
  return (
    <Cell {...given} id={id}>
      <input
        name={given.path} value={value} autocomplete="off" spellcheck={false} inputMode={isNumber ? "numeric" : undefined} placeholder={placeholder} list={list} readOnly={isLocked}
        aria-required={isRequired} aria-invalid={isWrong} aria-describedby={isWrong || given.note ? id : undefined} onInput={(event) => set(event.currentTarget.value)}
      />
    </Cell>
  );
}

export function AreaField({ value, set, rows, ...given }: Given & { value: string; set: (value: string) => void; rows: number }) {
  const id = useId();
  const isWrong = Boolean(given.wrong[given.path]);
  return (
    <Cell {...given} id={id}>
      <textarea name={given.path} value={value} rows={rows} spellcheck={false} class="mono" aria-invalid={isWrong} aria-describedby={isWrong || given.note ? id : undefined} onInput={(event) => set(event.currentTarget.value)} />
    </Cell>
  );
}

export function SelectField({ value, set, of, ...given }: Given & { value: string; set: (value: string) => void; of: [string, string][] }) {
  const id = useId();
  const isWrong = Boolean(given.wrong[given.path]);
  return (
    <Cell {...given} id={id}>
      <select name={given.path} value={value} aria-invalid={isWrong} aria-describedby={isWrong || given.note ? id : undefined} onChange={(event) => set(event.currentTarget.value)}>
        {of.map(([word, said]) => (
          <option value={word}>{said}</option>
        ))}
      </select>
    </Cell>
  );
}

// The first field that something is wrong with gets the keys.
export const focusWrong = (form: HTMLElement) => requestAnimationFrame(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());

// What a change would change: before, and after.
export const BeforeAfter = ({ of }: { of: Change[] }) => (
  <table class="before-after">
    <caption class="hidden">what changes</caption>
    <thead>
      <tr>
        <th scope="col">What</th>
        <th scope="col">Now</th>
        <th scope="col">Then</th>
      </tr>
    </thead>
    <tbody class="diff">
      {of.map(({ name, before, after }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>{before === undefined ? <span class="muted">–</span> : <del>{before}</del>}</td>
          <td>{after === undefined ? <span class="muted">–</span> : <ins>{after}</ins>}</td>
        </tr>
      ))}
    </tbody>
  </table>
);
