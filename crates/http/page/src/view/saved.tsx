// Filters that were saved under a name, for everybody.

import { useSignal } from "@preact/signals";
import { asProblem, get, put, remove, type View } from "../base/api.ts";
import { Icon, tell } from "../base/parts.tsx";
import { may } from "../base/session.ts";
import { ask, Field } from "./dialog.tsx";
import { address, FILTERS, pick } from "./filter.ts";

const blank = Object.fromEntries(FILTERS.map((name) => [name, ""]));

export function SavedViews({ asked }: { asked: URLSearchParams }) {
  const views = useSignal<View[] | null>(null);
  const now = pick(asked, FILTERS);
  const load = () => get<{ views: View[] }>("v1/views").then((answer) => (views.value = answer.views), (error) => tell(asProblem(error).title, "bad"));
  const save = () =>
    ask({
      title: "Save this view",
      text: "Everybody sees it. A name that is there already gets this filter instead.",
      fields: (
        <Field label="Name, such as dead-mail">
          <input name="name" autocomplete="off" required maxLength={128} />
        </Field>
      ),
      yes: "Save",
      send: async (form) => {
        const name = form.name.value.trim();
        await put(`v1/views/${encodeURIComponent(name)}`, { filter: now });
        await load();
        return `${name} is saved`;
      },
    });
  const drop = (view: View) =>
    ask({
      title: `Remove the view ${view.name}?`,
      text: "It is gone for everybody. Jobs stay as they are.",
      yes: "Remove",
      tone: "danger",
      send: async () => {
        await remove(`v1/views/${encodeURIComponent(view.name)}`);
        await load();
      },
    });
  return (
    <details class="views" onToggle={(event) => event.currentTarget.open && !views.value && load()}>
      <summary>Views</summary>
      <div class="views-list">
        {views.value?.length === 0 && <p class="muted">None is saved yet. Filter, then save.</p>}
        {views.value?.map((view) => (
          <span class="row" key={view.name}>
            <a href={address(asked, { ...blank, ...view.filter })} title={Object.entries(view.filter).map(([name, value]) => `${name}: ${value}`).join(", ")}>
              {view.name}
            </a>
            {may("operator") && (
              <button type="button" class="quiet" aria-label={`remove the view ${view.name}`} onClick={() => drop(view)}>
                <Icon name="cancelled" />
              </button>
            )}
          </span>
        ))}
        {may("operator") && Object.keys(now).length > 0 && (
          <button type="button" onClick={save}>
            Save this one …
          </button>
        )}
      </div>
    </details>
  );
}
