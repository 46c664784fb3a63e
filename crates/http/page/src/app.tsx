// The frame: the rail, the bar, which view the address names, who is signed in.

import { useSignal } from "@preact/signals";
import { render, type ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { get, onStranger, remove, type Now, type Session } from "./base/api.ts";
import { zone } from "./base/clock.ts";
import { later } from "./base/later.tsx";
import { live } from "./base/live.ts";
import { Empty, hour, Icon, Notes, tick } from "./base/parts.tsx";
import { startPrefs } from "./base/prefs.ts";
import { change, params, route, startRouting } from "./base/route.ts";
import { alarms, readSession, session, stranger } from "./base/session.ts";
import { many } from "./base/text.ts";
import { Activity } from "./view/activity.tsx";
import { Approvals } from "./view/approvals.tsx";
import { Dialog, stopAsking } from "./view/dialog.tsx";
import { ID } from "./view/filter.ts";
import { OneJob } from "./view/job.tsx";
import { Jobs } from "./view/jobs.tsx";
import { Help, startKeys } from "./view/keys.tsx";
import { Kinds, OneKind } from "./view/kinds.tsx";
import { Overview } from "./view/overview.tsx";
import { isPaletteOpen, PAGES, Palette } from "./view/palette.tsx";
import { OneProblem, Problems } from "./view/problems.tsx";
import { OneQueue, Queues } from "./view/queues.tsx";
import { OneSchedule, Schedules } from "./view/schedules.tsx";
import { SignIn } from "./view/sign.tsx";
import { RANGES } from "./view/stats.ts";
import { Tail } from "./view/tail.tsx";
import { OneWorker, Workers } from "./view/workers.tsx";

// Pages that few begin with.
const Compare = later(() => import("./view/compare.tsx").then((view) => view.Compare));
const Settings = later(() => import("./view/settings.tsx").then((view) => view.Settings));

const COUNTED_MS = 5000;
// Pages with a range: of all, or of one.
const RANGED: Record<string, "all" | "one" | "both"> = { "": "all", queues: "one", kinds: "both" };

const none = <Empty title="There is no such page" text="The pages are named in the rail." />;

function viewOf(page: string, id: string): ComponentChildren {
  switch (page) {
    case "":
      return <Overview />;
    case "jobs":
      return id ? ID.test(id) ? <OneJob key={id} id={id.toLowerCase()} /> : none : <Jobs />;
    case "problems":
      return id ? <OneProblem key={id} id={id} /> : <Problems />;
    case "approvals":
      return <Approvals id={id} />;
    case "queues":
      return id ? <OneQueue key={id} id={id} /> : <Queues />;
    case "kinds":
      return id ? <OneKind key={id} id={id} /> : <Kinds />;
    case "workers":
      return id ? <OneWorker key={id} id={id} /> : <Workers />;
    case "schedules":
      return id ? <OneSchedule key={id} id={id} /> : <Schedules />;
    case "tail":
      return <Tail />;
    case "compare":
      return <Compare />;
    case "activity":
      return <Activity />;
    case "settings":
      return <Settings />;
    default:
      return none;
  }
}

// A cell of the rail: a line stands before some. Pages without an icon are reached from others.
const BEFORE = ["queues", "tail"];
const ICONS: Record<string, string> = { "": "overview", jobs: "all", problems: "failed", approvals: "waiting", queues: "queue", kinds: "kind", workers: "worker", schedules: "timed_out", tail: "tail", activity: "activity", settings: "settings" };

function Rail() {
  const counted = useSignal<Now | null>(null);
  const count = async () => {
    if (document.hidden || stranger.peek()) return;
    const now = await get<Now>("v1/now").catch(() => null);
    if (now) counted.value = now;
  };
  useEffect(() => {
    count();
    const timer = setInterval(count, COUNTED_MS);
    const soon = () => void count();
    addEventListener("approvals", soon);
    document.addEventListener("visibilitychange", soon);
    return () => {
      clearInterval(timer);
      removeEventListener("approvals", soon);
      document.removeEventListener("visibilitychange", soon);
    };
  }, [session.value?.name]);
  const asked = Number(counted.value?.approvals.count ?? 0);
  const open = Number(counted.value?.problems.count ?? 0);
  const { page } = route.value;
  useEffect(() => void (alarms.value = open), [open]);
  return (
    <nav class="rail" aria-label="pages">
      {PAGES.filter(([to]) => to in ICONS).map(([to, name]) => (
        <a key={to} href={`#/${to}`} data-page={to || "overview"} class={BEFORE.includes(to) ? "apart" : ""} aria-current={page === to ? "page" : undefined}>
          <Icon name={ICONS[to]} />
          <span>{name}</span>
          {to === "approvals" && asked > 0 && (
            <span class="badge" id="asked" title={`${asked} waiting for somebody`}>
              {asked >= 100 ? "99+" : asked}
            </span>
          )}
          {to === "problems" && open > 0 && (
            <span class="badge bad" title={`${open} open`}>
              {open >= 100 ? "99+" : many(open)}
            </span>
          )}
        </a>
      ))}
    </nav>
  );
}

function Top({ signedOut }: { signedOut: () => void }) {
  const { page, id } = route.value;
  const from = params.value.get("from") ?? "-1h";
  const isRanged = RANGED[page] === "both" || RANGED[page] === (id ? "one" : "all");
  const who = session.value;
  const isOwn = !RANGES.some(([value]) => `-${value}` === from);
  return (
    <header class="bar">
      <a class="brand" href="#/" aria-label="Windlass">
        <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
          <circle cx="12" cy="12" r="9" fill="none" stroke="currentColor" stroke-width="2" />
          <circle cx="12" cy="12" r="2.6" fill="currentColor" />
          <path d="M12 3v5M12 16v5M3 12h5M16 12h5" stroke="currentColor" stroke-width="2" />
        </svg>
        <span>Windlass</span>
      </a>
      <button type="button" class="find" onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="find" />
        <span>Find a job, queue, kind, act …</span>
        <kbd>Ctrl K</kbd>
      </button>
      {isRanged && (
        <select aria-label="range" value={isOwn ? "own" : from} onChange={(event) => change({ from: event.currentTarget.value === "-1h" ? "" : event.currentTarget.value, to: "" })}>
          {isOwn && <option value="own">chosen range</option>}
          {RANGES.map(([value, text]) => (
            <option value={`-${value}`}>{text}</option>
          ))}
        </select>
      )}
      <span class="live" id="live" role="status" data-state={stranger.value ? "offline" : live.value}>
        <span class="dot" aria-hidden="true" />
        <span class="word">{stranger.value ? "signed out" : live.value}</span>
        <span class="clock" aria-hidden="true">
          {" · "}
          {hour(new Date(tick.value), true)}
          {zone.value && ` ${zone.value}`}
        </span>
      </span>
      {who && who.name !== "local" && (
        <span class="who" id="who">
          <span class="name" title={`${who.roles.join(", ")}${who.queues ? `; queues ${(who.queues as string[]).join(", ")}` : ""}`}>
            {who.name}
          </span>
          <button type="button" class="quiet" onClick={() => remove("v1/session").then(signedOut)}>
            sign out
          </button>
        </span>
      )}
    </header>
  );
}

function App() {
  const { page, id } = route.value;
  // A new session begins with new views.
  const turn = useSignal(0);
  const again = async () => {
    stranger.value = null;
    await readSession();
    turn.value += 1;
  };
  const signedIn = (now: Session) => {
    session.value = now;
    stranger.value = null;
    turn.value += 1;
  };
  useEffect(() => {
    const name = PAGES.find(([to]) => to === page)?.[1] ?? "Windlass";
    // A job names itself.
    if (page !== "jobs" || !id) document.title = `${alarms.value > 0 ? `(${alarms.value}) ` : ""}${id ? `${id} · ` : ""}${name} · Windlass`;
  }, [page, id, alarms.value]);
  useEffect(() => scrollTo(0, 0), [page, id]);
  const isKnown = session.value !== null || stranger.value !== null;
  return (
    <>
      <a class="skip" href="#view">
        skip to content
      </a>
      <Top signedOut={again} />
      <Rail />
      <main id="view" tabIndex={-1}>
        {stranger.value ? <SignIn done={signedIn} /> : isKnown && <div key={`${turn.value} ${page}`}>{viewOf(page, id)}</div>}
      </main>
      <Dialog />
      <Palette />
      <Help />
      <Notes />
    </>
  );
}

onStranger((problem) => {
  session.value = null;
  stranger.value = problem;
  live.value = "offline";
});

startPrefs();
startRouting(() => {
  stopAsking();
  isPaletteOpen.value = false;
});
startKeys();
const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);

// Until it is known who is here, nothing is offered; a server that is away is asked again.
async function begin() {
  await readSession();
  if (session.value === null && stranger.value === null) {
    live.value = "reconnecting";
    setTimeout(begin, 1000);
  }
}
begin();
