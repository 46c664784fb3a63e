//! Rows that are handed out many at once become what a single claim makes of each.

use windlass_core::decide::{Claim, Command, decide, hand_out};
use windlass_core::lease::Secret;
use windlass_core::{Actor, Event, EventKind, Facts, Job, JobId, LeaseMs, Name, Status, Timestamp, Who};

fn job(status: Status) -> Job {
    let word = |text| Name::try_from(text).expect("a name");
    let event = Event {
        job: JobId::from_bytes([7; 16]),
        version: 1,
        at: Timestamp::from_micros(1_000_000),
        actor: Actor::api(),
        attempt: 0,
        generation: 0,
        lease: None,
        key: None,
        what: EventKind::JobCreated(Box::new(Facts::new(word("mail"), word("default")))),
        payload: None,
    };
    Job { status, ..Job::created(&event).expect("a job") }
}

#[test]
fn a_row_that_nobody_holds_is_handed_out_as_it_is_claimed() {
    let worker = Who::try_from("w").expect("a worker");
    let by = Claim { worker, secret: Secret([3; 32]), lease_ms: LeaseMs::new(30_000).expect("a lease") };
    let (actor, now) = (Actor::worker(&by.worker), Timestamp::from_micros(2_000_000));
    for status in Status::ALL {
        let handed = hand_out(job(status), &by, &actor, now);
        let is_free = status != Status::Running && !status.is_terminal();
        assert_eq!(handed.is_some(), is_free, "{status:?}");
        if is_free {
            assert_eq!(handed, decide(&job(status), Command::Claim(by.clone()), now).ok(), "{status:?}");
        }
        let early = Timestamp::from_micros(999_999);
        assert_eq!(hand_out(job(status), &by, &actor, early), None, "{status:?} before it is due");
    }
}
