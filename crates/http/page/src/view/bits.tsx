// Small things that several views show.

import type { ComponentChildren } from "preact";
import type { Problem } from "../base/api.ts";
import { Ago, Icon, ProblemBox } from "../base/parts.tsx";
import { href } from "../base/route.ts";
import { word } from "../base/status.ts";
import { short } from "../base/text.ts";

// Shape and word beside the colour: not everybody tells the colours apart.
export const Pill = ({ status, text = word(status) }: { status: string; text?: string }) => (
  <span class="status" data-status={status}>
    <Icon name={status} />
    <span>{text}</span>
  </span>
);

export const JobLink = ({ id, text }: { id: string; text?: string }) => (
  <a class={text ? "" : "mono"} href={href("jobs", id)} title={id}>
    {text ?? short(id)}
  </a>
);

export const Bar = ({ progress }: { progress: unknown }) => {
  const value = Math.max(0, Math.min(100, Number(progress)));
  return <progress max={100} value={value} aria-label="progress" />;
};

export const Panel = ({ title, note, children, class: name = "" }: { title: string; note?: ComponentChildren; children: ComponentChildren; class?: string }) => (
  <section class={`panel ${name}`} aria-label={title}>
    <header>
      <h2>{title}</h2>
      {note && <span class="muted">{note}</span>}
    </header>
    {children}
  </section>
);

export const Page = ({ title, note, children, acts }: { title: string; note?: ComponentChildren; acts?: ComponentChildren; children: ComponentChildren }) => (
  <>
    <div class="page-head">
      <h1>{title}</h1>
      {note && <p class="muted">{note}</p>}
      {acts && <div class="row acts">{acts}</div>}
    </div>
    {children}
  </>
);

// What could not be read, above what was.
export const Trouble = ({ problem, again }: { problem: Problem | null; again: () => void }) => problem && <ProblemBox problem={problem} again={again} />;

export type Column<T> = { name: string; isNumber?: boolean; isWide?: boolean; cell: (row: T) => ComponentChildren };

// A table whose cells carry the name of their column: on narrow screens each row is a card.
export function Table<T>({ caption, columns, rows, keyOf, rowClass }: { caption: string; columns: Column<T>[]; rows: T[]; keyOf: (row: T) => string; rowClass?: (row: T) => string }) {
  return (
    <div class="wide">
      <table class="plain-table">
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={column.isNumber ? "num" : ""}>
                {column.name || <span class="hidden">acts</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={rowClass?.(row)}>
              {columns.map((column) => (
                <td class={`${column.isNumber ? "num" : ""} ${column.isWide ? "span-all" : ""}`} data-name={column.name}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Names and values.
export const Facts = ({ rows }: { rows: [string, ComponentChildren][] }) => (
  <dl>
    {rows
      .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== "")
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
);

export const Tabs = ({ of, at, label }: { of: [string, ComponentChildren, string][]; at: string; label: string }) => (
  <nav class="tabs" aria-label={label}>
    {of.map(([name, text, to]) => (
      <a key={name} href={to} aria-current={name === at ? "page" : undefined} data-tab={name}>
        {text}
      </a>
    ))}
  </nav>
);

export const Flag = ({ paused }: { paused: { at: string; by: string } | null | undefined }) =>
  paused ? (
    <span class="flag" title={`by ${paused.by}`}>
      <Icon name="waiting" />
      paused <Ago at={paused.at} />
    </span>
  ) : null;
