// The lines that a job's handler wrote. They are no events, so they are asked for while the job runs.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get, type LogLine } from "../base/api.ts";
import { Clock } from "../base/parts.tsx";
import { many, plural } from "../base/text.ts";
import { Panel } from "./bits.tsx";

const PAGE = 200;
const MOST = 2000;

// `stir` changes whenever there may be more.
export function Log({ id, stir }: { id: string; stir: unknown }) {
  const lines = useSignal<LogLine[]>([]);
  const isMore = useSignal(false);
  const find = useSignal("");
  const only = useSignal("");
  const box = useRef<HTMLDivElement>(null);
  const isReading = useRef(false);
  const read = async (most = MOST) => {
    if (isReading.current) return;
    isReading.current = true;
    try {
      for (;;) {
        const after = Number(lines.peek().at(-1)?.n ?? 0);
        const answer = await get<{ lines: LogLine[] }>(`v1/jobs/${id}/logs`, { after, limit: PAGE });
        if (answer.lines.length) lines.value = [...lines.peek(), ...answer.lines];
        isMore.value = answer.lines.length === PAGE;
        if (!isMore.peek() || lines.peek().length >= most) break;
      }
    } catch {
      // The next stir asks again.
    } finally {
      isReading.current = false;
    }
  };
  useEffect(() => void read(), [id, stir]);
  const isAtEnd = !box.current || box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight < 8;
  useLayoutEffect(() => {
    if (box.current && isAtEnd) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.value.length]);
  if (lines.value.length === 0) return null;
  const attempts = [...new Set(lines.value.map((line) => String(line.attempt)))];
  const wanted = find.value.toLowerCase();
  const shown = lines.value.filter((line) => (!only.value || String(line.attempt) === only.value) && (!wanted || line.line.toLowerCase().includes(wanted)));
  return (
    <Panel title="Log" note={wanted || only.value ? `${many(shown.length)} of ${many(lines.value.length)} lines` : plural(lines.value.length, "line")}>
      <div class="row log-tools">
        <input type="search" aria-label="find in the log" placeholder="find" value={find.value} onInput={(event) => (find.value = event.currentTarget.value)} />
        {attempts.length > 1 && (
          <select aria-label="attempt" value={only.value} onChange={(event) => (only.value = event.currentTarget.value)}>
            <option value="">every attempt</option>
            {attempts.map((attempt) => (
              <option value={attempt}>{`attempt ${attempt}`}</option>
            ))}
          </select>
        )}
        <a class="button" href={`v1/jobs/${id}/logs?limit=1000`} download={`${id}.log.json`}>
          Download
        </a>
      </div>
      <div ref={box} class="lines mono" tabIndex={0} role="log" aria-label="log lines">
        {shown.map((line, n) => (
          <p key={Number(line.n)}>
            <Clock at={line.at} after={n === 0 ? "" : shown[n - 1].at} />
            <span class="muted" title="attempt">{`#${line.attempt}`}</span>
            <span>{line.line}</span>
          </p>
        ))}
      </div>
      {isMore.value && (
        <div class="pager">
          <button type="button" onClick={() => read(lines.peek().length + MOST)}>
            more lines
          </button>
        </div>
      )}
    </Panel>
  );
}
