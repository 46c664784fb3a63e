//! Keys and queues that something holds back for long: a hold, or units that are owed.

use super::{Finding, ok, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::{Lane, Name, QueueLimits, Timestamp};
use windlass_store::{LaneState, ListLanes, QueueState, Store, fresh};

/// What is held back for longer than this is reported, in milliseconds.
const LONG_MS: i64 = 600_000;
/// So many keys of a queue are looked at.
const LOOKED_AT: usize = 1_000;
/// So many keys of a queue are named.
const NAMED: usize = 3;

/// Looks at every queue with rules or holds.
pub async fn look(store: &Arc<dyn Store>) -> Outcome<Vec<Finding>> {
    let (now, mut findings, mut looked_at) = (fresh::wall_clock(), Vec::new(), 0);
    for state in store.queues(1, None).await? {
        let Some(flow) = &state.queue.flow else { continue };
        looked_at += 1;
        findings.extend(of_queue(&state, now));
        if flow.takes_turns() {
            let queue = state.queue.name.clone();
            let list = ListLanes { queue, after: Lane::PLAIN, limit: LOOKED_AT };
            findings.extend(of_keys(&state.queue.name, flow, &store.lanes(list, None).await?, now));
        }
    }
    if findings.is_empty() {
        findings.push(ok("limits", format!("{looked_at} queues with rules, nothing is held back for long")));
    }
    Ok(findings)
}

fn is_long(until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    until.filter(|until| *until > now.plus_ms(LONG_MS))
}

fn of_queue(state: &QueueState, now: Timestamp) -> Option<Finding> {
    let (name, until) = (&state.queue.name, is_long(state.held_until, now)?);
    let found = format!("{name} is held until {until}: what one of its jobs calls takes no more");
    Some(warning("limits", found, format!("wait, or windlass lanes release {name}")))
}

fn of_keys(queue: &Name, flow: &QueueLimits, lanes: &[LaneState], now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named = |of: &dyn Fn(&LaneState) -> Option<Timestamp>| {
        let held: Vec<(&LaneState, Timestamp)> =
            lanes.iter().filter_map(|lane| Some((lane, is_long(of(lane), now)?))).collect();
        let last = held.iter().map(|(_, until)| *until).max()?;
        let keys = held.iter().filter_map(|(lane, _)| Some(lane.key.as_ref()?.to_string()));
        let keys: Vec<String> = keys.take(NAMED).collect();
        Some((held.len(), keys.join(", "), last))
    };
    if let Some((n, keys, until)) = named(&|lane| lane.held_until) {
        let found = format!("{n} keys of {queue} are held, the last until {until}: {keys}");
        findings.push(warning("limits", found, format!("wait, or windlass lanes release {queue} KEY")));
    }
    if flow.has_rates()
        && let Some((n, keys, at)) = named(&|lane| lane.next_at)
    {
        let found = format!("{n} keys of {queue} owe units, the last until {at}: {keys}");
        let fix = format!("wait, raise the rate, or windlass lanes release {queue} KEY, which forgives it");
        findings.push(warning("limits", found, fix));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use windlass_core::{Key, Queue, Rate};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn name() -> Name {
        Name::parse("queue", "sync").unwrap()
    }

    fn lane(key: &str, held_until: Option<i64>, next_at: Option<i64>) -> LaneState {
        let key = Key::parse("key", key).unwrap();
        let lane = LaneState::of(Lane::of(&key), Some(key), 0, &Default::default(), None);
        LaneState { held_until: held_until.map(at), next_at: next_at.map(at), ..lane }
    }

    #[test]
    fn what_is_held_back_for_long_is_told_with_its_fix() {
        let rate = Some(Rate { units: 1, per_ms: 1_000, burst: None });
        let flow = QueueLimits { rate, ..QueueLimits::default() };
        let lanes = [
            lane("acme", Some(700), None),
            lane("globex", Some(599), Some(601)),
            lane("initech", None, Some(5_000)),
        ];
        let found = of_keys(&name(), &flow, &lanes, at(0));
        assert_eq!(found.len(), 2);
        assert!(found[0].found.starts_with("1 keys of sync are held") && found[0].found.contains("acme"));
        assert!(found[1].found.starts_with("2 keys of sync owe units"), "{found:?}");
        assert!(found.iter().all(|one| one.level == Level::Warning && one.fix.is_some()));
        assert_eq!(of_keys(&name(), &flow, &lanes[1..2], at(2)), []);
    }

    #[test]
    fn a_queue_that_is_held_for_long_is_told() {
        let state = |held_until: i64| QueueState {
            queue: Queue::new(name()),
            due: windlass_core::Count { n: 0, capped: false },
            oldest_due_at: None,
            held_until: Some(at(held_until)),
        };
        assert_eq!(of_queue(&state(600), at(0)), None);
        let found = of_queue(&state(601), at(0)).unwrap();
        assert_eq!(found.fix.as_deref(), Some("wait, or windlass lanes release sync"));
    }
}
