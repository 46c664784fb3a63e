// Parts of the page that are loaded when they are first needed, so that the first view waits for less.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "./api.ts";
import { ProblemBox } from "./parts.tsx";

// An upgraded server has no files of the build that this page is of.
const missing = () => new Problem({ title: "this part of the page could not be loaded", detail: "the server does not answer, or it was upgraded meanwhile; the page is loaded anew when you try again" });

// A view that is loaded when it is first shown.
export function later<P extends object>(load: () => Promise<ComponentType<P>>) {
  const found = signal<{ View: ComponentType<P> } | null>(null);
  const problem = signal<Problem | null>(null);
  return function Later(props: P) {
    useEffect(() => {
      if (found.peek() === null) load().then((View) => (found.value = { View }), () => (problem.value = missing()));
    }, []);
    if (found.value) return <found.value.View {...props} />;
    return problem.value && <ProblemBox problem={problem.value} again={() => location.reload()} />;
  };
}
