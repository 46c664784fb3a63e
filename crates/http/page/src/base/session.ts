// Who is here, and what they may. Without an answer yet, nothing is offered.

import { signal } from "@preact/signals";
import { get, type Problem, type Session } from "./api.ts";

export const session = signal<Session | null>(null);
// Set while a key is asked for.
export const stranger = signal<Problem | null>(null);

// How many problems are open, for the title.
export const alarms = signal(0);

export type Role = "producer" | "worker" | "approver" | "operator" | "admin";

// Whether the key has one of these roles; an admin may everything.
export const may = (...roles: Role[]) => session.value !== null && (session.value.roles.includes("admin") || roles.some((role) => session.value!.roles.includes(role)));

export async function readSession() {
  session.value = await get<Session>("v1/session").catch(() => null);
}
