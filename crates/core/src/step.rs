//! What the log of a job remembers for its next attempt: steps, tools in doubt, waits, kept signals.

use crate::event::{Event, EventKind};
use crate::ids::ApprovalId;
use crate::job::Version;
use crate::name::Name;
use crate::payload::Payload;
use crate::wait::{Decision, WaitFor, Wake, WakeOutcome};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How far a step came.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// Began, and no end is on record. A tool in this state is in doubt: it may have acted.
    Begun {
        /// What it was called with.
        args: Option<Payload>,
    },
    /// Ended, with its value: a later attempt gets the value and does not run it again.
    Ended {
        /// Its value.
        value: Option<Payload>,
    },
}

/// In which run of its job a step was recorded, counted from the job's present life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepRun {
    /// In this life of the job.
    #[default]
    This,
    /// Before a redrive: what could be undone was handed to undoing when that life ended.
    Earlier,
    /// In the job that this one was forked from, to which it belongs.
    Original,
}

/// A step on record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// Its name.
    pub name: Name,
    /// Whether it is a tool call.
    pub tool: bool,
    /// How far it came.
    pub state: StepState,
    /// The event that says so.
    pub version: Version,
    /// In which run of the job.
    pub run: StepRun,
}

/// A wait that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedWait {
    /// The event that began it.
    pub version: Version,
    /// How it ended.
    pub wake: Wake,
}

/// Everything on record that a resumed run must not do again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recorded {
    /// Steps and tools, in the order of their first record.
    pub steps: Vec<RecordedStep>,
    /// Waits that ended, in order.
    pub waits: Vec<RecordedWait>,
}

/// Whether an event type matters to [`recorded`] or [`kept_signal`]: stores read only these.
pub const REMEMBERED: &[&str] = &[
    "node_started",
    "node_finished",
    "tool_called",
    "tool_returned",
    "job_waiting",
    "job_signalled",
    "job_woken",
    "job_child_finished",
    "job_approval_voted",
    "job_claimed",
    "job_redriven",
    "job_forked",
];

/// The versions at or before `after` at which stand the signals that answered waits of these events: a reader that has only
/// what came later needs them for [`recorded`].
pub fn answered_before(events: &[Event], after: Version) -> BTreeSet<Version> {
    let answer = |e: &Event| match &e.what {
        EventKind::JobWaiting(d) => d.answered_by.filter(|version| *version <= after),
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

/// Reads the record out of a log, ignoring what lies at or before `steps_from`. That is where the job was redriven from the
/// start, or a claim up to which the record was read before: no wait is open there.
pub fn recorded(events: &[Event], steps_from: Version) -> Recorded {
    let mut out = Recorded::default();
    let mut places: HashMap<&Name, usize> = HashMap::new();
    let mut open: Option<&Event> = None;
    for event in events.iter().filter(|e| e.version > steps_from) {
        match &event.what {
            EventKind::NodeStarted(s)
            | EventKind::ToolCalled(s)
            | EventKind::NodeFinished(s)
            | EventKind::ToolReturned(s) => {
                let tool = matches!(event.what, EventKind::ToolCalled(_) | EventKind::ToolReturned(_));
                let state = if event.what.ends_step() {
                    StepState::Ended { value: event.payload.clone() }
                } else {
                    StepState::Begun { args: event.payload.clone() }
                };
                let (name, version) = (s.name.clone(), event.version);
                let step = RecordedStep { name, tool, state, version, run: StepRun::This };
                let place = *places.entry(&s.name).or_insert(out.steps.len());
                match out.steps.get_mut(place) {
                    Some(known) if matches!(known.state, StepState::Ended { .. }) => {}
                    Some(known) => *known = step,
                    None => out.steps.push(step),
                }
            }
            EventKind::JobWaiting(_) => open = Some(event),
            // A wait that was cut off, by denial or cancel, ended only if its answer had come before.
            EventKind::JobClaimed | EventKind::JobRedriven(_) | EventKind::JobForked(_) => {
                if let Some(waiting) = open.take() {
                    out.waits.extend(ended(waiting, event, events));
                }
                let run = match event.what {
                    EventKind::JobRedriven(_) => StepRun::Earlier,
                    EventKind::JobForked(_) => StepRun::Original,
                    _ => continue,
                };
                let own = out.steps.iter_mut().filter(|step| step.run != StepRun::Original);
                own.for_each(|step| step.run = run);
            }
            _ => {}
        }
    }
    out
}

fn ended(waiting: &Event, until: &Event, events: &[Event]) -> Option<RecordedWait> {
    let EventKind::JobWaiting(d) = &waiting.what else { return None };
    // Events are in the order of their versions, of which some may be missing.
    let from = |version: Version| events.partition_point(|e| e.version < version);
    // Only what lies between the two: a later wait has an end of its own.
    let by = match d.answered_by {
        Some(version) => events.get(from(version)).filter(|e| e.version == version),
        None => events[from(waiting.version)..from(until.version)].iter().find(|e| ends_wait(&e.what)),
    };
    let answered = until.what == EventKind::JobClaimed || d.answered_by.is_some() || by.is_some();
    if !answered {
        return None;
    }
    Some(RecordedWait { version: waiting.version, wake: wake(waiting, by)? })
}

fn ends_wait(what: &EventKind) -> bool {
    match what {
        EventKind::JobWoken(_) => true,
        EventKind::JobSignalled(d) => d.woke || d.noticed,
        EventKind::JobChildFinished(d) => d.woke,
        EventKind::JobApprovalVoted(d) => d.woke,
        _ => false,
    }
}

/// Why the next execution runs, from the event that began the wait and the one that ended it, if one did.
pub fn wake(waiting: &Event, ended_by: Option<&Event>) -> Option<Wake> {
    let EventKind::JobWaiting(d) = &waiting.what else { return None };
    let expired = ended_by.is_some_and(|e| matches!(e.what, EventKind::JobWoken(_)));
    let outcome = match d.waits_for {
        _ if expired => WakeOutcome::Expired,
        WaitFor::Approval => WakeOutcome::Approved,
        WaitFor::Signal => WakeOutcome::Signalled,
        WaitFor::Timer => WakeOutcome::Fired,
        WaitFor::Children | WaitFor::Upstream | WaitFor::Flow => WakeOutcome::Joined,
        WaitFor::News => WakeOutcome::News,
    };
    let signal = ended_by.filter(|e| matches!(e.what, EventKind::JobSignalled(_)));
    Some(Wake {
        waited_for: d.waits_for,
        name: d.name.clone(),
        outcome,
        payload: signal.and_then(|e| e.payload.clone()),
    })
}

/// Why an approval was denied, if it was and a reason was given.
pub fn denial(events: &[Event], approval: ApprovalId) -> Option<String> {
    events.iter().rev().find_map(|e| match &e.what {
        EventKind::JobApprovalVoted(v) if v.approval == approval && v.decision == Decision::Deny => {
            v.reason.clone()
        }
        _ => None,
    })
}

/// The first signal or end of a child after a version.
pub fn news(events: &[Event], since: Version) -> Option<Version> {
    let is_news = |e: &&Event| matches!(e.what, EventKind::JobSignalled(_) | EventKind::JobChildFinished(_));
    events.iter().filter(|e| e.version > since).find(is_news).map(|e| e.version)
}

/// The oldest signal of this name that no wait has taken.
pub fn kept_signal(events: &[Event], name: &Name, steps_from: Version) -> Option<Version> {
    let answers = |e: &Event| match &e.what {
        EventKind::JobWaiting(d) => d.answered_by,
        _ => None,
    };
    let taken: HashSet<Version> = events.iter().filter_map(answers).collect();
    let kept = |e: &&Event| matches!(&e.what, EventKind::JobSignalled(d) if !d.woke && d.name == *name);
    events
        .iter()
        .filter(|e| e.version > steps_from)
        .filter(kept)
        .map(|e| e.version)
        .find(|v| !taken.contains(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{StepNamed, Waiting};
    use crate::ids::JobId;
    use crate::name::Actor;
    use crate::time::Timestamp;

    /// J11: what is on record is read in one pass. Each of these looked at all others, it would not end today.
    #[test]
    fn a_long_record_is_read_in_one_pass() {
        const WAITS: i64 = 200_000;
        let name = |n: i64| Name::parse("name", format!("n{n}")).unwrap();
        let event = |version: Version, what: EventKind| Event {
            job: JobId::from_parts(Timestamp::from_micros(0), [0; 8]),
            version,
            at: Timestamp::from_micros(version),
            actor: Actor::engine(),
            attempt: 1,
            generation: 0,
            lease: None,
            key: None,
            what,
            payload: None,
        };
        let waiting = |n: i64| {
            let (due_at, name) = (Some(Timestamp::from_micros(n)), Some(name(n)));
            EventKind::JobWaiting(Waiting {
                waits_for: WaitFor::Timer,
                name,
                due_at,
                deadline_at: None,
                answered_by: None,
            })
        };
        let events: Vec<Event> = (0..WAITS)
            .flat_map(|n| {
                let step = EventKind::NodeFinished(StepNamed { name: name(n) });
                [
                    event(3 * n + 1, step),
                    event(3 * n + 2, waiting(n)),
                    event(3 * n + 3, EventKind::JobClaimed),
                ]
            })
            .collect();
        let recorded = recorded(&events, 0);
        assert_eq!((recorded.steps.len(), recorded.waits.len()), (WAITS as usize, WAITS as usize));
        let last = recorded.waits.last().unwrap();
        assert_eq!((&last.wake.name, last.wake.outcome), (&Some(name(WAITS - 1)), WakeOutcome::Fired));
        assert_eq!(kept_signal(&events, &name(0), 0), None);
    }
}
