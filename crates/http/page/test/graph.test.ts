// Graphs of jobs in layers.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Graph } from "../src/base/api.ts";
import { layout, ranksOf } from "../src/view/graph.ts";

const node = (id: string, kind = id, status = "completed", error_code?: string) => ({ id, name: id, kind, queue: "q", status, error_code }) as Graph["nodes"][number];
const edge = (from: string, to: string, on = "success") => ({ from, to, on }) as Graph["edges"][number];

test("a job stands one layer behind the last that it waits for", () => {
  const graph = { nodes: ["d", "c", "b", "a"].map((id) => node(id)), edges: [edge("a", "b"), edge("b", "c"), edge("a", "c"), edge("c", "d", "failure"), edge("a", "elsewhere")] };
  assert.deepEqual(Object.fromEntries(ranksOf(graph)), { a: 0, b: 1, c: 2, d: 3 });
  const found = layout(graph);
  assert.deepEqual([found.ranks, found.most, found.boxes.length, found.links.length], [4, 1, 4, 4]);
  assert.equal(found.links.find((link) => link.to === "d")!.on, "failure");
});

test("what leads to neighbours stands beside them, so that lines do not cross", () => {
  const graph = { nodes: [node("a"), node("b"), node("x"), node("y")], edges: [edge("a", "y"), edge("b", "x")] };
  const place = new Map(layout(graph).boxes.map((box) => [box.key, box.place]));
  assert.equal(place.get("a")! < place.get("b")!, place.get("y")! < place.get("x")!);
});

test("ten thousand jobs are a few boxes with their counts", () => {
  const many = Array.from({ length: 10_000 }, (_, n) => node(`m${n}`, "mail", n < 3 ? "failed" : "completed"));
  const graph = { nodes: [node("first"), ...many, node("last", "last", "cancelled", "skipped")], edges: many.flatMap(({ id }) => [edge("first", id), edge(id, "last")]) };
  const found = layout(graph);
  assert.deepEqual([found.isFolded, found.boxes.length, found.links.length], [true, 3, 2]);
  const mail = found.boxes.find((box) => box.kind === "mail")!;
  assert.deepEqual(mail.tally, [["failed", 3], ["completed", 9997]]);
  assert.deepEqual(found.boxes.find((box) => box.kind === "last")!.tally, [["skipped", 1]]);
});
