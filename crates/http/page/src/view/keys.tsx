// The keys of the keyboard: / filters, Ctrl K finds, g and a letter goes, ? tells, Esc goes back.

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { last, route } from "../base/route.ts";
import { isAsking } from "./dialog.tsx";
import { isPaletteOpen, PAGES } from "./palette.tsx";

const isHelpOpen = signal(false);
const GO_MS = 5000;
let wentAt = 0;

// A dialog that has just closed may still have the keys until the next frame.
const isTyping = (event: KeyboardEvent) => Boolean((event.target as HTMLElement).closest?.("input:not([type=checkbox]):not([type=range]), textarea, select, dialog[open]"));

function pressed(event: KeyboardEvent) {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
    event.preventDefault();
    if (!isAsking()) isPaletteOpen.value = !isPaletteOpen.value;
    return;
  }
  const box = document.getElementById("filter");
  if (event.key === "Escape" && event.target === box) return void box!.blur();
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || isAsking() || isPaletteOpen.value) return;
  if (event.key === "Escape" && !isHelpOpen.value) {
    const { page, id } = route.value;
    if (id) location.hash = page === "jobs" ? last.list : `#/${page}`;
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    if (box) box.focus();
    else {
      last.isFilterWanted = true;
      location.hash = "#/jobs";
    }
  } else if (event.key === "?") isHelpOpen.value = true;
  else if (event.key === "g") wentAt = Date.now();
  else if (Date.now() - wentAt < GO_MS) {
    wentAt = 0;
    const page = PAGES.find(([, , key]) => key === event.key);
    if (!page) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    location.hash = `#/${page[0]}`;
  }
}

export function startKeys() {
  addEventListener("keydown", pressed, { capture: false });
}

const HELP: [string, string][] = [
  ["Ctrl K", "find a job, queue, kind or act"], ["/", "filter jobs"], ["Esc", "back to the list"], ["↑ ↓ Home End", "through rows"], ["Enter", "open the row"], ["Space", "select the row"],
  ["← → + −", "through a chart, closer, further"], ["j k a d", "through approvals, approve, deny"], ["?", "this"],
];

export function Help() {
  return isHelpOpen.value ? <OpenHelp /> : null;
}

function OpenHelp() {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const held = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => held?.isConnected && held.focus();
  }, []);
  const close = () => (isHelpOpen.value = false);
  return (
    <dialog ref={dialog} aria-label="keys" onClose={close}>
      <h2>Keys</h2>
      <dl class="keys">
        {HELP.map(([key, text]) => (
          <div>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
        {PAGES.map(([, name, key]) => (
          <div>
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
      </dl>
      <div class="row">
        <button type="button" class="main" onClick={close}>
          Good
        </button>
      </div>
    </dialog>
  );
}
