//! What a random life looks like: turns that name jobs, leases and approvals by place, not by identity.

use super::draw::{claims, on_jobs, on_leases, on_surroundings, on_waits, spec};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::strategy::BoxedStrategy;
use proptest_state_machine::ReferenceStateMachine;

/// One call, after so much time.
#[derive(Debug, Clone)]
pub struct Turn {
    /// How long nothing happened before, in milliseconds.
    pub wait_ms: i64,
    /// The call.
    pub act: Act,
    /// Whether it goes through SQL, where the store has an SQL API.
    pub by_sql: bool,
}

/// A place counted from the newest; beyond the oldest it starts over. Nothing is there before the first.
pub type Place = usize;

/// A lease as a holder shows it.
#[derive(Debug, Clone, Copy)]
pub enum Shown {
    /// The lease itself.
    Held(Place),
    /// A token that never was one, for a job.
    Forged(Place),
}

/// A job as it is enqueued.
#[derive(Debug, Clone)]
pub struct Spec {
    pub queue: usize,
    pub kind: usize,
    pub priority: i32,
    pub delay_ms: i64,
    pub max_retries: i32,
    pub timeout_ms: Option<i64>,
    pub lease_ms: Option<i64>,
    pub grace_ms: i64,
    pub jitter: bool,
    pub labels: usize,
    pub payload: usize,
    pub unique: Option<(usize, usize)>,
    pub parent: Option<(Place, bool)>,
    /// Whose job it is.
    pub lane: Option<usize>,
    pub cost: i32,
    pub graph: Option<Node>,
}

/// A job's place in a graph.
#[derive(Debug, Clone)]
pub enum Node {
    /// It waits for others: which, and for which end.
    After(Vec<(Place, usize)>),
    /// It is the parent of a flow.
    Flow { join: usize, callback: bool, open: bool },
}

/// Limits of a queue. A rate is its units and its burst.
#[derive(Debug, Clone)]
pub struct Limits {
    pub concurrency: Option<i32>,
    pub rate: Option<(i32, i32)>,
    pub lanes: Option<KeyLimits>,
    pub aging_ms: Option<i64>,
    pub has_breaker: bool,
}

/// Limits of each key, and the weight of one of them.
#[derive(Debug, Clone)]
pub struct KeyLimits {
    pub concurrency: Option<i32>,
    pub rate: Option<(i32, i32)>,
    pub weight: i32,
    /// How many may wait, and whether further ones are dropped.
    pub backlog: Option<(i32, bool)>,
    pub newest: bool,
}

/// How an attempt ends.
#[derive(Debug, Clone)]
pub enum End {
    Complete,
    Fail { permanent: bool, delay_ms: Option<i64> },
    Release(i64),
    RateLimited(i64),
    TimeOut,
    Cancelled,
    Timer(i64),
    Signal { name: usize, expires_ms: Option<i64> },
    Children { expires_ms: Option<i64> },
    News { expires_ms: Option<i64>, has_seen_all: bool },
    Approval(usize),
}

/// Who votes.
#[derive(Debug, Clone, Copy)]
pub enum Ballot {
    Link { of: Place, key: Option<usize> },
    Garbage,
    Key { name: usize, role: usize },
}

/// One call of one verb.
#[derive(Debug, Clone)]
pub enum Act {
    Enqueue {
        jobs: Vec<Spec>,
        promise: Option<(usize, usize)>,
    },
    EnqueueAgain {
        job: Place,
        altered: bool,
    },
    Claim {
        worker: usize,
        queues: Vec<usize>,
        kind: Option<usize>,
        max: usize,
        again: bool,
        /// Behind which lane the first turn is.
        from: usize,
    },
    ClaimOne {
        job: Place,
        worker: usize,
        again: bool,
    },
    EnqueueClaimed {
        job: Spec,
        again: Option<(Place, bool)>,
        worker: usize,
    },
    Extend {
        leases: Vec<Shown>,
        ms: i64,
    },
    Settle(Vec<(Shown, End)>),
    Append {
        job: Place,
        lease: Option<Shown>,
        type_name: usize,
        behind: Option<i64>,
        key: Option<usize>,
    },
    Progress {
        lease: Shown,
        progress: Option<i64>,
        meta: bool,
        checkpoint: bool,
        charge: Option<i32>,
        key: Option<usize>,
    },
    Step {
        lease: Shown,
        name: usize,
        tool: bool,
        finished: bool,
        value: usize,
    },
    Cancel {
        job: Place,
        force: bool,
        force_after_ms: i64,
        behind: Option<i64>,
    },
    Redrive {
        job: Place,
        delay_ms: i64,
        from_start: bool,
        payload: bool,
        key: Option<usize>,
        behind: Option<i64>,
    },
    /// Redrives a job because of which another was skipped.
    RedriveCause {
        skip: Place,
        from_start: bool,
    },
    Fork {
        job: Place,
        from_version: Option<i64>,
        again: bool,
        payload: bool,
        behind: Option<i64>,
    },
    Seal {
        flow: Place,
        job: Option<Place>,
    },
    WriteLogs {
        lease: Shown,
        lines: usize,
    },
    Signal {
        job: Place,
        name: usize,
        key: Option<usize>,
    },
    Ask {
        lease: Shown,
        gate: usize,
        approvers: usize,
        required: i32,
        expires_ms: i64,
        again: bool,
        waits: bool,
        asker: Option<usize>,
    },
    Vote {
        approval: Place,
        approve: bool,
        ballot: Ballot,
    },
    AcquireTerm {
        holder: usize,
    },
    RenewTerm {
        holder: usize,
        behind: i64,
    },
    ResignTerm {
        holder: usize,
        behind: i64,
    },
    Assign {
        items: Vec<(Place, usize)>,
        behind: i64,
        lapse_ms: i64,
    },
    Start {
        assignment: Place,
        wrong_worker: bool,
        again: bool,
    },
    Sweep {
        limit: usize,
    },
    Purge {
        job: Place,
        behind: i64,
    },
    Restore {
        removed: Place,
    },
    Erase {
        job: Place,
        behind: Option<i64>,
    },
    MoveLogs {
        job: Place,
        lines: i64,
        skip: i64,
        part: usize,
        behind: i64,
    },
    PauseQueue {
        queue: usize,
        pause: bool,
    },
    ReleaseLane {
        queue: usize,
        key: Option<usize>,
    },
    PutQueue {
        queue: usize,
        retries: i32,
        push: bool,
        /// Limits of the queue and of each key, and the weight of one key; as before when absent.
        flow: Option<Limits>,
        endpoint: usize,
    },
    BreakQueue {
        queue: usize,
        breaks: bool,
        behind: i64,
    },
    PutWorker {
        worker: usize,
        draining: bool,
    },
    DrainWorker {
        worker: usize,
    },
    RemoveWorker {
        worker: usize,
    },
    PutKey {
        name: usize,
        hash: usize,
    },
    RevokeKey {
        name: usize,
    },
    Remember {
        key: usize,
        hash: usize,
    },
    Recall {
        key: usize,
        hash: usize,
    },
    Look {
        job: Place,
        version: i64,
    },
}

/// How far a plan has come: enough to begin with jobs, and to claim before leases are used.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    jobs: usize,
    claims: usize,
}

/// The generator of plans.
#[derive(Debug)]
pub struct Plan;

impl ReferenceStateMachine for Plan {
    type State = Symbols;
    type Transition = Turn;

    fn init_state() -> BoxedStrategy<Symbols> {
        Just(Symbols::default()).boxed()
    }

    fn transitions(state: &Symbols) -> BoxedStrategy<Turn> {
        let wait_ms = prop_oneof![
            40 => Just(0i64),
            30 => 1..300i64,
            8 => 300..6_000i64,
            2 => 6_000..40_000i64,
            1 => Just(86_400_000i64),
        ];
        let act = match (state.jobs, state.claims) {
            (0, _) => vec(spec(), 1..4).prop_map(|jobs| Act::Enqueue { jobs, promise: None }).boxed(),
            (_, 0) => prop_oneof![6 => claims(), 2 => on_leases(), 2 => on_jobs(), 1 => on_waits()].boxed(),
            _ => prop_oneof![10 => on_leases(), 10 => on_jobs(), 6 => on_waits(), 5 => on_surroundings()]
                .boxed(),
        };
        let by_sql = proptest::bool::weighted(0.5);
        (wait_ms, act, by_sql).prop_map(|(wait_ms, act, by_sql)| Turn { wait_ms, act, by_sql }).boxed()
    }

    fn apply(mut state: Symbols, turn: &Turn) -> Symbols {
        match &turn.act {
            Act::Enqueue { jobs, .. } => state.jobs += jobs.len(),
            Act::Claim { max, .. } => state.claims += usize::from(*max > 0),
            Act::ClaimOne { .. } | Act::Start { .. } => state.claims += 1,
            Act::EnqueueClaimed { .. } => (state.jobs, state.claims) = (state.jobs + 1, state.claims + 1),
            Act::Settle(ends) => state.claims = state.claims.saturating_sub(ends.len()),
            _ => {}
        }
        state
    }
}
