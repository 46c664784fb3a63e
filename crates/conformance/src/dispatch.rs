//! Queues in mode push: nobody takes from them, the leader assigns, and the worker starts what it was assigned.

use crate::{Bed, Racer, at, completes, for_signal, name, stop, time, together, who};
use windlass_core::dispatch::Requires;
use windlass_core::{Actor, Done, JobId, Name, QueueDefaults, QueueMode, Refusal, Status};
use windlass_store::{
    Assign, ClaimMany, Claimed, DrainWorker, EnqueueClaimed, Now, PauseQueue, PutQueue, ReadUnassigned,
    Unassigned, UnassignedPlace,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! dispatch_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            dispatch: nobody_takes_from_a_push_queue,
            a_claim_starts_what_its_worker_was_assigned,
            what_is_due_in_push_queues_is_paged_in_order,
            candidates_are_live_and_bring_what_they_have,
            many_are_assigned_at_once_and_each_is_told,
            a_lost_run_goes_back_into_line_and_is_assigned_again,
            nobody_is_assigned_a_run_in_its_grace,
            a_run_that_is_lost_too_often_ends,
            a_lost_run_that_was_to_be_cancelled_is,
            a_woken_job_is_assigned_and_told_why,
            an_assignment_of_a_drained_worker_becomes_an_orphan,
            a_queue_that_is_pulled_again_keeps_its_assignments,
            what_a_job_requires_is_limited,
            two_leaders_that_assign_at_once_are_one,
            an_assignment_racing_a_cancel_has_one_winner,
        );
    };
}

async fn sets(bed: &Bed, queue: &str, mode: QueueMode) {
    let (defaults, actor) = (QueueDefaults::default(), Actor::api());
    let request =
        PutQueue { defaults: Some(defaults), mode: Some(mode), ..PutQueue::new(name(queue), actor) };
    bed.store.put_queue(request, at(0)).await.expect("the store answers").expect("it is set");
}

/// A bed whose queue `default` is in mode push, and the epoch of its leader.
async fn pushed(bed: &Bed) -> i64 {
    sets(bed, "default", QueueMode::Push).await;
    bed.leads("a", at(0)).await.expect("the term is free").epoch
}

async fn waiting(bed: &Bed, now: Now) -> Vec<Unassigned> {
    let read = ReadUnassigned { after: vec![], limit: 100 };
    bed.store.unassigned(read, now).await.expect("the store answers").jobs
}

async fn waiting_ids(bed: &Bed, now: Now) -> Vec<JobId> {
    waiting(bed, now).await.into_iter().map(|job| job.id).collect()
}

/// A job that the worker was assigned and has started.
async fn started(bed: &Bed, worker: &str, epoch: i64, ms: i64) -> Claimed {
    let id = bed.a_job(at(ms)).await;
    assert_eq!(bed.gives(id, worker, epoch, at(ms)).await, Ok(Done::Moved(2, Status::Assigned)));
    bed.claims_one(worker, at(ms)).await
}

/// R2: pending jobs of a push queue become assigned, never claimed.
pub async fn nobody_takes_from_a_push_queue(bed: Bed) {
    let pulled = bed.enqueue(bed.job_in("work", "pulled"), at(0)).await.id;
    sets(&bed, "default", QueueMode::Push).await;
    let id = bed.a_job(at(0)).await;
    let taken = bed.claims_from("w", &["default", "pulled"], 9, at(1)).await;
    assert_eq!(taken.iter().map(|held| held.job.id).collect::<Vec<_>>(), [pulled], "others are taken");
    let by_id = bed.claims_by_id("w", id, at(1)).await;
    assert_eq!(by_id, Err(Refusal::NotClaimable(Status::Pending)));
    let job = bed.job("work");
    let new = EnqueueClaimed { job: job.clone(), actor: Actor::api(), claim: bed.claim("w") };
    let new = bed.store.enqueue_claimed(new, at(1)).await.expect("the store answers").expect("enqueued");
    assert_eq!((new.enqueued.existed, new.claimed), (false, None), "it is enqueued and not handed out");
    assert_eq!(waiting_ids(&bed, at(1)).await, [id, job.id]);
    assert_eq!(bed.types(id).await, ["job_created"]);
    sets(&bed, "default", QueueMode::Pull).await;
    assert_eq!(bed.claims("w", 9, at(2)).await.len(), 2);
    assert_eq!(waiting(&bed, at(2)).await, []);
}

/// R2, R3, R5: the worker learns of it by its claim, which is its start.
pub async fn a_claim_starts_what_its_worker_was_assigned(bed: Bed) {
    let epoch = pushed(&bed).await;
    let jobs = [bed.a_job(at(0)).await, bed.a_job(at(0)).await, bed.a_job(at(0)).await];
    for (job, worker) in jobs.into_iter().zip(["w1", "w1", "w2"]) {
        assert_eq!(bed.gives(job, worker, epoch, at(0)).await, Ok(Done::Moved(2, Status::Assigned)));
    }
    assert_eq!(waiting(&bed, at(1)).await, [], "they are no longer in line");
    assert_eq!(bed.claims_from("w1", &["other"], 9, at(1)).await, [], "of queues that it did not ask for");
    let mut claim = ClaimMany::new(who("w1"), vec![name("default")], 1, Bed::secret(7));
    claim.kinds = vec![name("play")];
    assert_eq!(bed.store.claim(claim.clone(), at(1)).await.expect("the store answers"), [], "of other kinds");
    claim.kinds = vec![name("play"), name("work")];
    let held = bed.store.claim(claim.clone(), at(1)).await.expect("the store answers");
    assert_eq!(held.len(), 1, "as many as it asked for");
    let again = bed.store.claim(claim, at(2)).await.expect("the store answers");
    assert_eq!(again, held, "the same claim again has the same lease");
    let row = &held[0].job;
    assert_eq!((row.status, row.attempt, row.epoch), (Status::Running, 1, Some(epoch)));
    assert_eq!(bed.types(row.id).await, ["job_created", "job_assigned", "job_started"]);
    let pause = PauseQueue { name: name("default"), pause: true, actor: Actor::api() };
    bed.store.pause_queue(pause.clone(), at(2)).await.expect("the store answers");
    assert_eq!(bed.claims("w1", 9, at(2)).await, [], "nothing starts in a paused queue");
    bed.store.pause_queue(PauseQueue { pause: false, ..pause }, at(2)).await.expect("the store answers");
    let rest = bed.claims("w1", 9, at(3)).await;
    let all = [held[0].job.id, rest[0].job.id];
    assert!(rest.len() == 1 && jobs[..2].iter().all(|job| all.contains(job)), "{rest:?}");
    for one in held.iter().chain(&rest) {
        assert_eq!(bed.settles(one, completes(), at(4)).await, Ok(Done::Moved(4, Status::Completed)));
    }
    assert_eq!(bed.row(jobs[2]).await.status, Status::Assigned, "it is another worker's");
}

/// R2, T7: by priority, then due time; behind any place; nothing of queues that are pulled or paused, nor for later.
pub async fn what_is_due_in_push_queues_is_paged_in_order(bed: Bed) {
    sets(&bed, "default", QueueMode::Push).await;
    sets(&bed, "second", QueueMode::Push).await;
    sets(&bed, "paused", QueueMode::Push).await;
    sets(&bed, "empty", QueueMode::Push).await;
    let pause = PauseQueue { name: name("paused"), pause: true, actor: Actor::api() };
    bed.store.pause_queue(pause, at(0)).await.expect("the store answers");
    for queue in ["pulled", "paused"] {
        bed.enqueue(bed.job_in("work", queue), at(0)).await;
    }
    let mut put = Vec::new();
    for (priority, ms) in [(0, 0), (5, 1), (0, 2), (-5, 3), (5, 4), (2, 90_000)] {
        let mut job = bed.job("work");
        job.facts.priority = priority;
        job.facts.run_at = windlass_core::RunAt::At(time(ms));
        job.facts.requires = Requires::from([(name("gpu"), format!("n{ms}"))]);
        put.push(bed.enqueue(job, at(0)).await.id);
    }
    let second = bed.enqueue(bed.job_in("play", "second"), at(0)).await.id;
    let read = ReadUnassigned { after: vec![], limit: 100 };
    let page = bed.store.unassigned(read, at(10)).await.expect("the store answers");
    assert_eq!(page.queues, [name("default"), name("empty"), name("second")]);
    let order = [put[1], put[4], put[0], put[2], put[3]];
    let ids = |jobs: &[Unassigned]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(ids(&page.jobs), [&order[..], &[second]].concat());
    let first = &page.jobs[0];
    assert_eq!((&first.queue, &first.kind, first.priority), (&name("default"), &name("work"), 5));
    assert_eq!((first.due_at, first.requires.get(&name("gpu")).map(String::as_str)), (time(1), Some("n1")));
    for (n, from) in page.jobs[..5].iter().enumerate() {
        let Unassigned { id, queue, priority, due_at, .. } = from.clone();
        let after = vec![UnassignedPlace { queue, priority, due_at, id }];
        let rest = bed.store.unassigned(ReadUnassigned { after, limit: 2 }, at(10)).await;
        let rest = rest.expect("the store answers").jobs;
        let expected: Vec<JobId> = order[n + 1..].iter().take(2).copied().chain([second]).collect();
        assert_eq!(ids(&rest), expected, "behind the one at {n}, two of each queue");
    }
}

/// R8
pub async fn candidates_are_live_and_bring_what_they_have(bed: Bed) {
    let epoch = pushed(&bed).await;
    for worker in ["busy", "idle", "drained"] {
        bed.registers(worker, at(0)).await;
    }
    let drain = DrainWorker { id: who("drained"), drain: true, actor: Actor::api() };
    bed.store.drain_worker(drain, at(0)).await.expect("the store answers");
    let runs = started(&bed, "busy", epoch, 0).await;
    let done = started(&bed, "busy", epoch, 0).await;
    bed.settles(&done, completes(), at(0)).await.expect("it completes");
    let assigned = bed.a_job(at(0)).await;
    bed.gives(assigned, "busy", epoch, at(0)).await.expect("it is assigned");
    bed.enqueue(bed.job_in("work", "pulled"), at(0)).await;
    let pulled = bed.claims_from("busy", &["pulled"], 9, at(0)).await;
    let ask = async |queue: &str, ms| {
        let found = bed.store.candidates(vec![name(queue)], at(ms)).await.expect("the store answers");
        found
            .into_iter()
            .map(|one| (one.worker.id.to_string(), one.has.into_iter().collect::<Vec<_>>()))
            .collect::<Vec<(String, Vec<(Name, i64)>)>>()
    };
    let has = vec![(name("default"), 2), (name("pulled"), 1)];
    assert_eq!(ask("default", 1).await, [("busy".to_owned(), has), ("idle".to_owned(), vec![])]);
    assert_eq!(ask("other", 1).await, [], "they take from another queue");
    assert_eq!(ask("default", 30_000).await, [], "they do not report any more");
    assert_eq!((runs.job.status, pulled.len()), (Status::Running, 1));
}

/// R1, R2, R4: in one request, each item for itself, under the epoch or not at all.
pub async fn many_are_assigned_at_once_and_each_is_told(bed: Bed) {
    let epoch = pushed(&bed).await;
    let new: Vec<_> = (0..300).map(|_| bed.job("work")).collect();
    let ids: Vec<JobId> = bed.enqueue_all(new, at(0)).await.iter().map(|one| one.id).collect();
    bed.cancels(ids[7], stop(), at(0)).await.expect("it is cancelled");
    bed.gives(ids[9], "early", epoch, at(0)).await.expect("it is assigned");
    let mut items: Vec<_> =
        ids.iter().enumerate().map(|(n, id)| (*id, who(&format!("w{}", n % 3)))).collect();
    items.push((ids[0], who("w0")));
    items.push((ids[0], who("w1")));
    let assign = |epoch, ms| {
        let (items, store) = (items.clone(), bed.store.clone());
        let request = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
        async move { store.assign(request, at(ms)).await.expect("the store answers") }
    };
    assert_eq!(assign(epoch - 1, 1).await, vec![Err(Refusal::StaleEpoch(epoch)); 302], "nothing is written");
    assert_eq!(bed.row(ids[0]).await.version, 1);
    let answers = assign(epoch, 1).await;
    for (n, answer) in answers.iter().enumerate() {
        let expected = match n {
            7 => Err(Refusal::Finished(Status::Cancelled)),
            9 => Err(Refusal::NotClaimable(Status::Assigned)),
            300 => Ok(Done::Already(2)),
            301 => Err(Refusal::NotClaimable(Status::Assigned)),
            _ => Ok(Done::Moved(2, Status::Assigned)),
        };
        assert_eq!(*answer, expected, "item {n}");
    }
    for n in [0, 1, 2, 150, 299] {
        let row = bed.row(ids[n]).await;
        let worker = Some(who(&format!("w{}", n % 3)));
        assert_eq!((row.worker_id, row.epoch, row.assignment), (worker, Some(epoch), Some(2)));
        assert_eq!((row.due_at, row.deadline_at, row.updated_at), (None, at(5_001), time(1)));
        assert_eq!(bed.log(ids[n]).await[1].actor.as_str(), format!("leader:{epoch}"));
    }
    assert_eq!(bed.claims("w1", 999, at(2)).await.len(), 99, "one is cancelled");
    assert_eq!(bed.claims("w0", 999, at(2)).await.len(), 99, "one is somebody else's");
}

/// R2, R6, R8: attempt + 1, and the lost worker can do nothing more.
pub async fn a_lost_run_goes_back_into_line_and_is_assigned_again(bed: Bed) {
    let epoch = pushed(&bed).await;
    let lost = started(&bed, "w1", epoch, 0).await;
    let id = lost.job.id;
    assert_eq!(waiting(&bed, at(29_999)).await, [], "the lease is live");
    assert_eq!(bed.claims("w2", 9, at(30_000)).await, [], "nobody claims it");
    let epoch = bed.leads("b", at(30_000)).await.expect("the term is over").epoch;
    assert_eq!(waiting_ids(&bed, at(30_000)).await, [id]);
    assert_eq!(bed.gives(id, "w2", epoch, at(30_000)).await, Ok(Done::Moved(4, Status::Retry)));
    assert_eq!(bed.settles(&lost, completes(), at(30_000)).await, Err(Refusal::NotLeased(Status::Retry)));
    assert_eq!(waiting_ids(&bed, at(30_000)).await, [id]);
    assert_eq!(bed.gives(id, "w2", epoch, at(30_001)).await, Ok(Done::Moved(5, Status::Assigned)));
    let held = bed.claims_one("w2", at(30_002)).await;
    assert_eq!((held.job.id, held.job.attempt, held.job.crashes), (id, 2, 1));
    assert_eq!(held.job.epoch, Some(epoch), "the run's own epoch");
    let types = ["job_created", "job_assigned", "job_started", "job_released", "job_assigned", "job_started"];
    assert_eq!(bed.types(id).await, types);
    assert_eq!(bed.settles(&lost, completes(), at(30_003)).await, Err(Refusal::Mismatch));
    assert_eq!(bed.settles(&held, completes(), at(30_003)).await, Ok(Done::Moved(7, Status::Completed)));
}

/// R6: in its grace only the holder may renew or finish, and nobody is assigned the run.
pub async fn nobody_is_assigned_a_run_in_its_grace(bed: Bed) {
    let epoch = pushed(&bed).await;
    let mut job = bed.job("work");
    job.facts.grace_ms = 10_000;
    let id = bed.enqueue(job, at(0)).await.id;
    bed.gives(id, "w1", epoch, at(0)).await.expect("it is assigned");
    let held = bed.claims_one("w1", at(0)).await;
    assert_eq!(held.lease.expires_at, time(30_000));
    let epoch = bed.leads("b", at(30_001)).await.expect("the term is over").epoch;
    assert_eq!(waiting(&bed, at(30_001)).await, []);
    let refused = bed.gives(id, "w2", epoch, at(39_999)).await;
    assert_eq!(refused, Err(Refusal::NotClaimable(Status::Running)));
    assert!(bed.extends(&held, 1_000, at(39_999)).await.is_ok(), "it comes back and goes on");
    assert_eq!(waiting(&bed, at(40_000)).await, [], "its lease was prolonged, and its grace with it");
    let epoch = bed.leads("b", at(51_000)).await.expect("its own").epoch;
    assert_eq!(waiting_ids(&bed, at(51_000)).await, [id]);
    assert_eq!(bed.gives(id, "w2", epoch, at(51_000)).await, Ok(Done::Moved(4, Status::Retry)));
    assert_eq!(bed.extends(&held, 1_000, at(51_001)).await, Err(Refusal::NotLeased(Status::Retry)));
}

/// R6, Q5
pub async fn a_run_that_is_lost_too_often_ends(bed: Bed) {
    pushed(&bed).await;
    let parent = bed.a_held_in_pulled(at(0)).await;
    let mut job = bed.job("work");
    job.facts.parent_id = Some(parent.job.id);
    job.parent_token = Some(parent.lease.token);
    let id = bed.enqueue(job, at(0)).await.id;
    for round in 0..3 {
        let ms = round * 40_000;
        let epoch = bed.leads("a", at(ms)).await.expect("the term is free, over or its own").epoch;
        bed.gives(id, "w", epoch, at(ms)).await.expect("it is assigned");
        assert_eq!(bed.claims_one("w", at(ms)).await.job.crashes, round as i32);
        let epoch = bed.leads("a", at(ms + 35_000)).await.expect("the term is over").epoch;
        let expected = if round == 2 { Status::Failed } else { Status::Retry };
        let answer = bed.gives(id, "w", epoch, at(ms + 35_000)).await;
        assert!(matches!(answer, Ok(Done::Moved(_, status)) if status == expected), "{round}: {answer:?}");
    }
    let row = bed.row(id).await;
    assert_eq!(row.error_code.map(|code| code.to_string()), Some("crashed".to_owned()));
    assert_eq!(bed.row(parent.job.id).await.children, 0, "its parent is told");
}

/// R2, M10
pub async fn a_lost_run_that_was_to_be_cancelled_is(bed: Bed) {
    let epoch = pushed(&bed).await;
    let held = started(&bed, "w", epoch, 0).await;
    let wish = windlass_core::decide::Cancel { force_after_ms: 3_600_000, ..stop() };
    bed.cancels(held.job.id, wish, at(1)).await.expect("its holder is asked");
    let epoch = bed.leads("a", at(30_000)).await.expect("the term is over").epoch;
    let answer = bed.gives(held.job.id, "w2", epoch, at(30_000)).await;
    assert_eq!(answer, Ok(Done::Moved(5, Status::Cancelled)));
}

/// R2: a job that waited is assigned like any other, and its start says how the wait ended.
pub async fn a_woken_job_is_assigned_and_told_why(bed: Bed) {
    let epoch = pushed(&bed).await;
    let held = started(&bed, "w1", epoch, 0).await;
    let id = held.job.id;
    bed.waits(&held, for_signal("go"), at(1)).await.expect("the holder may wait");
    assert_eq!(waiting(&bed, at(2)).await, []);
    assert_eq!(bed.gives(id, "w1", epoch, at(2)).await, Err(Refusal::NotClaimable(Status::Waiting)));
    bed.signals(id, "go", "api", at(3)).await.expect("it is signalled");
    assert_eq!(waiting_ids(&bed, at(3)).await, [id]);
    assert_eq!(bed.claims("w1", 9, at(3)).await, []);
    assert_eq!(bed.gives(id, "w2", epoch, at(3)).await, Ok(Done::Moved(6, Status::Assigned)));
    let row = bed.row(id).await;
    assert_eq!((row.waiting_for, row.wait_name), (None, None));
    let held = bed.claims_one("w2", at(4)).await;
    assert_eq!(held.wake.as_ref().map(|wake| wake.outcome.as_str()), Some("signalled"));
    assert_eq!(bed.settles(&held, completes(), at(5)).await, Ok(Done::Moved(8, Status::Completed)));
}

/// R8: one that takes nothing more starts nothing more.
pub async fn an_assignment_of_a_drained_worker_becomes_an_orphan(bed: Bed) {
    let epoch = pushed(&bed).await;
    bed.registers("w", at(0)).await;
    let id = bed.a_job(at(0)).await;
    bed.gives(id, "w", epoch, at(0)).await.expect("it is assigned");
    let drain = DrainWorker { id: who("w"), drain: true, actor: Actor::api() };
    bed.store.drain_worker(drain, at(1)).await.expect("the store answers");
    assert_eq!(bed.sweeps(at(4_999)).await, [], "it has its time to start");
    assert_eq!(bed.sweeps(at(5_000)).await.len(), 1);
    assert_eq!(waiting_ids(&bed, at(5_000)).await, [id]);
}

/// R2
pub async fn a_queue_that_is_pulled_again_keeps_its_assignments(bed: Bed) {
    let epoch = pushed(&bed).await;
    let (assigned, pending) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    bed.gives(assigned, "w1", epoch, at(0)).await.expect("it is assigned");
    sets(&bed, "default", QueueMode::Pull).await;
    assert_eq!(bed.claims_one("w2", at(1)).await.job.id, pending);
    let held = bed.claims_one("w1", at(1)).await;
    assert_eq!((held.job.id, held.job.epoch), (assigned, Some(epoch)));
    let audit = bed.audit().await;
    let put: Vec<_> = audit.iter().filter(|entry| entry.action.as_str() == "queue.put").collect();
    assert_eq!((put.len(), &put[0].detail["after"]["mode"]), (2, &"push".into()), "{put:?}");
}

/// Q11
pub async fn what_a_job_requires_is_limited(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.requires = (0..17).map(|n| (name(&format!("label{n}")), String::new())).collect();
    let (_, refusal) = bed.enqueue_refused(vec![job], at(0)).await;
    crate::is_invalid::<()>(&Err(refusal), "requires");
    let mut job = bed.job("work");
    job.facts.requires = Requires::from([(name("gpu"), "x".repeat(257))]);
    let (_, refusal) = bed.enqueue_refused(vec![job], at(0)).await;
    crate::is_invalid::<()>(&Err(refusal), "requires");
    let mut job = bed.job("work");
    job.facts.requires = (0..16).map(|n| (name(&format!("label{n}")), "x".repeat(256))).collect();
    let id = bed.enqueue(job.clone(), at(0)).await.id;
    assert_eq!(bed.view(id, at(0)).await.facts.requires, job.facts.requires);
}

/// R1, R4: of two that both believe to lead, the one with the current epoch assigns.
pub async fn two_leaders_that_assign_at_once_are_one(bed: Bed) {
    sets(&bed, "default", QueueMode::Push).await;
    for round in 0..15 {
        let ms = round * 20_000;
        let old = bed.leads("a", at(ms)).await.expect("the term is free or over").epoch;
        let new = bed.leads("b", at(ms + 10_000)).await.expect("the term is over").epoch;
        let jobs: Vec<_> = (0..20).map(|_| bed.job("work")).collect();
        let ids: Vec<JobId> = bed.enqueue_all(jobs, at(ms + 10_000)).await.iter().map(|one| one.id).collect();
        let assigns = |epoch: i64, worker: &str| {
            let items = ids.iter().map(|id| (*id, who(worker))).collect();
            let request = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
            let store = bed.store.clone();
            async move {
                let answers = store.assign(request, at(ms + 10_000)).await.expect("the store answers");
                answers.iter().filter(|answer| answer.is_ok()).count()
            }
        };
        let made = together([assigns(old, "old"), assigns(new, "new")]).await;
        assert_eq!(made, [0, 20], "round {round}");
        let held = bed.claims("new", 99, at(ms + 10_001)).await;
        assert_eq!(held.len(), 20);
        for one in &held {
            bed.settles(one, completes(), at(ms + 10_002)).await.expect("it completes");
        }
    }
}

/// R1
pub async fn an_assignment_racing_a_cancel_has_one_winner(bed: Bed) {
    let epoch = pushed(&bed).await;
    for _ in 0..25 {
        let id = bed.a_job(at(0)).await;
        let (giver, canceller) = (bed.clone(), bed.clone());
        let gives: Racer<bool> = Box::pin(async move { giver.gives(id, "w", epoch, at(1)).await.is_ok() });
        let cancels: Racer<bool> =
            Box::pin(async move { canceller.cancels(id, stop(), at(1)).await.is_ok() });
        let won = together([gives, cancels]).await;
        assert!(won[1], "an unheld job can always be cancelled");
        let types = bed.types(id).await;
        assert_eq!(types.len(), if won[0] { 3 } else { 2 }, "{types:?}");
        assert_eq!(bed.row(id).await.status, Status::Cancelled);
    }
}

impl Bed {
    /// A job of another queue, in a worker's hands for an hour.
    async fn a_held_in_pulled(&self, now: Now) -> Claimed {
        let mut job = self.job_in("work", "pulled");
        job.facts.lease_ms = windlass_core::LeaseMs::new(3_600_000).ok();
        self.enqueue(job, now).await;
        self.claims_from("p", &["pulled"], 1, now).await.remove(0)
    }
}
