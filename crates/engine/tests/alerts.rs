//! Alerts: they fire once, are over once, and each change is sent under one id, also when the leader changes.

mod bed;

use async_trait::async_trait;
use bed::{Bed, DEADLINE, name, new_job, who};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::alert::{Alert, AlertState, Metric};
use windlass_core::decide::Claim;
use windlass_core::registry::Slots;
use windlass_core::schedule::{PauseSchedule, Schedule, Timing};
use windlass_core::subscription::{Begin, GIVE_UP_MS, Selection, Subscription, TIMEOUT_MS, Target};
use windlass_core::{Actor, Facts, Failure, JobId, LeaseMs, Metadata, Name, Outcome};
use windlass_engine::Shutdown;
use windlass_engine::service::{
    Alerts, Follower, Leader, Message, PublishError, Published, Publisher, Publishers, Source, StatsReader,
};
use windlass_store::{
    Ask, ClaimMany, Claimed, Clocked, Credential, FeedEvent, PaperKind, PutPaper, PutSchedule,
    PutSubscription, PutWorker, Settle, SettleItem, fresh,
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What arrived, and how many sends fail before one does.
#[derive(Debug, Clone, Default)]
struct Post {
    arrived: Arc<Mutex<Vec<(String, String)>>>,
    fails: Arc<Mutex<usize>>,
}

#[async_trait]
impl Publisher for Post {
    async fn publish(&mut self, messages: &[Message]) -> Published {
        let mut fails = self.fails.lock().expect("unpoisoned");
        if *fails > 0 {
            *fails -= 1;
            let error = Some(PublishError::Temporary("busy".to_owned(), None));
            return Published { arrived: vec![false; messages.len()], error };
        }
        for message in messages {
            self.arrived.lock().expect("unpoisoned").push((message.id.clone(), message.type_name.clone()));
        }
        Published { arrived: vec![true; messages.len()], error: None }
    }
}

#[async_trait]
impl Publishers for Post {
    async fn open(
        &self,
        _: &Subscription,
        _: Option<Credential>,
    ) -> Result<Box<dyn Publisher>, PublishError> {
        Ok(Box::new(self.clone()))
    }

    async fn source(&self, _: &Subscription, _: Option<Credential>) -> Result<Box<dyn Source>, PublishError> {
        Err(PublishError::Permanent("none".to_owned()))
    }

    fn write(&self, _: &FeedEvent) -> Vec<u8> {
        Vec::new()
    }
}

/// A process that leads, or waits to; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str, post: &Post) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let publishers: Arc<dyn Publishers> = Arc::new(post.clone());
    let alerts = Alerts::new(Arc::clone(&bed.store), leader.leading(), Some(publishers));
    let stats =
        Follower::new(Arc::clone(&bed.store), leader.leading(), StatsReader::new(Arc::clone(&bed.store)));
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(
            leader.run(shutdown.clone()),
            stats.run(shutdown.clone()),
            alerts.every(Duration::from_millis(50)).run(shutdown)
        );
    });
}

/// The bed under a clock that is so many milliseconds ahead of this machine's.
fn clocked(bed: Bed) -> (Bed, Arc<AtomicI64>) {
    let ahead_ms = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&ahead_ms);
    let now = move || fresh::wall_clock().plus_ms(clock.load(Ordering::Acquire));
    (bed.around(|store| Clocked::new(store, now)).0, ahead_ms)
}

async fn cancel(bed: &Bed, job: JobId) {
    let wish = windlass_core::decide::Cancel {
        actor: Actor::engine(),
        reason: None,
        force: true,
        force_after_ms: 0,
    };
    let cancel = windlass_store::Cancel { job, wish, expected_version: None };
    bed.store.cancel(cancel, None).await.expect("the store").expect("cancelled");
}

/// Has so many jobs of the default queue run, and this come of each.
async fn run(bed: &Bed, n: usize, outcome: Outcome) {
    bed.put_all((0..n).map(|_| new_job("mail")).collect()).await;
    let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms: LeaseMs::DEFAULT };
    let many = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: n, claim };
    let held = bed.store.claim(many, None).await.expect("the store");
    let item =
        |one: &Claimed| SettleItem { job: one.job.id, token: one.lease.token, outcome: outcome.clone() };
    let items: Vec<_> = held.iter().map(item).collect();
    assert_eq!(items.len(), n);
    bed.store.settle(Settle { items }, None).await.expect("the store");
}

/// An alert that fires once this is measured.
fn alert(metric: Metric, than_ms: Option<i64>, percent: Option<i64>) -> Alert {
    Alert { metric, queue: None, than_ms, percent, for_ms: 0, notify: None }
}

/// Waits until it fires, and says why.
async fn fires(bed: &Bed, which: &str) -> String {
    until(bed, which, |state| state.firing.is_some()).await.firing.expect("it fires").why
}

/// Waits until it is over. Others that were watched since their beginning never fired.
async fn is_over(bed: &Bed, which: &str, silent: &str) {
    until(bed, which, |state| state.firing.is_none()).await;
    until(bed, silent, |state| state.changes == 0).await;
}

async fn subscribe(bed: &Bed) {
    let target = Target::Webhook { url: "https://a.example".to_owned(), timeout_ms: TIMEOUT_MS };
    let credential = Some(Credential::parse(&target, SECRET).expect("a secret"));
    let subscription =
        Subscription { select: Selection::default(), target, from: Begin::Now, give_up_ms: GIVE_UP_MS };
    let actor = Actor::engine();
    let put = PutSubscription { name: name("ops"), subscription, credential, expected_version: None, actor };
    bed.store.put_subscription(put, None).await.expect("the store").expect("made");
}

async fn watch(bed: &Bed, which: &str, alert: Alert) {
    alert.check().expect("an alert");
    let put = PutPaper {
        kind: PaperKind::Alert,
        name: name(which),
        body: serde_json::to_value(AlertState::new(alert)).expect("a value"),
        expected_version: Some(0),
        term: None,
        action: Some("alert.put"),
        actor: Actor::engine(),
    };
    bed.store.put_paper(put, None).await.expect("the store").expect("made");
}

fn no_worker(notify: Option<Name>) -> Alert {
    Alert { metric: Metric::NoWorker, queue: None, than_ms: None, percent: None, for_ms: 200, notify }
}

async fn until(bed: &Bed, which: &str, wished: impl Fn(&AlertState) -> bool) -> AlertState {
    let looked = async {
        loop {
            let paper = bed.store.paper((PaperKind::Alert, name(which)), None).await.expect("the store");
            let state = AlertState::read(&paper.expect("it is there")).expect("it reads");
            if wished(&state) {
                return state;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, looked).await.expect("it never came so far")
}

on_every_store! {
    /// (alerts) A queue with work that nobody serves: it fires, is sent once, and is over when the work is gone. Sends that fail
    /// are tried again; leaders die between.
    #[test]
    async fn an_alert_fires_and_is_over_and_each_is_sent_once(bed: Bed) {
        subscribe(&bed).await;
        watch(&bed, "alone", no_worker(Some(name("ops")))).await;
        let post = Post::default();
        *post.fails.lock().expect("unpoisoned") = 2;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &post);
        sleep(Duration::from_millis(500)).await;
        until(&bed, "alone", |state| state.firing.is_none() && state.changes == 0).await;
        let job = bed.put("lonely").await;
        let fires = until(&bed, "alone", |state| state.firing.is_some() && !state.is_unsent()).await;
        assert!(fires.firing.is_some_and(|firing| firing.why.contains("default")));
        tasks.shutdown().await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "b", &post);
        process(&bed, &mut tasks, "c", &post);
        sleep(Duration::from_millis(2_500)).await;
        cancel(&bed, job).await;
        until(&bed, "alone", |state| state.firing.is_none() && !state.is_unsent()).await;
        sleep(Duration::from_millis(300)).await;
        let arrived = post.arrived.lock().expect("unpoisoned").clone();
        let expected = [("alert-alone-1", "alert_firing"), ("alert-alone-2", "alert_resolved")];
        assert_eq!(arrived, expected.map(|(id, word)| (id.to_owned(), word.to_owned())));
    }

    /// (alerts) One whose subscription is gone says so and stops no other; one that does not read back neither.
    #[test]
    async fn an_alert_that_cannot_be_sent_says_so(bed: Bed) {
        watch(&bed, "b-alone", no_worker(Some(name("gone")))).await;
        watch(&bed, "a-alone", no_worker(None)).await;
        let bad = PutPaper {
            kind: PaperKind::Alert,
            name: name("c-bad"),
            body: serde_json::json!({ "alert": 1 }),
            expected_version: None,
            term: None,
            action: None,
            actor: Actor::engine(),
        };
        bed.store.put_paper(bad, None).await.expect("the store").expect("written");
        bed.put("lonely").await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        let unsent = until(&bed, "b-alone", |state| state.unsent.is_some()).await;
        assert!(unsent.unsent.is_some_and(|why| why.contains("no subscription gone")));
        until(&bed, "a-alone", |state| state.firing.is_some() && !state.is_unsent()).await;
    }

    /// (alerts) A worker that drains serves nobody; one that is there does.
    #[test]
    async fn a_queue_whose_workers_drain_is_served_by_none(bed: Bed) {
        watch(&bed, "alone", no_worker(None)).await;
        let put = |draining| PutWorker {
            id: who("w"),
            queues: vec![name("default")],
            kinds: Vec::new(),
            capacity: 1,
            slots: Slots::new(),
            labels: Metadata::new(),
            draining,
            ttl_ms: LeaseMs::new(600_000).expect("a lease"),
        };
        bed.store.put_worker(put(false), None).await.expect("the store");
        bed.put("mail").await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        sleep(Duration::from_millis(800)).await;
        until(&bed, "alone", |state| state.changes == 0).await;
        bed.store.put_worker(put(true), None).await.expect("the store");
        assert_eq!(fires(&bed, "alone").await, "queue default: jobs are due and no worker serves it");
    }

    /// (alerts) A job that is due for longer than said, and no other; over once somebody took it.
    #[test]
    async fn a_job_that_is_due_for_long_fires_an_alert(bed: Bed) {
        let (bed, clock) = clocked(bed);
        watch(&bed, "late", alert(Metric::OldestDue, Some(300_000), None)).await;
        watch(&bed, "later", alert(Metric::OldestDue, Some(3_600_000), None)).await;
        clock.store(-600_000, Ordering::Release);
        let job = bed.put_with("mail", |facts| facts.queue = name("slow")).await;
        clock.store(0, Ordering::Release);
        bed.put("mail").await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        let why = fires(&bed, "late").await;
        assert!(why.starts_with("queue slow: a job is due since") && !why.contains("default"), "{why}");
        cancel(&bed, job).await;
        is_over(&bed, "late", "later").await;
    }

    /// (alerts) A queue of which more than so many percent ended badly, of ten at least; over when others end well.
    #[test]
    async fn a_share_of_bad_ends_fires_an_alert(bed: Bed) {
        watch(&bed, "bad", alert(Metric::FailureRate, None, Some(50))).await;
        watch(&bed, "worse", alert(Metric::FailureRate, None, Some(80))).await;
        let error = Failure::new("smtp", "no").expect("a failure");
        let fail = || Outcome::Fail { error: error.clone(), permanent: true, run_at: None };
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        run(&bed, 9, fail()).await;
        sleep(Duration::from_secs(3)).await;
        until(&bed, "worse", |state| state.changes == 0).await;
        until(&bed, "bad", |state| state.changes == 0).await;
        run(&bed, 4, Outcome::Complete(None)).await;
        assert_eq!(fires(&bed, "bad").await, "queue default: 9 of 13 jobs ended badly");
        run(&bed, 5, Outcome::Complete(None)).await;
        is_over(&bed, "bad", "worse").await;
    }

    /// (alerts) A question that nobody has answered and that runs out soon; over when it is not asked any more.
    #[test]
    async fn an_approval_that_runs_out_fires_an_alert(bed: Bed) {
        watch(&bed, "soon", alert(Metric::ApprovalExpires, Some(7_200_000), None)).await;
        watch(&bed, "sooner", alert(Metric::ApprovalExpires, Some(60_000), None)).await;
        let id = fresh::approval_id();
        bed.put("asks").await;
        let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms: LeaseMs::DEFAULT };
        let many = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 1, claim };
        let held = bed.store.claim(many, None).await.expect("the store").remove(0);
        let ask = Ask {
            job: held.job.id,
            token: held.lease.token,
            id,
            name: name("gate"),
            prompt: "may it?".into(),
            approvers: vec![],
            required: 1,
            expires_ms: 3_600_000,
            link_hash: fresh::link_token().hash(),
            asker: None,
        };
        bed.store.ask(ask, None).await.expect("the store").expect("asked");
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        let why = fires(&bed, "soon").await;
        assert!(why.starts_with(&format!("approval {id} runs out at")), "{why}");
        cancel(&bed, held.job.id).await;
        is_over(&bed, "soon", "sooner").await;
    }

    /// (alerts) A schedule that should have fired longer ago than said; not one that is paused.
    #[test]
    async fn a_schedule_that_did_not_fire_fires_an_alert(bed: Bed) {
        let (bed, clock) = clocked(bed);
        watch(&bed, "missed", alert(Metric::ScheduleMissed, Some(300_000), None)).await;
        watch(&bed, "long", alert(Metric::ScheduleMissed, Some(3_600_000), None)).await;
        clock.store(-600_000, Ordering::Release);
        let actor = Actor::engine();
        for (which, every_ms) in [("pulse", 60_000), ("daily", 86_400_000)] {
            let schedule = Schedule::new(Timing::Every(every_ms), Facts::new(name("tick"), name("default")));
            let put = PutSchedule { name: name(which), schedule, expected_version: None, actor: actor.clone() };
            bed.store.put_schedule(put, None).await.expect("the store").expect("made");
        }
        clock.store(0, Ordering::Release);
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", &Post::default());
        assert_eq!(fires(&bed, "missed").await, "schedule pulse did not fire");
        let pause = PauseSchedule { name: name("pulse"), pause: true, actor };
        bed.store.pause_schedule(pause, None).await.expect("the store").expect("paused");
        is_over(&bed, "missed", "long").await;
    }
}
