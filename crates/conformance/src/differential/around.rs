//! What surrounds jobs, asked of both stores: leaders, workers, queues, keys, and looks at what there is.

use super::act::{Turned, operator, promise, queue, worker};
use super::plan::{Act, KeyLimits};
use super::twins::{Twins, at_place, both, lane_key};
use crate::{name, who};
use proptest::test_runner::TestCaseError;
use windlass_core::breaker::{Attempts, Breaker};
use windlass_core::decide::Claim;
use windlass_core::lane::{Full, LaneMode, LaneRule, Lanes};
use windlass_core::{LeaseMs, Queue, QueueDefaults, QueueLimits, QueueMode, Rate, Version};
use windlass_store::*;

const BREAKER: Breaker = Breaker { errors: 1, of: 2, within_ms: 60_000, pause_ms: 2_000 };

/// Rules for each key, and a weight of one key's own.
fn lane_rules(KeyLimits { concurrency, rate: drawn, weight, backlog, newest }: &KeyLimits) -> Lanes {
    let own = LaneRule { weight: Some(*weight), ..LaneRule::default() };
    let keys = lane_key(0).into_iter().map(|key| (key, own)).collect();
    let each = LaneRule {
        concurrency: *concurrency,
        weight: None,
        rate: drawn.map(rate),
        backlog: backlog.map(|(n, _)| n),
        full: backlog.map(|(_, drops)| if drops { Full::Drop } else { Full::Refuse }),
        mode: newest.then_some(LaneMode::Newest),
    };
    Lanes { each, keys }
}

fn rate((units, burst): (i32, i32)) -> Rate {
    Rate { units, per_ms: 5_000, burst: Some(burst) }
}

impl Twins {
    pub(super) async fn terms(&mut self, act: &Act) -> Turned {
        let (term, ttl_ms) = (name("leader"), LeaseMs::new(15_000).expect("a lease"));
        let holders = ["a", "b"];
        match act {
            Act::AcquireTerm { holder } => {
                let request = AcquireTerm { name: term, holder: who(holders[*holder]), ttl_ms };
                let answer = both!(self, acquire_term, request);
                self.tells("acquire_term", answer.is_ok());
                self.epoch = answer.map_or_else(|t| t.epoch, |t| t.epoch);
            }
            Act::RenewTerm { holder, behind } => {
                let (holder, epoch) = (who(holders[*holder]), self.epoch - behind);
                let answer = both!(self, renew_term, RenewTerm { name: term, holder, epoch, ttl_ms });
                self.tells("renew_term", answer.is_ok());
            }
            Act::ResignTerm { holder, behind } => {
                let (holder, epoch) = (who(holders[*holder]), self.epoch - behind);
                let answer = both!(self, resign_term, ResignTerm { name: term, holder, epoch });
                self.tells("resign_term", answer.is_ok());
            }
            _ => {}
        }
        Ok(())
    }

    /// Lines of a job that has some, from the first that is here on; or those that moved last once more.
    pub(super) async fn moves_logs(&mut self, act: &Act) -> Turned {
        let Act::MoveLogs { job, lines, skip, part, behind } = act else { return Ok(()) };
        let old = both!(self, old_logs, ReadOldLogs { before: self.now.plus_ms(1), after: None, limit: 100 });
        let job = at_place(&old, *job).map_or_else(|| self.job(*job), |(_, job)| *job);
        let here = both!(self, logs, ReadLogs { job, after: 0, limit: 1 });
        let moved = both!(self, log_parts, job);
        let (first, last) = match (here.first(), moved.last()) {
            (Some(line), _) => (line.n + skip, line.n + skip + lines - 1),
            (None, Some(part)) => (part.first, part.last),
            (None, None) => (1, *lines),
        };
        let request = MoveLogs {
            term: name("leader"),
            epoch: self.epoch - behind,
            part: format!("part{part}"),
            ranges: vec![LogRange { job, first, last }],
        };
        let answer = both!(self, move_logs, request);
        self.tells("move_logs", answer.is_ok_and(|answers| answers[0].is_ok()));
        both!(self, log_parts, job);
        let after = old.first().copied();
        both!(self, old_logs, ReadOldLogs { before: self.now, after, limit: 2 });
        Ok(())
    }

    pub(super) async fn leads(&mut self, act: &Act) -> Turned {
        match act {
            Act::Assign { items, behind, lapse_ms } => {
                let items: Vec<_> = items.iter().map(|(job, w)| (self.job(*job), worker(*w))).collect();
                let epoch = self.epoch - behind;
                let request = Assign { term: name("leader"), epoch, items, lapse_ms: *lapse_ms };
                let answers = both!(self, assign, request.clone());
                for ((job, worker), answer) in request.items.into_iter().zip(answers) {
                    self.tells("assign", answer.is_ok());
                    if let Ok(done) = answer {
                        self.assignments.push((job, done.version(), worker, epoch));
                    }
                }
            }
            Act::Start { assignment, wrong_worker, again } => {
                let unknown = (self.job(0), 2, worker(0), self.epoch);
                let (job, assignment, mut by, epoch) =
                    at_place(&self.assignments, *assignment).unwrap_or(&unknown).clone();
                if *wrong_worker {
                    by = who("somebody");
                }
                let secret = self.secret(*again);
                let claim = Claim { worker: by, secret, lease_ms: LeaseMs::DEFAULT };
                let started = both!(self, start, Start { job, assignment, epoch, claim });
                self.tells("start", started.is_ok());
                self.leases.extend(started.iter().map(|c| (c.job.id, c.lease.token)));
            }
            Act::Sweep { limit } => {
                let swept = both!(self, sweep, Sweep { limit: *limit });
                self.tells("sweep", !swept.is_empty());
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) async fn looks(&mut self, place: usize, version: Version) -> Turned {
        let job = self.job(place);
        let view = both!(self, job, job);
        self.tells("job", view.is_some());
        let stood = both!(self, at_version, AtVersion { job, version });
        self.tells("at_version", stood.is_some());
        both!(self, steps, ReadSteps { job, after: version });
        both!(self, events, ReadEvents { job, after: version, limit: 3, newest_first: version % 2 == 0 });
        both!(self, logs, ReadLogs { job, after: 0, limit: 10 });
        both!(self, queues, version);
        both!(self, term, name("leader"));
        let page = both!(self, unassigned, ReadUnassigned { after: vec![], limit: 3 });
        let place = |job: &Unassigned| UnassignedPlace {
            queue: job.queue.clone(),
            priority: job.priority,
            due_at: job.due_at,
            id: job.id,
        };
        let after: Vec<_> = page.jobs.first().map(place).into_iter().collect();
        both!(self, unassigned, ReadUnassigned { after, limit: 3 });
        both!(self, candidates, vec![queue(0)]);
        if let Some(unique) = view.and_then(|v| v.facts.unique) {
            let held = both!(self, find_key, FindKey { scope: unique.scope, key: unique.key });
            self.tells("find_key", held.is_some());
        }
        Ok(())
    }

    pub(super) async fn registers(&mut self, act: &Act) -> Turned {
        let actor = operator();
        match act {
            Act::PauseQueue { queue: q, pause } => {
                both!(self, pause_queue, PauseQueue { name: queue(*q), pause: *pause, actor });
                self.tells("pause_queue", *pause);
            }
            Act::ReleaseLane { queue: q, key: k } => {
                let mut wishes = vec![(queue(*q), k.and_then(lane_key))];
                if let Some(job) = self.held.pop() {
                    let facts = both!(self, job, job).map(|view| view.facts);
                    wishes.extend(facts.map(|facts| (facts.queue, facts.key)));
                }
                for (queue, key) in wishes {
                    let request = ReleaseLane { queue, key, actor: actor.clone() };
                    let answer = both!(self, release_lane, request);
                    self.tells("release_lane", answer);
                }
            }
            Act::PutQueue { queue: q, retries, push, flow, endpoint } => {
                let defaults = QueueDefaults { max_retries: Some(*retries), ..QueueDefaults::default() };
                let flow = flow.as_ref().map(|drawn| QueueLimits {
                    concurrency: drawn.concurrency,
                    rate: drawn.rate.map(rate),
                    lanes: drawn.lanes.as_ref().map(lane_rules),
                    aging_ms: drawn.aging_ms,
                    breaker: drawn.has_breaker.then_some(BREAKER),
                    ..QueueLimits::default()
                });
                let put = |secret| SetEndpoint::Put { url: "https://a.example/x".into(), secret, max: None };
                let endpoint = match endpoint {
                    0 => put(WebhookSecret::from_bytes([7; 32]).ok()),
                    1 => put(None),
                    2 => SetEndpoint::Remove,
                    _ => SetEndpoint::Keep,
                };
                let mode = Some(if *push { QueueMode::Push } else { QueueMode::Pull });
                let answer = both!(
                    self,
                    put_queue,
                    PutQueue { name: queue(*q), defaults: Some(defaults), mode, flow, endpoint, actor }
                );
                self.tells("put_queue", answer.is_ok());
            }
            Act::BreakQueue { queue: q, breaks, behind } => {
                self.terms(&Act::AcquireTerm { holder: 0 }).await?;
                // One that can break; if there is none, this one may from now on.
                let set = both!(self, queue_settings, ());
                let can = |known: &&Queue| known.flow.as_ref().is_some_and(|flow| flow.breaker.is_some());
                let queue = match set.iter().find(can) {
                    Some(known) => known.name.clone(),
                    None => {
                        let flow = Some(QueueLimits { breaker: Some(BREAKER), ..QueueLimits::default() });
                        let put = PutQueue { flow, ..PutQueue::new(queue(*q), actor) };
                        both!(self, put_queue, put).map_err(|bad| TestCaseError::fail(bad.to_string()))?;
                        queue(*q)
                    }
                };
                let count = breaks.then_some(Attempts { ended: 4, failed: 3 });
                let epoch = self.epoch - behind;
                let request = BreakQueue { term: name("leader"), epoch, queue, count };
                let answer = both!(self, break_queue, request);
                self.tells("break_queue", answer == Ok(true));
            }
            Act::PutWorker { worker: w, draining } => {
                let request = PutWorker {
                    id: worker(*w),
                    queues: vec![queue(0), queue(1)],
                    kinds: vec![],
                    capacity: 2,
                    slots: [(queue(0), 1)].into(),
                    labels: serde_json::Map::new(),
                    draining: *draining,
                    ttl_ms: LeaseMs::DEFAULT,
                };
                both!(self, put_worker, request);
            }
            Act::DrainWorker { worker: w } => {
                let drained =
                    both!(self, drain_worker, DrainWorker { id: worker(*w), drain: *w != 1, actor });
                self.tells("drain_worker", drained.is_some());
            }
            Act::RemoveWorker { worker: w } => both!(self, remove_worker, worker(*w)),
            Act::PutKey { name, hash } => {
                let request = PutAccessKey {
                    name: who(["ann", "bob"][*name]),
                    hash: [*hash as u8 + 10 * *name as u8; 32],
                    roles: vec![windlass_core::Role::Worker],
                    queues: None,
                    expires_at: None,
                    actor,
                };
                let made = both!(self, put_access_key, request);
                self.tells("put_access_key", made);
            }
            Act::RevokeKey { name } => {
                let name = who(["ann", "bob"][*name]);
                let revoked = both!(self, revoke_access_key, RevokeAccessKey { name, actor });
                self.tells("revoke_access_key", revoked.is_some());
            }
            Act::Remember { key, hash } => {
                let request = Remember { idempotency: promise(*key, *hash), body: vec![*hash as u8] };
                let answer = both!(self, remember, request);
                self.tells("remember", answer.is_ok());
            }
            Act::Recall { key, hash } => {
                let answer = both!(self, recall, promise(*key, *hash));
                self.tells("recall", matches!(answer, Ok(Some(_))));
            }
            _ => {}
        }
        Ok(())
    }
}
