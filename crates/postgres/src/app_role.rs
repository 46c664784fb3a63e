//! What the app role calls: every statement that writes or locks, as a function that acts for the owner.
//!
//! The app role has no direct access to any table but to read it. Where one call alone could contradict the rest of the
//! store (an event without its row, a key without its audit entry), the function notes what is owed, and the transaction
//! cannot commit before that was made good: `windlass.settle_debts` in guard.sql checks it. The owner's own connections
//! use the statements themselves and pay for none of this.

use crate::db::sql;
use crate::signatures::{Signature, named};

/// Every statement that writes or locks.
const WRITES: &[(&str, &str)] = &named![
    "access_key_by_name",
    "add_problem_hours",
    "adopt_slots",
    "append_event",
    "append_events",
    "assign",
    "claim",
    "claim_new",
    "clear_problem_hours",
    "clear_rollups",
    "enqueue",
    "extend",
    "forget_answers",
    "forget_gauges",
    "forget_keys",
    "forget_problem_hours",
    "forget_problems",
    "forget_rollups",
    "forget_tombstones",
    "forget_trigger_events",
    "free_buckets",
    "free_keys",
    "free_slots",
    "hand_out",
    "hold_job",
    "hold_lane",
    "insert_job",
    "lock",
    "lock_free",
    "lock_jobs",
    "lock_paper",
    "lock_parent",
    "lock_place",
    "lock_problems",
    "lock_queue",
    "lock_schedule",
    "lock_schedules",
    "lock_settings",
    "lock_subscription",
    "lock_term",
    "lock_trigger",
    "lock_trigger_event",
    "lock_worker",
    "mend_line",
    "move_job",
    "move_logs",
    "move_trigger_event",
    "open_term",
    "put_access_key",
    "put_approval",
    "put_buckets",
    "put_gauges",
    "put_log_part",
    "put_paper",
    "put_place",
    "put_problems",
    "put_queue",
    "put_rollups",
    "put_schedule",
    "put_seal",
    "put_settings",
    "put_subscription",
    "put_term",
    "put_trigger",
    "put_worker",
    "recover",
    "release_lane",
    "remember",
    "remove_paper",
    "remove_place",
    "remove_schedule",
    "remove_subscription",
    "remove_trigger",
    "remove_worker",
    "renew_job",
    "revoke_access_key",
    "set_aside",
    "set_aside_schedule",
    "settle_complete",
    "share_term",
    "share_trigger",
    "take_key",
    "take_keys",
    "take_slots",
    "take_trigger_event",
    "try_lock",
    "try_lock_parent",
    "try_lock_queue",
    "void_approvals",
    "wake_trigger_events",
    "write_audit",
    "write_log",
];

/// What a statement alone leaves to be made good: of which kind, its id, or a list of them, being the first parameter.
const OWED: [(&str, &str); 8] = [
    ("append_event", "job"),
    ("append_events", "job"),
    ("insert_job", "job"),
    ("move_job", "job"),
    ("put_approval", "approval"),
    ("void_approvals", "approvals of job"),
    ("put_access_key", "key"),
    ("revoke_access_key", "key"),
];

/// The functions, to be made by the owner.
pub(crate) fn definitions() -> String {
    WRITES.iter().filter_map(|(name, text)| Some(definition(name, text, Signature::of(name)?))).collect()
}

fn definition(name: &str, text: &str, signature: &Signature) -> String {
    let owed = OWED.iter().find(|(statement, _)| *statement == name);
    let owed = owed.map_or("NULL".to_owned(), |(_, what)| {
        if signature.takes.starts_with("uuid[]") {
            format!("windlass.owe_all('{what}', $1)")
        } else {
            format!("windlass.owe('{what}', $1::text)")
        }
    });
    let run = if signature.gives == "void" { "" } else { "RETURN QUERY\n" };
    let made = sql!("app")
        .replace(
            "windlass.app(takes)",
            &format!("{}({})", signature.function("app", name, text), signature.takes),
        )
        .replace("RETURNS gives", &format!("RETURNS {}", signature.gives))
        .replace("PERFORM owed;", &format!("PERFORM {owed};"))
        .replace("statement;", &format!("{run}{};", text.trim_end()));
    format!("{};\n", made.trim_end())
}

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = String> {
    WRITES.iter().filter_map(|(name, text)| Some(Signature::of(name)?.function("app", name, text)))
}

/// Every statement that writes or locks, with the text that calls its function.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, String)> {
    WRITES.iter().filter_map(|(name, text)| Some((*text, Signature::of(name)?.call("app", name, text))))
}
