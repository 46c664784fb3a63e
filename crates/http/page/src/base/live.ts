// Reading again and again, and following the feed, for as long as a view is there.

import { signal, useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { asProblem, type JobEvent, type Params, type Problem } from "./api.ts";
import { follow } from "./feed.ts";

export type Live = "connecting" | "live" | "reconnecting" | "offline";
export const live = signal<Live>("connecting");

export type Reading<T> = { value: Signal<T | null>; problem: Signal<Problem | null>; look: () => void };

// Reads at once, every `everyMs` while somebody looks, and whenever `look` is called; never twice at the same time. What was read
// stays while a later reading fails.
export function useReading<T>(read: (signal: AbortSignal) => Promise<T>, everyMs: number, deps: unknown[]): Reading<T> {
  const value = useSignal<T | null>(null);
  const problem = useSignal<Problem | null>(null);
  const again = useRef(() => {});
  useEffect(() => {
    const ending = new AbortController();
    let timer = 0;
    let [isReading, isAsked] = [false, false];
    const look = async () => {
      clearTimeout(timer);
      if (isReading) {
        isAsked = true;
        return;
      }
      isReading = true;
      try {
        const answer = document.hidden && value.peek() !== null ? null : await read(ending.signal);
        if (ending.signal.aborted) return;
        if (answer !== null) value.value = answer;
        problem.value = null;
      } catch (error) {
        if (ending.signal.aborted) return;
        const said = asProblem(error);
        if (said.status !== 401) problem.value = said;
      } finally {
        isReading = false;
        if (!ending.signal.aborted) timer = setTimeout(look, isAsked ? 100 : everyMs);
        isAsked = false;
      }
    };
    again.current = look;
    const shown = () => document.hidden || look();
    document.addEventListener("visibilitychange", shown);
    look();
    return () => {
      ending.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, deps);
  return { value, problem, look: () => again.current() };
}

type Followed = { params?: Params; after?: string; onEvents: (events: JobEvent[]) => void; onSkipped?: (n: number) => void; onOpen?: () => void; isOff?: boolean };

// The feed of everything comes without payloads, four times a second at most, and of each job the newest event: as much as eyes take.
export const LEAN = { payload: "false", every: "250ms" };

// Follows a stream for as long as the view is there.
export function useFeed(path: string, { params, after, onEvents, onSkipped, onOpen, isOff }: Followed, deps: unknown[]) {
  const hear = useRef({ onEvents, onSkipped, onOpen });
  hear.current = { onEvents, onSkipped, onOpen };
  useEffect(() => {
    if (isOff) return;
    const ending = new AbortController();
    live.value = "connecting";
    follow(path, {
      params: path === "v1/feed" ? { ...LEAN, ...params } : params, after, signal: ending.signal,
      onState: (state) => (live.value = state),
      onOpen: () => hear.current.onOpen?.(),
      onEvents: (events) => hear.current.onEvents(events),
      onSkipped: (n) => hear.current.onSkipped?.(n),
    });
    return () => ending.abort();
  }, [path, ...deps]);
}

// The same act, at most once in a while.
export function useSoon(act: () => void, ms: number) {
  const timer = useRef(0);
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    if (timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = 0;
      latest.current();
    }, ms);
  };
}
