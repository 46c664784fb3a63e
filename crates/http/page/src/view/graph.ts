// A graph of jobs, laid out in layers. Pure.

import type { Graph } from "../base/api.ts";

export type Box = { key: string; rank: number; place: number; kind: string; name: string; ids: string[]; tally: [string, number][] };
export type Link = { from: string; to: string; on: string };
export type Layout = { boxes: Box[]; links: Link[]; ranks: number; most: number; isFolded: boolean };

// Above so many, jobs of one kind that stand in one layer are one box.
const FOLD_ABOVE = 40;
const PASSES = 4;

// How far each job is from those that wait for nobody: the longest way.
export function ranksOf({ nodes, edges }: Pick<Graph, "nodes" | "edges">): Map<string, number> {
  const rank = new Map(nodes.map((node) => [node.id, 0]));
  const after = new Map<string, string[]>();
  const left = new Map(nodes.map((node) => [node.id, 0]));
  for (const { from, to } of edges) {
    if (!rank.has(from) || !rank.has(to)) continue;
    const found = after.get(from);
    if (found) found.push(to);
    else after.set(from, [to]);
    left.set(to, left.get(to)! + 1);
  }
  const open = nodes.map((node) => node.id).filter((id) => left.get(id) === 0);
  for (const id of open) {
    for (const to of after.get(id) ?? []) {
      rank.set(to, Math.max(rank.get(to)!, rank.get(id)! + 1));
      left.set(to, left.get(to)! - 1);
      if (left.get(to) === 0) open.push(to);
    }
  }
  return rank;
}

const ended = (node: Graph["nodes"][number]) => (node.error_code === "skipped" ? "skipped" : node.status);

// Boxes in layers, each near the middle of what leads to it.
export function layout(graph: Pick<Graph, "nodes" | "edges">): Layout {
  const rank = ranksOf(graph);
  const isFolded = graph.nodes.length > FOLD_ABOVE;
  const boxes = new Map<string, Box>();
  const boxOf = new Map<string, string>();
  for (const node of graph.nodes) {
    const key = isFolded ? `${rank.get(node.id)} ${node.kind}` : node.id;
    const box = boxes.get(key) ?? { key, rank: rank.get(node.id)!, place: 0, kind: node.kind, name: node.name ?? node.kind, ids: [], tally: [] };
    boxes.set(key, box);
    boxOf.set(node.id, key);
    box.ids.push(node.id);
    const status = ended(node);
    const found = box.tally.find(([of]) => of === status);
    if (found) found[1] += 1;
    else box.tally.push([status, 1]);
  }
  const links = new Map<string, Link>();
  for (const { from, to, on } of graph.edges) {
    const [a, b] = [boxOf.get(from), boxOf.get(to)];
    if (a && b && a !== b) links.set(`${a} ${b} ${on}`, { from: a, to: b, on });
  }
  const layers: Box[][] = [];
  for (const box of boxes.values()) (layers[box.rank] ??= []).push(box);
  layers.forEach((layer) => layer.forEach((box, n) => (box.place = n)));
  const before = (box: Box) => [...links.values()].filter((link) => link.to === box.key).map((link) => boxes.get(link.from)!);
  const led = new Map([...boxes.values()].map((box) => [box.key, before(box)]));
  for (let pass = 0; pass < PASSES; pass += 1) {
    for (const layer of layers.slice(1)) {
      const middle = new Map(layer.map((box) => {
        const before = led.get(box.key)!.map((one) => one.place);
        return [box.key, before.length ? before.reduce((sum, n) => sum + n, 0) / before.length : box.place];
      }));
      layer.sort((a, b) => middle.get(a.key)! - middle.get(b.key)! || a.place - b.place);
      layer.forEach((box, n) => (box.place = n));
    }
  }
  return { boxes: [...boxes.values()], links: [...links.values()], ranks: layers.length, most: Math.max(0, ...layers.map((layer) => layer.length)), isFolded };
}
