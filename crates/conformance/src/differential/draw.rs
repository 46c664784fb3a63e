//! How often a random life does what, and with which values.

use super::plan::{Act, Ballot, End, KeyLimits, Limits, Node, Place, Shown, Spec};
use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::BoxedStrategy;

fn yes() -> impl Strategy<Value = bool> {
    any::<bool>()
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![6 => 0..3usize, 1 => 3..20usize]
}

fn shown() -> impl Strategy<Value = Shown> {
    prop_oneof![12 => place().prop_map(Shown::Held), 1 => place().prop_map(Shown::Forged)]
}

fn some_ms() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 3 => 1..1_000i64, 1 => 1_000..30_000i64]
}

/// Mostly in bounds, sometimes not.
fn odd(low: i64, high: i64) -> impl Strategy<Value = i64> {
    prop_oneof![80 => low..=high, 1 => Just(low - 1), 1 => Just(high + 1)]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        3 => vec((place(), 0..3usize), 1..3).prop_map(Node::After),
        1 => (0..3usize, yes(), yes()).prop_map(|(join, callback, open)| Node::Flow { join, callback, open }),
    ]
}

pub fn spec() -> impl Strategy<Value = Spec> {
    // Mostly one line, so that relatives meet in it.
    let priority = prop_oneof![2 => Just(0), 1 => odd(-5, 5)];
    let first = (0..2usize, 0..2usize, priority, some_ms(), odd(0, 2), weighted(0.3, odd(500, 20_000)));
    let then = (weighted(0.2, 1_000..60_000i64), prop_oneof![4 => Just(0), 1 => 1..20_000i64], yes());
    let last = (
        0..4usize,
        0..3usize,
        weighted(0.4, (0..3usize, 0..6usize)),
        weighted(0.4, (place(), proptest::bool::weighted(0.3))),
        weighted(0.5, 0..3usize),
        weighted(0.3, node()),
        prop_oneof![3 => Just(1), 1 => 1..6i32],
    );
    (first, then, last).prop_map(|(first, then, last)| Spec {
        queue: first.0,
        kind: first.1,
        priority: first.2 as i32,
        delay_ms: first.3,
        max_retries: first.4 as i32,
        timeout_ms: first.5,
        lease_ms: then.0,
        grace_ms: then.1,
        jitter: then.2,
        labels: last.0,
        payload: last.1,
        unique: last.2,
        parent: last.3,
        lane: last.4,
        graph: last.5,
        cost: last.6,
    })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Complete),
        3 => (weighted(0.6, some_ms()), proptest::bool::weighted(0.3))
            .prop_map(|(delay_ms, permanent)| End::Fail { permanent, delay_ms }),
        1 => some_ms().prop_map(End::Release),
        2 => (2_000..20_000i64).prop_map(End::RateLimited),
        1 => Just(End::TimeOut),
        1 => Just(End::Cancelled),
        1 => some_ms().prop_map(End::Timer),
        2 => (0..2usize, of(some_ms())).prop_map(|(name, expires_ms)| End::Signal { name, expires_ms }),
        2 => of(some_ms()).prop_map(|expires_ms| End::Children { expires_ms }),
        2 => (of(some_ms()), any::<bool>())
            .prop_map(|(expires_ms, has_seen_all)| End::News { expires_ms, has_seen_all }),
        4 => (0..2usize).prop_map(End::Approval),
    ]
}

fn key() -> impl Strategy<Value = Option<usize>> {
    weighted(0.4, 0..3usize)
}

pub fn on_jobs() -> BoxedStrategy<Act> {
    prop_oneof![
        6 => (vec(spec(), 1..4), weighted(0.15, (0..2usize, 0..2usize)))
            .prop_map(|(jobs, promise)| Act::Enqueue { jobs, promise }),
        1 => (place(), yes()).prop_map(|(job, altered)| Act::EnqueueAgain { job, altered }),
        2 => (place(), weighted(0.5, shown()), 0..5usize, weighted(0.3, 0..2i64), key())
            .prop_map(|(job, lease, type_name, behind, key)| Act::Append { job, lease, type_name, behind, key }),
        2 => (shown(), of(odd(0, 100)), yes(), yes(), weighted(0.3, -1..9i32), key()).prop_map(
            |(lease, progress, meta, checkpoint, charge, key)| {
                Act::Progress { lease, progress, meta, checkpoint, charge, key }
            }
        ),
        3 => (shown(), 0..2usize, yes(), yes(), 0..2usize)
            .prop_map(|(lease, name, tool, finished, value)| Act::Step { lease, name, tool, finished, value }),
        2 => (place(), yes(), odd(0, 20_000), behind())
            .prop_map(|(job, force, force_after_ms, behind)| Act::Cancel { job, force, force_after_ms, behind }),
        3 => (place(), some_ms(), yes(), yes(), key(), behind()).prop_map(
            |(job, delay_ms, from_start, payload, key, behind)| {
                Act::Redrive { job, delay_ms, from_start, payload, key, behind }
            }
        ),
        2 => (place(), yes()).prop_map(|(skip, from_start)| Act::RedriveCause { skip, from_start }),
        1 => (place(), weighted(0.5, 0..6i64), proptest::bool::weighted(0.3), yes(), behind()).prop_map(
            |(job, from_version, again, payload, behind)| Act::Fork { job, from_version, again, payload, behind }
        ),
        1 => (place(), weighted(0.2, place())).prop_map(|(flow, job)| Act::Seal { flow, job }),
        1 => (shown(), 0..3usize).prop_map(|(lease, lines)| Act::WriteLogs { lease, lines }),
        1 => (place(), 0..2i64).prop_map(|(job, behind)| Act::Purge { job, behind }),
        2 => place().prop_map(|removed| Act::Restore { removed }),
        1 => (place(), behind()).prop_map(|(job, behind)| Act::Erase { job, behind }),
        2 => (place(), 1..3i64, select(vec![0, 0, 1]), 0..2usize, select(vec![0, 0, 0, 1])).prop_map(
            |(job, lines, skip, part, behind)| Act::MoveLogs { job, lines, skip, part, behind }
        ),
        1 => (place(), 0..8i64).prop_map(|(job, version)| Act::Look { job, version }),
    ]
    .boxed()
}

/// How far the version that an operator expects is behind, if one is expected.
fn behind() -> impl Strategy<Value = Option<i64>> {
    weighted(0.3, select(vec![0, 0, 1]))
}

fn again() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.15)
}

pub fn claims() -> BoxedStrategy<Act> {
    prop_oneof![
        3 => (0..3usize, vec(0..2usize, 1..3), weighted(0.1, 0..2usize), 0..4usize, again(), 0..4usize).prop_map(
            |(worker, queues, kind, max, again, from)| Act::Claim { worker, queues, kind, max, again, from }
        ),
        1 => (place(), 0..3usize, again()).prop_map(|(job, worker, again)| Act::ClaimOne { job, worker, again }),
        1 => (spec(), weighted(0.3, (place(), again())), 0..3usize)
            .prop_map(|(job, again, worker)| Act::EnqueueClaimed { job, again, worker }),
    ]
    .boxed()
}

pub fn on_leases() -> BoxedStrategy<Act> {
    prop_oneof![
        8 => claims(),
        1 => (vec(shown(), 1..4), 1_000..60_000i64).prop_map(|(leases, ms)| Act::Extend { leases, ms }),
        6 => vec((shown(), end()), 1..3).prop_map(Act::Settle),
        3 => (0..2usize).prop_map(|holder| Act::AcquireTerm { holder }),
        1 => (0..2usize, 0..2i64).prop_map(|(holder, behind)| Act::RenewTerm { holder, behind }),
        1 => (0..2usize, 0..2i64).prop_map(|(holder, behind)| Act::ResignTerm { holder, behind }),
        3 => (vec((place(), 0..3usize), 1..4), select(vec![0, 0, 0, 1]), odd(1, 9_000))
            .prop_map(|(items, behind, lapse_ms)| Act::Assign { items, behind, lapse_ms }),
        3 => (place(), proptest::bool::weighted(0.2), again()).prop_map(
            |(assignment, wrong_worker, again)| Act::Start { assignment, wrong_worker, again }
        ),
        3 => (1..5usize).prop_map(|limit| Act::Sweep { limit }),
    ]
    .boxed()
}

pub fn on_waits() -> BoxedStrategy<Act> {
    let ballot = prop_oneof![
        3 => (place(), weighted(0.4, 0..3usize)).prop_map(|(of, key)| Ballot::Link { of, key }),
        1 => Just(Ballot::Garbage),
        4 => (0..3usize, 0..2usize).prop_map(|(name, role)| Ballot::Key { name, role }),
    ];
    let approve = proptest::bool::weighted(0.7);
    prop_oneof![
        3 => (place(), 0..2usize, key()).prop_map(|(job, name, key)| Act::Signal { job, name, key }),
        5 => (shown(), 0..2usize, 0..3usize, odd(1, 3), odd(1, 50_000), again(), yes(), weighted(0.3, 0..3usize))
            .prop_map(|(lease, gate, approvers, required, expires_ms, again, waits, asker)| {
                let required = required as i32;
                Act::Ask { lease, gate, approvers, required, expires_ms, again, waits, asker }
            }),
        5 => (place(), approve, ballot)
            .prop_map(|(approval, approve, ballot)| Act::Vote { approval, approve, ballot }),
    ]
    .boxed()
}

/// Limits: of the queue, of each key with the weight of one, or none.
fn flow() -> impl Strategy<Value = Limits> {
    let rate = || weighted(0.3, (1..5i32, 1..5i32));
    let backlog = weighted(0.3, (1..4i32, proptest::bool::ANY));
    let lanes = (weighted(0.7, 1..3i32), rate(), 1..3i32, backlog, proptest::bool::weighted(0.2)).prop_map(
        |(concurrency, rate, weight, backlog, newest)| KeyLimits {
            concurrency,
            rate,
            weight,
            backlog,
            newest,
        },
    );
    let aging = weighted(0.3, 1_000..3_000i64);
    let breaker = proptest::bool::weighted(0.4);
    (weighted(0.4, 1..4i32), rate(), weighted(0.6, lanes), aging, breaker).prop_map(
        |(concurrency, rate, lanes, aging_ms, has_breaker)| Limits {
            concurrency,
            rate,
            lanes,
            aging_ms,
            has_breaker,
        },
    )
}

pub fn on_surroundings() -> BoxedStrategy<Act> {
    prop_oneof![
        (0..2usize, proptest::bool::weighted(0.3))
            .prop_map(|(queue, pause)| Act::PauseQueue { queue, pause }),
        (0..2usize, weighted(0.8, 0..3usize)).prop_map(|(queue, key)| Act::ReleaseLane { queue, key }),
        (0..2usize, 0..6i32, proptest::bool::weighted(0.2), weighted(0.5, flow()), 0..5usize).prop_map(
            |(queue, n, push, flow, endpoint)| Act::PutQueue { queue, retries: n * 25, push, flow, endpoint }
        ),
        (0..2usize, proptest::bool::weighted(0.7), select(vec![0, 0, 0, 1]))
            .prop_map(|(queue, breaks, behind)| Act::BreakQueue { queue, breaks, behind }),
        (0..3usize, proptest::bool::weighted(0.2))
            .prop_map(|(worker, draining)| Act::PutWorker { worker, draining }),
        (0..3usize).prop_map(|worker| Act::DrainWorker { worker }),
        (0..3usize).prop_map(|worker| Act::RemoveWorker { worker }),
        (0..2usize, 0..3usize).prop_map(|(name, hash)| Act::PutKey { name, hash }),
        (0..2usize).prop_map(|name| Act::RevokeKey { name }),
        (0..2usize, 0..2usize).prop_map(|(key, hash)| Act::Remember { key, hash }),
        (0..2usize, 0..2usize).prop_map(|(key, hash)| Act::Recall { key, hash }),
    ]
    .boxed()
}
