//! Where a job can stand, and the one table of how it moves.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Enqueued, not taken yet.
    Pending,
    /// Given to a worker by a leader, not started yet.
    Assigned,
    /// Held by a worker under a lease.
    Running,
    /// To be run again at its due time.
    Retry,
    /// Holds no worker; wakes by approval, signal, timer or children.
    Waiting,
    /// Was assigned to a worker that is gone.
    Orphaned,
    /// Done, with its result.
    Completed,
    /// Gave up, with its error.
    Failed,
    /// Gave up after its attempts took too long.
    TimedOut,
    /// Stopped on request.
    Cancelled,
}

use Status::{Assigned, Cancelled, Completed, Failed, Orphaned, Pending, Retry, Running, TimedOut, Waiting};

impl Status {
    /// Every status, live ones first.
    pub const ALL: [Self; 10] =
        [Pending, Assigned, Running, Retry, Waiting, Orphaned, Completed, Failed, TimedOut, Cancelled];

    /// The word for it in SQL, JSON, CLI and docs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Pending => "pending",
            Assigned => "assigned",
            Running => "running",
            Retry => "retry",
            Waiting => "waiting",
            Orphaned => "orphaned",
            Completed => "completed",
            Failed => "failed",
            TimedOut => "timed_out",
            Cancelled => "cancelled",
        }
    }

    /// The status a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Whether nothing but redrive leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Completed | Failed | TimedOut | Cancelled)
    }

    /// Whether it is a dead letter.
    pub const fn is_dead(self) -> bool {
        matches!(self, Failed | TimedOut)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One row of the table: a command, from where, to where.
#[derive(Debug, Clone, Copy)]
pub struct Transition {
    /// The imperative that moves the job.
    pub command: &'static str,
    /// Statuses it may start from.
    pub from: &'static [Status],
    /// Statuses it may end in.
    pub to: &'static [Status],
    /// What to know about it.
    pub note: &'static str,
}

const fn row(
    command: &'static str,
    from: &'static [Status],
    to: &'static [Status],
    note: &'static str,
) -> Transition {
    Transition { command, from, to, note }
}

/// The law of movement. The guards of both databases and the page in the docs are tested against it.
pub const TRANSITIONS: &[Transition] = &[
    row(
        "claim",
        &[Pending, Retry, Orphaned, Waiting],
        &[Running],
        "due; attempt + 1 and a new lease. Waiting only when woken",
    ),
    row(
        "claim",
        &[Running],
        &[Running, Cancelled, Retry, TimedOut, Failed],
        "the lease is over: handed out again, or settled (cancel requested, timeout, crash limit)",
    ),
    row(
        "assign",
        &[Pending, Retry, Orphaned, Waiting],
        &[Assigned],
        "leader only, under its epoch; due. Waiting only when woken",
    ),
    row(
        "assign",
        &[Running],
        &[Retry, Cancelled, TimedOut, Failed],
        "the lease is over: back in line, or settled (cancel requested, timeout, crash limit)",
    ),
    row("start", &[Assigned], &[Running], "the assigned worker only; attempt + 1 and a new lease"),
    row("orphan", &[Assigned], &[Orphaned], "not started in time and the worker is gone"),
    row("complete", &[Running], &[Completed], "needs the lease"),
    row("complete", &[Waiting], &[Completed], "a flow without a callback, when its jobs have ended"),
    row("retry", &[Running], &[Retry], "needs the lease: a failure with retries left, a snooze, a release"),
    row("fail", &[Running, Retry, Waiting], &[Failed], "an error is required"),
    row("time_out", &[Running], &[Retry, TimedOut], "retry while retries are left"),
    row("wait", &[Running], &[Waiting], "gives the lease up; for approval, signal, timer or children"),
    row(
        "cancel",
        &[Pending, Assigned, Running, Retry, Waiting, Orphaned],
        &[Cancelled],
        "at once when nobody holds it; a holder is asked first",
    ),
    row(
        "redrive",
        &[Failed, TimedOut, Cancelled],
        &[Pending],
        "operator verb: generation + 1, older leases dead",
    ),
    row(
        "rearm",
        &[Cancelled],
        &[Waiting],
        "skipped because of a job that is redriven: it waits for that again",
    ),
];

/// Whether the table lets a job go from one status to another. Staying is not a transition.
pub fn legal(from: Status, to: Status) -> bool {
    from != to && TRANSITIONS.iter().any(|t| t.from.contains(&from) && t.to.contains(&to))
}

/// What a hand with an SQL prompt may do: cancel or fail, along a legal transition.
pub fn legal_by_hand(from: Status, to: Status) -> bool {
    matches!(to, Cancelled | Failed) && legal(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for s in Status::ALL {
            assert_eq!(Status::parse(s.as_str()), Some(s));
            assert_eq!(serde_json::to_string(&s).unwrap(), format!("\"{s}\""));
        }
        assert_eq!(Status::parse("done"), None);
    }

    /// The pairs, counted by hand from the design's table: M1, M2, R2.
    #[test]
    fn the_table_has_these_pairs_and_no_others() {
        let pairs: Vec<String> = Status::ALL
            .iter()
            .flat_map(|f| Status::ALL.iter().map(move |t| (*f, *t)))
            .filter(|(f, t)| legal(*f, *t))
            .map(|(f, t)| format!("{f}>{t}"))
            .collect();
        assert_eq!(
            pairs.join(" "),
            "pending>assigned pending>running pending>cancelled \
             assigned>running assigned>orphaned assigned>cancelled \
             running>retry running>waiting running>completed running>failed running>timed_out running>cancelled \
             retry>assigned retry>running retry>failed retry>cancelled \
             waiting>assigned waiting>running waiting>completed waiting>failed waiting>cancelled \
             orphaned>assigned orphaned>running orphaned>cancelled \
             failed>pending timed_out>pending cancelled>pending cancelled>waiting"
        );
    }
}
