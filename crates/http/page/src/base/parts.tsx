// What every view is made of: icons, times that tick, refusals, empty places, notes in the corner.

import { signal } from "@preact/signals";
import { options, type ComponentChildren, type VNode } from "preact";
import { now, type Problem } from "./api.ts";
import { away, full, hour, precise, stamp, day } from "./clock.ts";
import { plain } from "./text.ts";
import "./page.css";
import "./phone.css";

// Every text and every title goes through here, so no view can forget it.
const before = options.vnode;
options.vnode = (vnode: VNode) => {
  const made = vnode as unknown as { type: unknown; props: unknown };
  if (made.type === null) {
    if (typeof made.props === "string") made.props = plain(made.props);
  } else if (typeof made.type === "string") {
    const props = made.props as Record<string, unknown>;
    if (typeof props.children === "string") props.children = plain(props.children);
    for (const name of ["title", "aria-label"]) if (typeof props[name] === "string") props[name] = plain(props[name]);
  }
  before?.(vnode);
};

// A picture of the sprite in index.html. It says nothing that the text beside it does not say.
export const Icon = ({ name }: { name: string }) => (
  <svg class="icon" aria-hidden="true">
    <use href={`#i-${name}`} />
  </svg>
);

// Once a second, while somebody looks.
export const tick = signal(now());
setInterval(() => document.hidden || (tick.value = now()), 1000);

const exact = (iso: string) => `${full(iso)}\n${iso}`;

// A time that ticks. The exact time is its title.
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return null;
  return (
    <time dateTime={at} title={exact(at)}>
      {away(Date.parse(at), tick.value)}
    </time>
  );
}

// A point in time: 08:37, with the day when it is not today.
export const Stamp = ({ at, seconds = false }: { at: string; seconds?: boolean }) => (
  <time dateTime={at} title={exact(at)}>
    {stamp(at, now(), seconds)}
  </time>
);

// The time of the day with milliseconds, for logs; with its day when that is another than the one before.
export const Clock = ({ at, after }: { at: string; after?: string }) => (
  <time dateTime={at} title={exact(at)}>
    {after !== undefined && (!after || day(new Date(at)) !== day(new Date(after))) && <span class="day">{day(new Date(at))} </span>}
    {precise(at)}
  </time>
);

export { hour };

// Text in which times stand as RFC 3339, with those times ticking.
export const WithTimes = ({ text }: { text: string }) => <>{text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((part, n) => (n % 2 ? <Ago at={part} /> : part))}</>;

// What a refusal says: its title, its detail, its code with the page about it.
export const ProblemBox = ({ problem, again }: { problem: Problem; again?: () => void }) => (
  <div class="problem" role="alert">
    <strong>{problem.title}</strong>
    {problem.detail && <p>{problem.detail}</p>}
    <p class="muted">
      {problem.code && (
        <a href={`errors/${encodeURIComponent(problem.code)}`} class="mono">
          {problem.code}
        </a>
      )}
      {problem.requestId && (
        <>
          {" "}
          · request <span class="mono">{problem.requestId}</span>
        </>
      )}
      {again && (
        <>
          {" "}
          <button type="button" class="quiet" onClick={again}>
            try again
          </button>
        </>
      )}
    </p>
  </div>
);

// What stands where nothing is, with what to do about it.
export const Empty = ({ title, text, command, isPage }: { title: string; text?: ComponentChildren; command?: string; isPage?: boolean }) => (
  <div class="empty">
    {isPage ? <h1>{title}</h1> : <strong>{title}</strong>}
    {text && <p>{text}</p>}
    {command && <pre class="command">{command}</pre>}
  </div>
);

type Act = { word: string; run: () => void };
type Note = { id: number; text: string; tone: string; act?: Act; isPinned?: boolean };
const notes = signal<Note[]>([]);
let noted = 0;

// Says in a corner what became of an action. The newest three stay for a while.
export function tell(text: string, tone = "good") {
  const id = (noted += 1);
  const pinned = notes.value.filter((note) => note.isPinned);
  notes.value = [...pinned, ...[...notes.value.filter((note) => !note.isPinned), { id, text, tone }].slice(-3)];
  setTimeout(() => (notes.value = notes.value.filter((note) => note.id !== id)), 6000);
}

// A note that stays until it is emptied, with what can be done meanwhile. The answer says something else in its place.
export function pin() {
  const id = (noted += 1);
  return (text: string, act?: Act) => {
    const others = notes.value.filter((note) => note.id !== id);
    notes.value = text ? [...others, { id, text, tone: "", act, isPinned: true }] : others;
  };
}

export const Notes = () => (
  <div id="told" role="status" aria-live="polite">
    {notes.value.map((note) => (
      <p key={note.id} class={`note ${note.tone}`}>
        {note.text}
        {note.act && (
          <button type="button" onClick={note.act.run}>
            {note.act.word}
          </button>
        )}
      </p>
    ))}
  </div>
);

// Over plain HTTP from elsewhere a page has no clipboard; then the text is selected in a field that is gone at once.
async function toClipboard(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export const CopyButton = ({ text, what }: { text: string; what: string }) => (
  <button type="button" class="quiet copy" title={`copy ${what}`} aria-label={`copy ${what}`} onClick={() => toClipboard(text).then(() => tell(`${what} copied`))}>
    <Icon name="copy" />
  </button>
);
