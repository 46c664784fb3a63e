//! From a turn of the plan to the same call on both stores.

use super::plan::{Act, Ballot, End, Shown, Turn};
use super::twins::{Twins, at_place, both, lane_key};
use crate::{failure, json, key, name, who};
use proptest::test_runner::TestCaseError;
use windlass_core::decide::{Cancel as Wish, Claim};
use windlass_core::outcome::Found;
use windlass_core::unique::Policy;
use windlass_core::wait::{Decision, LinkToken, Voter, WaitFor};
use windlass_core::{
    Actor, ApprovalId, Done, JobId, Key, Lane, LeaseMs, Name, NewJob, Outcome, RunAt, Status, Timestamp,
    Version, Wait, Who,
};
use windlass_store::*;

/// Whether both stores did the same.
pub(super) type Turned = Result<(), TestCaseError>;

pub(super) fn worker(n: usize) -> Who {
    who(["w0", "w1", "w2"][n])
}

pub(super) fn queue(n: usize) -> Name {
    name(["q0", "q1"][n])
}

fn event_key(k: Option<usize>) -> Option<Key> {
    k.map(|k| key(["e0", "e1", "e2"][k]))
}

pub(super) fn operator() -> Actor {
    Actor::try_from("operator:ann").expect("an actor")
}

/// Names of keys that could be taken for something else.
fn voting_key(n: usize) -> Who {
    who(["key0", "link", "key:link"][n])
}

fn run_at(delay_ms: i64) -> RunAt {
    if delay_ms == 0 { RunAt::Now } else { RunAt::After(delay_ms) }
}

pub(super) fn promise(k: usize, hash: usize) -> Idempotency {
    Idempotency { key: key(["i0", "i1"][k]), request_hash: [hash as u8; 32] }
}

fn outcome(end: &End, now: Timestamp) -> Outcome {
    let wait = |waits_for, name: Option<Name>, until, expires_ms: Option<i64>| {
        let expires_at = expires_ms.map(|ms| now.plus_ms(ms));
        Outcome::Wait(Wait { waits_for, name, until, expires_at, since: 0 }, Found::default())
    };
    match end {
        End::Complete => crate::completes(),
        End::Fail { permanent, delay_ms } => {
            Outcome::Fail { error: failure("broken"), permanent: *permanent, run_at: delay_ms.map(run_at) }
        }
        End::Release(delay_ms) => Outcome::Release(run_at(*delay_ms)),
        End::RateLimited(after_ms) => Outcome::RateLimited(*after_ms),
        End::TimeOut => Outcome::TimeOut,
        End::Cancelled => Outcome::Cancelled { reason: Some("stopped".into()) },
        End::Timer(ms) => wait(WaitFor::Timer, None, Some(now.plus_ms(*ms)), None),
        End::Signal { name: n, expires_ms } => {
            wait(WaitFor::Signal, Some(name(["s0", "s1"][*n])), None, *expires_ms)
        }
        End::Children { expires_ms } => wait(WaitFor::Children, None, None, *expires_ms),
        End::News { expires_ms, has_seen_all } => {
            let since = if *has_seen_all { i64::MAX } else { 0 };
            let expires_at = expires_ms.map(|ms| now.plus_ms(ms));
            let wait = Wait { waits_for: WaitFor::News, name: None, until: None, expires_at, since };
            Outcome::Wait(wait, Found::default())
        }
        End::Approval(gate) => wait(WaitFor::Approval, Some(name(["g0", "g1"][*gate])), None, None),
    }
}

impl Twins {
    /// Takes one turn on both stores, then compares what their feeds tell of it.
    pub async fn takes(&mut self, turn: &Turn) -> Turned {
        if turn.by_sql && self.takes_by_sql(&turn.act).await? {
            return self.tails().await;
        }
        let act = &turn.act;
        match act {
            Act::Enqueue { .. } | Act::EnqueueAgain { .. } => self.enqueues(act).await?,
            Act::Claim { .. }
            | Act::ClaimOne { .. }
            | Act::EnqueueClaimed { .. }
            | Act::Extend { .. }
            | Act::Settle(_) => {
                self.leases(act).await?;
            }
            Act::Append { .. } | Act::Progress { .. } | Act::Step { .. } | Act::WriteLogs { .. } => {
                self.writes(act).await?;
            }
            Act::Cancel { .. }
            | Act::Redrive { .. }
            | Act::RedriveCause { .. }
            | Act::Fork { .. }
            | Act::Seal { .. } => {
                self.operates(act).await?;
            }
            Act::Purge { .. } | Act::Restore { .. } | Act::Erase { .. } => self.removes(act).await?,
            Act::MoveLogs { .. } => self.moves_logs(act).await?,
            Act::Signal { .. } | Act::Ask { .. } | Act::Vote { .. } => self.waits(act).await?,
            Act::AcquireTerm { .. } | Act::RenewTerm { .. } | Act::ResignTerm { .. } => {
                self.terms(act).await?
            }
            Act::Assign { .. } | Act::Start { .. } | Act::Sweep { .. } => self.leads(act).await?,
            Act::Look { job, version } => self.looks(*job, *version).await?,
            _ => self.registers(act).await?,
        }
        self.tails().await
    }

    async fn enqueues(&mut self, act: &Act) -> Turned {
        let (jobs, idempotency) = match act {
            Act::Enqueue { jobs, promise: p } => {
                (jobs.iter().map(|s| self.new_job(s)).collect(), p.map(|(k, hash)| promise(k, hash)))
            }
            Act::EnqueueAgain { job, altered } => {
                // What is debounced comes again as another job, and may replace the first.
                let is_debounced = |job: &&NewJob| {
                    let unique = job.facts.unique.as_ref();
                    unique.is_some_and(|unique| matches!(unique.policy, Policy::Debounce(_)))
                };
                let debounced = self.sent.iter().rev().find(is_debounced).filter(|_| *altered);
                let sent = debounced.or_else(|| at_place(&self.sent, *job)).cloned();
                let (comes_anew, Some(mut again)) = (debounced.is_some(), sent) else { return Ok(()) };
                if comes_anew {
                    again.id = self.fresh_id();
                }
                if *altered {
                    again.payload = Some(json("\"altered\""));
                }
                (vec![again], None)
            }
            _ => return Ok(()),
        };
        let request = Enqueue { jobs, actor: Actor::api(), idempotency };
        let answer = both!(self, enqueue, request.clone());
        self.tells("enqueue", answer.is_ok());
        self.sent.extend(request.jobs.iter().cloned());
        self.ids.extend(answer.iter().flatten().map(|e| e.id));
        Ok(())
    }

    async fn leases(&mut self, act: &Act) -> Turned {
        let lease_ms = LeaseMs::new(20_000).expect("a lease");
        match act {
            Act::Claim { worker: w, queues, kind, max, again, from } => {
                let secret = self.secret(*again);
                let claim = Claim { worker: worker(*w), secret, lease_ms };
                let queues = queues.iter().map(|q| queue(*q)).collect();
                let from = Some(lane_key(*from).map_or(Lane::PLAIN, |key| Lane::of(&key)));
                let kinds = kind.iter().map(|k| name(["red", "blue"][*k])).collect();
                let claimed = both!(self, claim, ClaimMany { queues, kinds, max: *max, from, claim });
                self.tells("claim", !claimed.is_empty());
                self.leases.extend(claimed.iter().map(|c| (c.job.id, c.lease.token)));
            }
            Act::ClaimOne { job, worker: w, again } => {
                let (job, secret) = (self.job(*job), self.secret(*again));
                let claim = Claim { worker: worker(*w), secret, lease_ms };
                let claimed = both!(self, claim_one, ClaimOne { job, claim });
                self.tells("claim_one", claimed.is_ok());
                self.leases.extend(claimed.iter().map(|c| (c.job.id, c.lease.token)));
            }
            Act::EnqueueClaimed { job, again, worker: w } => {
                let repeated = again.and_then(|(place, _)| at_place(&self.sent, place).cloned());
                let job = repeated.unwrap_or_else(|| self.new_job(job));
                let secret = self.secret(again.is_some_and(|(_, same)| same));
                let claim = Claim { worker: worker(*w), secret, lease_ms };
                let request = EnqueueClaimed { job: job.clone(), actor: Actor::api(), claim };
                let answer = both!(self, enqueue_claimed, request);
                self.sent.push(job);
                self.ids.extend(answer.iter().map(|handed| handed.enqueued.id));
                let claimed = answer.ok().and_then(|handed| handed.claimed);
                self.tells("enqueue_claimed", claimed.is_some());
                self.leases.extend(claimed.iter().map(|c| (c.job.id, c.lease.token)));
            }
            Act::Extend { leases, ms } => {
                let leases = leases.iter().map(|l| self.lease(*l)).collect();
                let extend_ms = LeaseMs::new(*ms).expect("a lease");
                for answer in both!(self, extend, Extend { leases, extend_ms }) {
                    self.tells("extend", answer.is_ok());
                }
            }
            Act::Settle(ends) => {
                let now = self.now;
                let item = |(lease, end): &(Shown, End)| {
                    let (job, token) = self.lease(*lease);
                    SettleItem { job, token, outcome: outcome(end, now) }
                };
                let items: Vec<SettleItem> = ends.iter().map(item).collect();
                let answers = both!(self, settle, Settle { items: items.clone() });
                for (item, answer) in items.iter().zip(answers) {
                    if answer.is_ok() {
                        self.rests(item.job);
                    }
                    match (&answer, &item.outcome) {
                        (Ok(Done::Moved(..)), Outcome::RateLimited(_)) => self.held.push(item.job),
                        (Ok(Done::Moved(_, to)), _) if to.is_terminal() => self.ended.push(item.job),
                        _ => {}
                    }
                    self.tells("settle", answer.is_ok());
                    self.tells("a settle that is repeated", matches!(answer, Ok(Done::Already(_))));
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn writes(&mut self, act: &Act) -> Turned {
        match act {
            Act::Append { job, lease, type_name, behind, key } => {
                let shown = lease.map(|l| self.lease(l));
                let job = shown.map_or_else(|| self.job(*job), |(job, _)| job);
                let version = both!(self, job, job).map_or(0, |v| v.job.version);
                let types = ["noted", "plan_generated", "node_mine", "tool_mine", "job_mine"];
                let request = Append {
                    job,
                    type_name: name(types[*type_name]),
                    payload: Some(json("[1]")),
                    actor: Actor::api(),
                    token: shown.map(|(_, token)| token),
                    expected_version: behind.map(|n| version - n),
                    key: event_key(*key),
                };
                let answer = both!(self, append, request);
                self.tells("append", answer.is_ok());
            }
            Act::Progress { lease, progress, meta, checkpoint, charge, key } => {
                let (job, token) = self.lease(*lease);
                let metadata = serde_json::json!({ "seen": progress, "by": "holder" });
                let request = Progress {
                    job,
                    token,
                    progress: *progress,
                    stage: progress.map(|n| format!("at {n}")),
                    metadata: meta.then(|| metadata.as_object().cloned().unwrap_or_default()),
                    checkpoint: checkpoint.then(|| json("{\"at\":1}")),
                    charge: *charge,
                    key: event_key(*key),
                };
                let answer = both!(self, progress, request);
                self.tells("progress", answer.is_ok());
            }
            Act::Step { lease, name: n, tool, finished, value } => {
                let (job, token) = self.lease(*lease);
                let payload = Some(json(["1", "2"][*value]));
                let name = name(["step", "leap"][*n]);
                let request = RecordStep { job, token, name, tool: *tool, finished: *finished, payload };
                let answer = both!(self, record_step, request);
                self.tells("record_step", answer.is_ok());
            }
            Act::WriteLogs { lease, lines } => {
                let (job, token) = self.lease(*lease);
                let lines = (0..*lines).map(|n| format!("line {n}")).collect();
                let answer = both!(self, write_logs, WriteLogs { job, token, lines });
                self.tells("write_logs", answer.is_ok());
            }
            _ => {}
        }
        Ok(())
    }

    async fn operates(&mut self, act: &Act) -> Turned {
        match act {
            Act::Cancel { job, force, force_after_ms, behind } => {
                let (actor, reason) = (operator(), force.then(|| "now".to_owned()));
                let wish = Wish { actor, reason, force: *force, force_after_ms: *force_after_ms };
                let job = self.job(*job);
                let expected_version = self.expected(job, *behind).await?;
                let answer = both!(self, cancel, Cancel { job, wish, expected_version });
                self.tells("cancel", answer.is_ok());
            }
            Act::Redrive { job, delay_ms, from_start, payload, key, behind } => {
                let job = self.job(*job);
                let expected_version = self.expected(job, *behind).await?;
                let request = Redrive {
                    job,
                    run_at: run_at(*delay_ms),
                    from_start: *from_start,
                    payload: payload.then(|| json("\"redriven\"")),
                    actor: operator(),
                    key: event_key(*key),
                    expected_version,
                };
                let answer = both!(self, redrive, request);
                self.tells("redrive", answer.is_ok());
            }
            Act::RedriveCause { skip, from_start } => {
                let Some(job) = at_place(&self.skips, *skip).copied() else { return Ok(()) };
                let (from_start, actor) = (*from_start, operator());
                let answer = both!(self, redrive, Redrive { from_start, actor, ..crate::redrive(job) });
                self.tells("redrive", answer.is_ok());
            }
            Act::Seal { flow, job } => {
                let job = job.map(|job| self.job(job)).or_else(|| at_place(&self.flows, *flow).copied());
                let Some(job) = job else { return Ok(()) };
                let answer = both!(self, seal, Seal { job, actor: operator() });
                self.tells("seal", answer.is_ok());
            }
            Act::Fork { job, from_version, again, payload, behind } => {
                let (from, id) = match self.forks.last() {
                    Some(last) if *again => *last,
                    _ => (self.job(*job), self.fresh_id()),
                };
                let payload = payload.then(|| json("\"forked\""));
                let (from_version, expected_version) = (*from_version, self.expected(from, *behind).await?);
                let fork = Fork { from, from_version, id, payload, actor: operator(), expected_version };
                let answer = both!(self, fork, fork);
                self.tells("fork", answer.is_ok());
                self.forks.push((from, id));
                self.ids.extend(answer.is_ok().then_some(id));
            }
            _ => {}
        }
        Ok(())
    }

    /// Every second job is archived before it goes.
    async fn removes(&mut self, act: &Act) -> Turned {
        match act {
            Act::Purge { job, behind } => {
                let job = at_place(&self.ended, *job).copied().unwrap_or_else(|| self.job(*job));
                let version = both!(self, job, job).map_or(0, |v| v.job.version);
                let events =
                    both!(self, events, ReadEvents { job, after: 0, limit: 1_000, newest_first: false });
                let logs = both!(self, logs, ReadLogs { job, after: 0, limit: 1_000 });
                let log_parts = both!(self, log_parts, job);
                let archive = (version % 2 == 0).then(|| "part".to_owned());
                let purged = both!(self, purge, Purge { jobs: vec![(job, version - behind)], archive });
                self.tells("purge", purged[0].is_ok());
                if purged[0].is_ok() {
                    self.archived.push(Restore { events, logs, log_parts, actor: operator() });
                }
            }
            Act::Erase { job, behind } => {
                let job = self.job(*job);
                // An erasure keeps hashes of what was stored, byte by byte, and SQL writes its JSON in its own way.
                let log =
                    both!(self, events, ReadEvents { job, after: 0, limit: 1_000, newest_first: false });
                if log.iter().any(|event| event.actor.as_str().starts_with("sql:")) {
                    return Ok(());
                }
                let version = both!(self, job, job).map_or(0, |v| v.job.version);
                let expected_version = behind.map(|behind| version - behind);
                let erased = both!(self, erase, Erase { job, actor: operator(), expected_version });
                self.tells("erase", matches!(erased, Ok(Done::Moved(..))));
            }
            Act::Restore { removed } => {
                let Some(restore) = at_place(&self.archived, *removed).cloned() else { return Ok(()) };
                // The second time as after an answer that was lost.
                for _ in 0..2 {
                    let restored = both!(self, restore, restore.clone());
                    self.tells("restore", matches!(restored, Ok(Done::Moved(..))));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The version that an operator has seen: the job's own, or an older one.
    async fn expected(&mut self, job: JobId, behind: Option<i64>) -> Result<Option<Version>, TestCaseError> {
        let Some(behind) = behind else { return Ok(None) };
        Ok(both!(self, job, job).map(|view| view.job.version - behind))
    }

    async fn waits(&mut self, act: &Act) -> Turned {
        match act {
            Act::Signal { job, name: n, key } => {
                let (job, payload) = (self.job(*job), Some(json("{\"s\":1}")));
                let name = name(["s0", "s1"][*n]);
                let request = Signal { job, name, payload, actor: Actor::api(), key: event_key(*key) };
                let answer = both!(self, signal, request);
                self.tells("signal", answer.is_ok());
            }
            Act::Ask { lease, gate, approvers, required, expires_ms, again, waits, asker } => {
                let (job, token) = self.lease(*lease);
                let link = match self.approvals.last() {
                    Some((_, link)) if *again => *link,
                    _ => self.link(),
                };
                let request = Ask {
                    job,
                    token,
                    id: ApprovalId::from_bytes(*self.fresh_id().as_bytes()),
                    name: name(["g0", "g1"][*gate]),
                    prompt: "may it?".into(),
                    approvers: [vec![], vec!["key0".to_owned()], vec!["role0".to_owned(), "link".to_owned()]]
                        [*approvers]
                        .clone(),
                    required: *required,
                    expires_ms: *expires_ms,
                    link_hash: link.hash(),
                    asker: asker.map(voting_key),
                };
                let asked = both!(self, ask, request);
                self.tells("ask", asked.is_ok());
                if let Ok(asked) = asked {
                    self.approvals.push((asked.approval.id, link));
                    if *waits {
                        let outcome = outcome(&End::Approval(*gate), self.now);
                        both!(self, settle, Settle { items: vec![SettleItem { job, token, outcome }] });
                        self.rests(job);
                    }
                }
            }
            Act::Vote { approval, approve, ballot } => {
                let unknown = (ApprovalId::from_bytes(*self.fresh_id().as_bytes()), LinkToken([9; 32]));
                let (approval, link) = *at_place(&self.approvals, *approval).unwrap_or(&unknown);
                let voter = match ballot {
                    Ballot::Link { of, key } => {
                        let other = at_place(&self.approvals, *of).unwrap_or(&unknown).1;
                        let token = if *of == 0 { link } else { other };
                        Voter::Link { token: token.to_text(), key: key.map(voting_key) }
                    }
                    Ballot::Garbage => Voter::Link { token: "garbage".into(), key: None },
                    Ballot::Key { name, role } => Voter::Key {
                        name: voting_key(*name),
                        roles: vec![["role0", "role1"][*role].to_owned()],
                    },
                };
                let decision = if *approve { Decision::Approve } else { Decision::Deny };
                let request = CastVote { approval, decision, voter, reason: Some("because".into()) };
                let answer = both!(self, vote, request);
                self.tells("vote", answer.is_ok());
                let failed = matches!(answer, Ok(Done::Moved(_, Status::Failed)));
                self.tells("a vote that fails its job", failed);
            }
            _ => {}
        }
        Ok(())
    }
}
