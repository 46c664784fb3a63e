// The flow that a job belongs to: which job waits for which, and how far each is.

import { useMemo } from "preact/hooks";
import { get, type Graph, type Job } from "../base/api.ts";
import { useReading } from "../base/live.ts";
import { href } from "../base/route.ts";
import { isTerminal, word } from "../base/status.ts";
import { many, plural } from "../base/text.ts";
import { Panel, Pill } from "./bits.tsx";
import { layout, type Box } from "./graph.ts";

const LIVE_MS = 3000;
const [WIDE, HIGH, GAP_X, GAP_Y] = [176, 46, 48, 12];
const ORDER = ["failed", "timed_out", "cancelled", "running", "retry", "waiting", "pending", "assigned", "orphaned", "skipped", "completed"];

const x = (box: Box) => box.rank * (WIDE + GAP_X);
const y = (box: Box, most: number, inLayer: number) => box.place * (HIGH + GAP_Y) + ((most - inLayer) * (HIGH + GAP_Y)) / 2;

// Of many, the one that wants to be looked at.
const worst = (box: Box) => [...box.tally].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b))[0][0];

export function FlowPanel({ job }: { job: Job }) {
  const isOver = isTerminal(job.status);
  const read = useReading((signal) => get<Graph>(`v1/jobs/${job.id}/graph`, {}, signal), isOver ? 30_000 : LIVE_MS, [job.id, job.version]);
  const graph = read.value.value;
  const drawn = useMemo(() => {
    if (!graph) return null;
    const linked = new Set(graph.edges.flatMap((edge) => [edge.from, edge.to]));
    // The flow itself waits for all of them: it is the frame, no box in it.
    const nodes = graph.nodes.filter((node) => linked.has(node.id) || (node.id !== job.id && node.id !== job.parent_id));
    return { ...layout({ nodes, edges: graph.edges }), nodes };
  }, [graph]);
  if (!graph || !drawn || graph.edges.length === 0) return null;
  const inLayer = (rank: number) => drawn.boxes.filter((box) => box.rank === rank).length;
  const place = new Map(drawn.boxes.map((box) => [box.key, { x: x(box), y: y(box, drawn.most, inLayer(box.rank)) }]));
  const size = { width: drawn.ranks * (WIDE + GAP_X) - GAP_X, height: drawn.most * (HIGH + GAP_Y) - GAP_Y };
  const done = drawn.nodes.filter((node) => isTerminal(node.status)).length;
  return (
    <Panel title="Flow" note={`${many(done)} of ${plural(drawn.nodes.length, "job")} ended${graph.truncated ? ", there are more" : ""}${drawn.isFolded ? "; one box per kind and layer" : ""}`}>
      <div class="flow" tabIndex={0} role="group" aria-label="which job waits for which">
        <div class="flow-room" style={{ width: `${size.width}px`, height: `${size.height}px` }}>
          <svg width={size.width} height={size.height} aria-hidden="true">
            {drawn.links.map((link) => {
              const [a, b] = [place.get(link.from)!, place.get(link.to)!];
              const [fromX, fromY, toX, toY] = [a.x + WIDE, a.y + HIGH / 2, b.x, b.y + HIGH / 2];
              return <path key={`${link.from} ${link.to} ${link.on}`} data-on={link.on} d={`M${fromX} ${fromY}C${fromX + GAP_X / 2} ${fromY} ${toX - GAP_X / 2} ${toY} ${toX} ${toY}`} />;
            })}
          </svg>
          {drawn.boxes.map((box) => {
            const at = place.get(box.key)!;
            const status = worst(box);
            const one = box.ids.length === 1;
            const waits = drawn.links.filter((link) => link.to === box.key && link.on !== "success");
            return (
              <a
                key={box.key} class="flow-box" data-status={status === "skipped" ? "cancelled" : status} aria-current={box.ids.includes(job.id) ? "true" : undefined}
                style={{ left: `${at.x}px`, top: `${at.y}px`, width: `${WIDE}px`, height: `${HIGH}px` }}
                href={one ? href("jobs", box.ids[0]) : href("jobs", "", { kind: box.kind, parent_id: job.kind === "windlass.flow" ? job.id : (job.parent_id ?? undefined) })}
              >
                <b class="clip">{one ? box.name : `${box.kind} × ${many(box.ids.length)}`}</b>
                <span class="clip">
                  {one ? <Pill status={status === "skipped" ? "cancelled" : status} text={word(status)} /> : box.tally.map(([of, n]) => `${many(n)} ${word(of)}`).join(", ")}
                  {waits.length > 0 && <span class="muted">{` on ${[...new Set(waits.map((link) => link.on))].join(", ")}`}</span>}
                </span>
              </a>
            );
          })}
        </div>
      </div>
    </Panel>
  );
}
