// Is the engine well, who may what, and how this page looks.

import { useSignal } from "@preact/signals";
import { get, post, put, remove, type AccessKey, type Alert, type Leader, type SettingsState } from "../base/api.ts";
import { isZone, seconds, zone } from "../base/clock.ts";
import { useFeed, useReading } from "../base/live.ts";
import { Ago, CopyButton } from "../base/parts.tsx";
import { density, theme } from "../base/prefs.ts";
import { may, session } from "../base/session.ts";
import { many } from "../base/text.ts";
import { Facts, Page, Panel, Table, Trouble } from "./bits.tsx";
import { ask, Field, Tick } from "./dialog.tsx";

const EVERY_MS = 5000;
const ROLES = ["viewer", "producer", "worker", "approver", "operator", "admin"];

type Health = { status?: string; version?: string } & Record<string, unknown>;

export function Settings() {
  const isAdmin = may("admin");
  const read = useReading(
    async (signal) => {
      const [leader, settings, health, keys, alerts] = await Promise.all([
        get<Leader>("v1/leader", {}, signal),
        get<SettingsState>("v1/settings", {}, signal),
        get<Health>("readyz", {}, signal).catch((problem): Health => ({ status: problem.title })),
        isAdmin ? get<{ keys: AccessKey[] }>("v1/keys", {}, signal) : null,
        // A key for some queues has none.
        get<{ alerts: Alert[] }>("v1/alerts", {}, signal).catch((problem) => (problem.status === 403 ? null : Promise.reject(problem))),
      ]);
      return { leader, settings, health, keys: keys?.keys ?? null, alerts: alerts?.alerts ?? null };
    },
    EVERY_MS,
    [isAdmin],
  );
  useFeed("v1/feed", { params: { type: "job_redriven" }, onEvents: () => {} }, []);
  const found = read.value.value;
  return (
    <Page title="Settings">
      <Trouble problem={read.problem.value} again={read.look} />
      <div class="two">
        <Look />
        {found && (
          <Panel title="Engine">
            <Facts
              rows={[
                ["store", String(found.health.status ?? "answers")],
                ["version", found.health.version],
                ["leader", found.leader.holder ? <><span class="mono">{found.leader.holder}</span>{found.leader.leads && <span class="muted"> this server</span>}</> : <span class="bad-word">nobody leads</span>],
                ["epoch", String(found.leader.epoch)],
                ["its term ends", found.leader.expires_at && <Ago at={found.leader.expires_at} />],
                ["you", session.value && `${session.value.name}: ${session.value.roles.join(", ")}${session.value.queues ? `; queues ${session.value.queues.join(", ")}` : ""}`],
                ["your session ends", session.value?.expires_at && <Ago at={session.value.expires_at} />],
                ["document", <a href="openapi.json">openapi.json</a>],
                ["metrics", <a href="metrics">metrics</a>],
              ]}
            />
          </Panel>
        )}
      </div>
      {found?.alerts && <Alerts alerts={found.alerts} done={read.look} />}
      {found && <InForce state={found.settings} done={read.look} />}
      {found?.keys && <Keys keys={found.keys} done={read.look} />}
    </Page>
  );
}

const METRICS: Record<string, string> = {
  oldest_due: "a job is due for longer than",
  failure_rate: "more than so many percent end badly",
  no_worker: "jobs are due and no worker serves their queue",
  approval_expires: "an approval runs out within",
  schedule_missed: "a schedule did not fire for",
};

const watched = (alert: Alert) => [METRICS[alert.metric], alert.longer_than != null && seconds(Number(alert.longer_than)), alert.percent != null && `(${alert.percent} %)`].filter(Boolean).join(" ");

function askAlert(done: () => void) {
  ask({
    title: "Watch something",
    text: "It fires once it has held for a while, is shown here and on the Overview, and is sent out once per change.",
    fields: [
      <Field label="Name">
        <input name="name" autocomplete="off" required maxLength={128} />
      </Field>,
      <Field label="What">
        <select name="metric">{Object.entries(METRICS).map(([name, text]) => <option value={name}>{text}</option>)}</select>
      </Field>,
      <Field label="How long, such as 10m; empty is as usual">
        <input name="than" autocomplete="off" />
      </Field>,
      <Field label="Percent, for a share that ends badly">
        <input name="percent" autocomplete="off" inputMode="numeric" />
      </Field>,
      <Field label="Queue; empty is all of them">
        <input name="queue" autocomplete="off" />
      </Field>,
      <Field label="Holds for, such as 1m; empty is at once">
        <input name="holds" autocomplete="off" />
      </Field>,
      <Field label="Sent through the subscription; empty is only shown">
        <input name="notify" autocomplete="off" />
      </Field>,
    ],
    yes: "Watch",
    send: async (form) => {
      const said = (name: string) => form[name].value.trim() || undefined;
      const percent = said("percent");
      await put(`v1/alerts/${encodeURIComponent(form.name.value.trim())}`, { metric: form.metric.value, longer_than: said("than"), percent: percent === undefined ? undefined : Number(percent), queue: said("queue"), for: said("holds"), notify: said("notify") });
      done();
      return "it is watched";
    },
  });
}

function Alerts({ alerts, done }: { alerts: Alert[]; done: () => void }) {
  const drop = (alert: Alert) =>
    ask({
      title: `Watch ${alert.name} no more?`,
      yes: "Remove",
      tone: "danger",
      send: async () => {
        await remove(`v1/alerts/${encodeURIComponent(alert.name)}`);
        done();
        return `${alert.name} is removed`;
      },
    });
  return (
    <Panel title="Alerts" note={may("operator") && <button type="button" onClick={() => askAlert(done)}>Watch …</button>}>
      {alerts.length === 0 && <p class="quiet-line muted">Nothing is watched.</p>}
      {alerts.length > 0 && (
        <Table
          caption="alerts"
          rows={alerts}
          keyOf={(alert) => alert.name}
          columns={[
            { name: "Alert", cell: (alert) => <b>{alert.name}</b> },
            { name: "Fires when", isWide: true, cell: (alert) => watched(alert) },
            { name: "Queue", cell: (alert) => alert.queue ?? <span class="muted">all</span> },
            { name: "State", cell: (alert) => (alert.firing_since ? <span class="bad-word" title={alert.why ?? ""}>fires since <Ago at={alert.firing_since} /></span> : <span class="muted">quiet</span>) },
            { name: "Sent through", cell: (alert) => (alert.unsent ? <span class="bad-word" title={alert.unsent}>{`${alert.notify}: not yet`}</span> : alert.notify ?? <span class="muted">nobody</span>) },
            ...(may("operator") ? [{ name: "", isNumber: true, cell: (alert: Alert) => <button type="button" class="danger" onClick={() => drop(alert)}>Remove</button> }] : []),
          ]}
        />
      )}
    </Panel>
  );
}

function Look() {
  const typed = useSignal(zone.value);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const names = Intl.supportedValuesOf("timeZone");
  return (
    <Panel title="This page" note="kept by this browser">
      <div class="prefs">
        <label>
          <span>Theme</span>
          <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as "" | "light" | "dark")}>
            <option value="">as the system</option>
            <option value="light">light</option>
            <option value="dark">dark</option>
          </select>
        </label>
        <label>
          <span>Rows</span>
          <select value={density.value} onChange={(event) => (density.value = event.currentTarget.value as "" | "compact")}>
            <option value="">comfortable</option>
            <option value="compact">compact</option>
          </select>
        </label>
        <label>
          <span>Zone</span>
          <input
            list="zones" value={typed.value} placeholder={`${own}, the browser's`} autocomplete="off"
            onInput={(event) => {
              typed.value = event.currentTarget.value.trim();
              if (typed.value === "" || isZone(typed.value)) zone.value = typed.value;
            }}
          />
          <datalist id="zones">{["UTC", ...names].map((name) => <option value={name} />)}</datalist>
        </label>
        {typed.value !== "" && !isZone(typed.value) && <p class="wrong" role="alert">{`there is no zone ${typed.value}`}</p>}
      </div>
    </Panel>
  );
}

const isSpan = (name: string) => /lease|after|kept|tolerance/.test(name);
const NAMES: Record<string, string> = {
  default_lease: "lease, where nothing else says", missed_after: "a slot counts as missed after", missed_max: "missed slots made up for, at most", trigger_events_kept: "events of triggers are kept", webhook_tolerance: "a webhook may be old", webhooks_per_minute: "webhooks per minute",
};

// The settings of the store: the whole document, changed at the version it was read at.
function edit(state: SettingsState, done: () => void) {
  const was = state.settings as Record<string, unknown>;
  ask({
    title: "Settings of the store",
    text: "They hold for every server of this store, at once. Lengths of time are seconds, or such as 1h30m.",
    fields: Object.entries(was).map(([name, value]) => (
      <Field label={`${NAMES[name] ?? name}${value === null ? "" : `; now ${isSpan(name) ? seconds(value) : value}`}`}>
        <input name={name} autocomplete="off" defaultValue={value === null ? "" : isSpan(name) ? `${value}s` : String(value)} />
      </Field>
    )),
    yes: "Put in force",
    send: async (form) => {
      const settings = Object.fromEntries(Object.keys(was).map((name) => {
        const text = form[name].value.trim();
        return [name, text === "" ? null : isSpan(name) ? text : Number(text)];
      }));
      await put("v1/settings", { settings, expected_version: state.version });
      done();
      return "the settings are in force";
    },
  });
}

function InForce({ state, done }: { state: SettingsState; done: () => void }) {
  const rows = Object.entries(state.settings as Record<string, unknown>);
  return (
    <Panel title="Settings of the store" note={state.changed_at ? <>version {state.version}, changed <Ago at={state.changed_at} />{state.changed_by && ` by ${state.changed_by}`}</> : "as they come"}>
      <Facts rows={rows.map(([name, value]) => [NAMES[name] ?? name, value === null ? <span class="muted">as built in</span> : isSpan(name) ? seconds(value) : many(Number(value))])} />
      {may("operator") && <p class="row"><button type="button" onClick={() => edit(state, done)}>Change</button></p>}
    </Panel>
  );
}

function Keys({ keys, done }: { keys: AccessKey[]; done: () => void }) {
  const secret = useSignal<{ name: string; secret: string } | null>(null);
  const make = () =>
    ask({
      title: "Make a key",
      text: "The secret is shown once. Take it over at once; nobody can show it again.",
      fields: [
        <Field label="Name: who it stands for in logs and audit"><input name="name" required autocomplete="off" /></Field>,
        <fieldset class="ticks"><legend class="muted">Roles</legend>{ROLES.map((role) => <Tick name={`role_${role}`} label={role} />)}</fieldset>,
        <Field label="Only for these queues, by commas; empty is all"><input name="queues" autocomplete="off" /></Field>,
        <Field label="Ends, such as 30d; empty is never"><input name="expires_at" autocomplete="off" /></Field>,
      ],
      yes: "Make it",
      send: async (form) => {
        const roles = ROLES.filter((role) => form[`role_${role}`].checked);
        const queues = form.queues.value.split(",").map((name) => name.trim()).filter(Boolean);
        const ends = form.expires_at.value.trim();
        const made = await post<{ key: AccessKey; secret: string }>("v1/keys", { name: form.name.value.trim(), roles, ...(queues.length && { queues }), ...(ends && { expires_at: ends }) });
        secret.value = { name: made.key.name, secret: made.secret };
        done();
        return `key ${made.key.name} is made`;
      },
    });
  const revoke = (key: AccessKey) =>
    ask({
      title: `Take ${key.name} back?`,
      text: "Within two seconds it opens nothing any more, and what is open under it ends.",
      yes: "Take it back",
      tone: "danger",
      send: async () => {
        await remove(`v1/keys/${encodeURIComponent(key.name)}`);
        done();
        return `key ${key.name} is taken back`;
      },
    });
  return (
    <Panel title="Keys" note={keys.length === 0 ? "none: this server serves only its own machine" : undefined}>
      {secret.value && (
        <p class="secret">
          <span>The key <b>{secret.value.name}</b>, shown once: </span>
          <code>{secret.value.secret}</code>
          <CopyButton text={secret.value.secret} what="key" />
          <button type="button" class="quiet" onClick={() => (secret.value = null)}>I have it</button>
        </p>
      )}
      {keys.length > 0 && (
        <Table
          caption="keys" rows={keys} keyOf={(key) => key.name} rowClass={(key) => (key.revoked_at ? "gone" : "")}
          columns={[
            { name: "Name", cell: (key) => <b>{key.name}</b> },
            { name: "Roles", cell: (key) => key.roles.join(", ") },
            { name: "Queues", cell: (key) => (key.queues as string[] | null)?.join(", ") ?? <span class="muted">all</span> },
            { name: "Made", cell: (key) => <Ago at={key.created_at} /> },
            { name: "Ends", cell: (key) => (key.revoked_at ? <>taken back <Ago at={key.revoked_at} /></> : key.expires_at ? <Ago at={key.expires_at} /> : <span class="muted">never</span>) },
            { name: "", isNumber: true, cell: (key) => !key.revoked_at && <button type="button" class="danger" onClick={() => revoke(key)}>Take back</button> },
          ]}
        />
      )}
      <p class="row"><button type="button" onClick={make}>Make a key</button></p>
    </Panel>
  );
}
