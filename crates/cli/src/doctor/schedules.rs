//! What runs without being asked: schedules that do not fire, events that start nothing, and whether anybody leads.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::limits::PAGE_MAX;
use windlass_core::schedule::ScheduleState;
use windlass_core::{Term, Timestamp};
use windlass_engine::service::Leading;
use windlass_store::{EventsOf, ReadTriggerEvents, Store, TriggerEvent, TriggerState, fresh};

/// A schedule that is paused for longer is told, in milliseconds.
const PAUSED_LONG_MS: i64 = 7 * 86_400_000;

/// Looks at schedules, triggers and their leader.
pub async fn look(store: &Arc<dyn Store>, late_ms: i64) -> Outcome<Vec<Finding>> {
    let now = fresh::wall_clock();
    let schedules = store.schedules((), None).await?;
    let triggers = store.triggers((), None).await?;
    let request = ReadTriggerEvents { of: EventsOf::Unprocessed(None), limit: PAGE_MAX };
    let unprocessed = store.trigger_events(request, None).await?;
    let mut findings = of_schedules(&schedules, (now, late_ms));
    findings.extend(of_triggers(&triggers, &unprocessed, now));
    if !schedules.is_empty() || !unprocessed.is_empty() {
        findings.push(of_leader(store.term(Leading::term(), None).await?.as_ref(), now));
    }
    Ok(findings)
}

fn of_leader(term: Option<&Term>, now: Timestamp) -> Finding {
    match term {
        Some(term) if term.expires_at > now => {
            ok("leader", format!("{} leads, epoch {}", term.holder, term.epoch))
        }
        _ => problem(
            "leader",
            "nobody leads: no schedule fires",
            "start a server (windlass serve), or a worker of your own with schedules(true)",
        ),
    }
}

fn of_schedules(schedules: &[ScheduleState], (now, late_ms): (Timestamp, i64)) -> Vec<Finding> {
    let of = |state: &ScheduleState| {
        let name = &state.name;
        if let Some(why) = &state.broken {
            let fix = format!("windlass schedules put {name} …, or windlass schedules rm {name}");
            return Some(problem("schedules", format!("{name} is broken and does not fire: {why}"), fix));
        }
        if let Some((at, by)) = &state.paused {
            let is_long = at.plus_ms(PAUSED_LONG_MS) < now;
            let found = format!("{name} is paused for {} by {by}", ago(*at, now));
            return is_long.then(|| warning("schedules", found, format!("windlass schedules resume {name}")));
        }
        match state.next_at {
            None => Some(warning(
                "schedules",
                format!("{name} never fires again: its end has come"),
                format!("windlass schedules rm {name}, or put it with a later --ends-at"),
            )),
            Some(next_at) if next_at.plus_ms(late_ms) < now => Some(problem(
                "schedules",
                format!("{name} missed its slot of {next_at}, {} ago", ago(next_at, now)),
                "look whether somebody leads, and at the log of who does",
            )),
            Some(_) => None,
        }
    };
    let found: Vec<Finding> = schedules.iter().filter_map(of).collect();
    if found.is_empty() {
        return vec![ok("schedules", format!("{} known, none is late", schedules.len()))];
    }
    found
}

fn of_triggers(triggers: &[TriggerState], unprocessed: &[TriggerEvent], now: Timestamp) -> Vec<Finding> {
    let broken = |state: &TriggerState| {
        let (name, why) = (&state.name, state.broken.as_ref()?);
        let fix = format!("windlass triggers put {name} …, or windlass triggers rm {name}");
        Some(problem("triggers", format!("{name} is broken and starts nothing: {why}"), fix))
    };
    let mut found: Vec<Finding> = triggers.iter().filter_map(broken).collect();
    if let Some(oldest) = unprocessed.first() {
        let (n, more) = (unprocessed.len(), if unprocessed.len() == PAGE_MAX { "+" } else { "" });
        let why = oldest.detail.problem.as_deref().unwrap_or("it was not tried yet");
        let told = format!(
            "{n}{more} events are not processed, the oldest of {} for {}: {why}",
            oldest.trigger,
            ago(oldest.received_at, now)
        );
        let name = &oldest.trigger;
        let fix = format!("windlass triggers events {name} --unprocessed; then mend it with triggers put");
        found.push(warning("triggers", told, fix));
    }
    if found.is_empty() {
        found.push(ok("triggers", format!("{} known, every event is processed", triggers.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use windlass_core::schedule::{Schedule, Timing};
    use windlass_core::{Actor, Facts, Name};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn state() -> ScheduleState {
        let name = |text: &str| Name::parse("name", text).unwrap();
        let schedule = Schedule::new(Timing::Every(60_000), Facts::new(name("k"), name("q")));
        let unreadable = ScheduleState::unreadable(name("s"), "");
        ScheduleState { schedule, broken: None, version: 1, next_at: Some(at(1_000)), ..unreadable }
    }

    #[test]
    fn schedules_that_do_not_fire_are_told() {
        let day = 86_400;
        let look = |state: ScheduleState, seconds: i64| {
            let found = of_schedules(&[state], (at(seconds), 60_000)).remove(0);
            (found.level, found.found)
        };
        let by = Actor::engine();
        assert_eq!(look(state(), 1_060).0, Level::Ok);
        assert!(look(state(), 1_061).1.contains("missed its slot"));
        let never = ScheduleState { next_at: None, ..state() };
        assert!(look(never.clone(), 5).1.contains("never fires again"));
        let paused = ScheduleState { paused: Some((at(0), by)), ..never };
        assert_eq!(look(paused.clone(), 7 * day).0, Level::Ok);
        assert!(look(paused, 7 * day + 1).1.contains("is paused for"));
        let name = Name::parse("name", "s").unwrap();
        assert!(look(ScheduleState::unreadable(name, "no JSON"), 5).1.contains("no JSON"));
    }

    #[test]
    fn without_a_leader_nothing_fires() {
        assert_eq!(of_leader(None, at(0)).level, Level::Problem);
    }
}
