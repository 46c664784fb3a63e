//! Fresh identities and secrets, for whoever calls a store. The caller makes them, so that it can repeat a call.

use std::cell::RefCell;
use windlass_core::wait::LinkToken;
use windlass_core::{ApprovalId, JobId, Secret, Timestamp, TriggerEventId};

/// The wall clock. Stores order by their own; this one only dates fresh ids.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where ids and stores without a clock read the wall"
)]
pub fn wall_clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A fresh job id.
pub fn job_id() -> JobId {
    JobId::from_parts(wall_clock(), chance())
}

/// A fresh approval id.
pub fn approval_id() -> ApprovalId {
    ApprovalId::from_parts(wall_clock(), random())
}

/// A fresh id for an event of a trigger.
pub fn trigger_event_id() -> TriggerEventId {
    TriggerEventId::from_parts(wall_clock(), chance())
}

/// A fresh secret for one claim.
pub fn secret() -> Secret {
    Secret(random())
}

/// A number that no other claim has, which is no secret.
pub fn nonce() -> i64 {
    i64::from_be_bytes(chance())
}

/// A fresh token for one approval link.
pub fn link_token() -> LinkToken {
    LinkToken(random())
}

/// Random bytes for an id, which is no secret. They are fetched for many ids at once: asking the system costs as much
/// as half an enqueue.
fn chance() -> [u8; 8] {
    thread_local! {
        static LEFT: RefCell<Vec<[u8; 8]>> = const { RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(|left| {
        left.pop().unwrap_or_else(|| {
            let bytes: [u8; 512] = random();
            let (fresh, _) = bytes.as_chunks();
            left.extend_from_slice(&fresh[1..]);
            fresh[0]
        })
    })
}

/// Random bytes from the operating system.
///
/// # Panics
/// If the system has no randomness, where no secret can be made.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
