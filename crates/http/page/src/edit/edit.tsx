// What is loaded when it is first needed: editors, and the limits of a queue.

export { LimitEditor } from "./limit-editor.tsx";
export { QueueLimits } from "./queue-limits.tsx";
export { ScheduleEditor } from "./schedule-editor.tsx";
