//! Claiming: at once when there is a hint or room, and now and then without either, because hints can be lost.

use crate::attempt::Attempt;
use crate::consume::Consumer;
use crate::due_timers::DueTimers;
use crate::health;
use crate::holdings::Holdings;
use crate::lanes::{self, Asked, DEEP, Line, Lines, Ready};
use crate::leases::Held;
use crate::metrics::Kinds;
use crate::offer::{Came, OfferReply, Offers, OpenOffer, OpenOffers};
use crate::policy::LivePolicies;
use crate::profile::Profile;
use crate::reach::Reach;
use crate::recall::Recall;
use crate::repeat::{Pause, jittered};
use crate::run::{Bounds, at};
use crate::shutdown::{Ending, Level};
use futures_util::future::Either;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_core::decide::Claim;
use windlass_core::{LeaseMs, Name, Timestamp};
use windlass_store::{ClaimMany, Claimed, StoreError};

/// How soon it looks again after it found something that nobody had hinted at.
const BUSY: Duration = Duration::from_millis(20);
/// How long a claim that may have happened is asked again while the worker ends.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Who claims.
pub(crate) struct Claimer {
    pub(crate) reach: Arc<Reach>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) policies: Arc<LivePolicies>,
    /// Where this worker says that it waits.
    pub(crate) offers: Offers,
    /// What messages of a broker name: it goes first.
    pub(crate) consumer: Option<Arc<Consumer>>,
    /// When jobs that this worker let go are due again.
    pub(crate) soon: Arc<DueTimers>,
    /// What jobs that wait had on record when they ran here.
    pub(crate) recall: Arc<Recall>,
    pub(crate) ending: Ending,
}

impl Claimer {
    fn offers(&self) -> OpenOffers {
        OpenOffers::new(self.offers.clone(), Arc::clone(&self.profile), self.reach.runtime.clone())
    }

    fn is_working(&self) -> bool {
        self.ending.level() == Level::Working
    }

    /// Says that it is drained when nothing can come any more, and not before.
    fn show_drained(&self, nothing_comes: bool) {
        let is_draining = self.holdings.is_draining();
        if nothing_comes || !is_draining {
            self.reach.health.set_drained(is_draining);
        }
    }

    /// Gives back what was claimed ahead and has found no lane for too long.
    fn give_back_late(&self) {
        self.holdings.give_back(self.lines.take_back(Some(Instant::now())));
    }
}

/// Claims until the worker is to end.
pub(crate) async fn run(claimer: Arc<Claimer>) {
    let mut hints = claimer.reach.source.hints().due;
    let (mut hinted, mut polled) = (true, false);
    let idle = claimer.profile.poll;
    let mut poll = idle;
    let (mut brought, mut made) = (Brought::default(), claimer.offers());
    while claimer.is_working() {
        if hinted {
            hints.borrow_and_update();
        }
        made.withdraw();
        let found = round(&claimer, &mut brought).await;
        if found.more {
            continue;
        }
        // What was hinted at says nothing about what is not.
        poll = match found.any {
            true if polled => BUSY,
            true => poll,
            false => (poll * 2).min(idle),
        };
        // Without room a hint is no news: whoever makes room says so.
        let listen = hinted && found.room;
        let poll_at = Instant::now() + jittered(poll);
        polled = loop {
            if claimer.holdings.may_take() {
                made.make(&claimer.lines);
            }
            claimer.show_drained(made.is_empty() && brought.ahead.is_none());
            // Jobs come into the lines by this loop alone, so the first of them to leave is known here.
            let leave_at = claimer.lines.iter().filter_map(|line| line.leave_at()).min();
            tokio::select! {
                () = claimer.ending.reached(Level::Graceful) => break false,
                () = claimer.holdings.room.notified() => break false,
                () = claimer.soon.next() => break false,
                () = tokio::time::sleep_until(poll_at) => break true,
                changed = hints.changed(), if listen => {
                    hinted = changed.is_ok();
                    break false;
                }
                (one, told) = made.answered() => take_in(&claimer, &mut brought, one, told).await,
                () = brought.came_ahead(&claimer) => break false,
                () = at(leave_at) => claimer.give_back_late(),
            }
        };
    }
    made.withdraw();
    while !made.is_empty() {
        let (one, told) = made.answered().await;
        take_in(&claimer, &mut brought, one, told).await;
    }
    brought.admit(&claimer);
    if brought.ahead.is_some() {
        brought.came_ahead(&claimer).await;
    }
}

/// Takes in what came of an offer. Where nobody knows, the store does.
async fn take_in(claimer: &Arc<Claimer>, brought: &mut Brought, made: OpenOffer, told: OfferReply) {
    let OfferReply { since, came } = told;
    let came = match came {
        Came::Job(held) => Some((since, vec![*held])),
        Came::Nothing => None,
        Came::Unknown => {
            let (queue, under) = (made.queue().clone(), made.claim().clone());
            claim(claimer, vec![queue], 1, under, Some(since)).await
        }
    };
    if let Some((sent, claimed)) = came {
        admit(claimer, &mut brought.kinds, sent, claimed);
    }
}

/// What a round of claims came to.
#[derive(Default)]
struct Found {
    /// Something was claimed.
    any: bool,
    /// A claim was answered in full, and there is room for more.
    more: bool,
    /// There was room at all.
    room: bool,
}

/// The answer to a claim that is not taken in yet: where more is to be claimed, that goes out first.
#[derive(Default)]
struct Brought {
    answer: Option<(Instant, Vec<Claimed>, Asked)>,
    /// The next claim, if it is under way already.
    ahead: Option<Ahead>,
    kinds: Kinds,
}

impl Brought {
    fn admit(&mut self, claimer: &Arc<Claimer>) {
        if let Some((sent, claimed, _asked)) = self.answer.take() {
            admit(claimer, &mut self.kinds, sent, claimed);
        }
    }

    /// Takes in what the claim ahead brings; never comes if there is none.
    async fn came_ahead(&mut self, claimer: &Arc<Claimer>) {
        match &mut self.ahead {
            None => std::future::pending().await,
            Some(ahead) => {
                let answered = (&mut ahead.claiming).await.ok().flatten();
                let Some(Ahead { line, asked, max, .. }) = self.ahead.take() else { return };
                if let Some((sent, claimed)) = answered {
                    line.note(claimed.len(), claimed.len() >= max);
                    self.answer = Some((sent, claimed, asked));
                    self.admit(claimer);
                }
            }
        }
    }
}

/// A claim for a line that has plenty, made while the one before it is under way.
struct Ahead {
    line: Arc<Line>,
    asked: Asked,
    max: usize,
    claiming: JoinHandle<Option<(Instant, Vec<Claimed>)>>,
}

impl Ahead {
    /// None if there is no room for many more.
    #[expect(clippy::disallowed_methods, reason = "it is awaited; one that panicked has brought nothing")]
    fn of(claimer: &Arc<Claimer>, line: &Arc<Line>) -> Option<Self> {
        let max = line.room(Instant::now());
        if max < DEEP {
            return None;
        }
        let (asked, line, claimer) = (Asked::of(&[line], max), Arc::clone(line), Arc::clone(claimer));
        let queue = line.queue.clone();
        let claiming = tokio::spawn(async move {
            let under = claimer.profile.fresh_claim();
            claim(&claimer, vec![queue], max, under, None).await
        });
        Some(Self { line, asked, max, claiming })
    }
}

/// One round of claims. What the last one brought may stay behind if there is room for more, until that is asked for.
async fn round(claimer: &Arc<Claimer>, brought: &mut Brought) -> Found {
    let found = claim_all(claimer, brought).await;
    if !found.more {
        brought.admit(claimer);
    }
    found
}

/// One claim for every line that is known to have more, and one for all others together.
async fn claim_all(claimer: &Arc<Claimer>, brought: &mut Brought) -> Found {
    let mut found = Found::default();
    if !claimer.holdings.may_take() {
        return found;
    }
    claimer.give_back_late();
    let now = Instant::now();
    let open: Vec<(&Arc<Line>, usize)> =
        claimer.lines.iter().map(|line| (line, line.room(now))).filter(|(_, room)| *room > 0).collect();
    let (hot, cold): (Vec<_>, Vec<_>) = open.into_iter().partition(|(line, _)| line.is_hot());
    found.room = !hot.is_empty() || !cold.is_empty();
    let alone = hot.into_iter().map(|(line, room)| (vec![line], room));
    // Each line has room for as many as the one with the least.
    let least = cold.iter().map(|(_, room)| *room).min();
    let together = least.map(|room| (cold.into_iter().map(|(line, _)| line).collect(), room));
    for (lines, max) in alone.chain(together) {
        if !claimer.is_working() {
            break;
        }
        let ahead =
            brought.ahead.take_if(|ahead| matches!(&lines[..], [line] if Arc::ptr_eq(line, &ahead.line)));
        let (asked, max, claiming) = match ahead {
            Some(Ahead { asked, max, claiming, .. }) => {
                (asked, max, Either::Left(async { claiming.await.ok().flatten() }))
            }
            None => {
                let queues = lines.iter().map(|line| line.queue.clone()).collect();
                (
                    Asked::of(&lines, max),
                    max,
                    Either::Right(claim(claimer, queues, max, claimer.profile.fresh_claim(), None)),
                )
            }
        };
        if let [line] = &lines[..]
            && brought.ahead.is_none()
            && line.is_deep()
        {
            brought.ahead = Ahead::of(claimer, line);
        }
        let answered = tokio::join!(biased; claiming, async { brought.admit(claimer) }).0;
        let Some((sent, claimed)) = answered else { break };
        let full = claimed.len() >= max;
        for line in &lines {
            let of_it = claimed.iter().filter(|held| held.job.queue == line.queue).count();
            line.note(of_it, full);
        }
        found.any |= !claimed.is_empty();
        found.more |= full;
        brought.answer = Some((sent, claimed, asked));
        if !full {
            brought.admit(claimer);
        }
    }
    found
}

/// Claims until the store answers. The same secret again returns what it already holds, so a lost answer loses nothing; since
/// when it may hold something is `unknown`, if anybody has used it before.
async fn claim(
    claimer: &Claimer,
    queues: Vec<Name>,
    max: usize,
    claim: Claim,
    mut unknown: Option<Instant>,
) -> Option<(Instant, Vec<Claimed>)> {
    let request = ClaimMany { from: None, queues, kinds: claimer.profile.kinds.clone(), max, claim };
    let (mut pause, mut patience) = (Pause::default(), None);
    loop {
        // Leases count from the first call that may have been carried out.
        let sent = unknown.unwrap_or_else(Instant::now);
        let source = &*claimer.reach.source;
        let asked = async {
            match &claimer.consumer {
                Some(consumer) => match consumer.claim(source, &request).await {
                    Ok(named) if named.is_empty() => source.claim(request.clone()).await,
                    named => {
                        // There may be room left for what is next in turn.
                        claimer.holdings.room.notify_one();
                        named
                    }
                },
                None => source.claim(request.clone()).await,
            }
        };
        match claimer.reach.ask(asked).await {
            Ok(claimed) => {
                claimer.reach.health.answered(health::Line::Work);
                if !claimed.is_empty() {
                    claimer.holdings.metrics.claim_batch.record(claimed.len() as f64);
                }
                return Some((sent, claimed));
            }
            Err(error) => {
                claimer.reach.health.failed(health::Line::Work, &error);
                if matches!(error, StoreError::Indeterminate(_)) {
                    unknown = Some(sent);
                }
            }
        }
        if !claimer.is_working() {
            // Only what may have happened is worth asking about any more.
            let until = *patience.get_or_insert_with(|| Instant::now() + LAST_PATIENCE);
            if unknown.is_none() || claimer.ending.level() == Level::Now || Instant::now() >= until {
                return None;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause.next()) => {}
            () = claimer.ending.reached(Level::Graceful), if patience.is_none() => {}
        }
    }
}

/// Takes what was claimed into its lines. What cannot be run here goes back at once.
fn admit(claimer: &Arc<Claimer>, kinds: &mut Kinds, sent: Instant, claimed: Vec<Claimed>) {
    if claimed.is_empty() {
        return;
    }
    let (policies, working, now) = (claimer.policies.now(), claimer.is_working(), Instant::now());
    // A worker has a few lines: to look for one costs less than to hash its name.
    let mut lines: Vec<Vec<Ready>> = claimer.lines.iter().map(|_| Vec::new()).collect();
    let (mut leases, mut back) = (Vec::with_capacity(claimed.len()), Vec::new());
    for held in claimed {
        let policy = policies.of(&held.facts);
        let lease_ms = policy.lease_ms.unwrap_or(claimer.profile.lease);
        let claimed_for = lease_of(&held, lease_ms);
        let timeout = policy
            .timeout_ms
            .filter(|ms| *ms > 0)
            .and_then(|ms| u64::try_from(ms).ok())
            .map(Duration::from_millis);
        // The store counts a job's own timeout from the claim. What only this worker says counts from the handler's begin:
        // else one that is shorter than a claim takes would never let it begin.
        let (own, workers) = if held.facts.timeout_ms.is_some() { (timeout, None) } else { (None, timeout) };
        let bounds = Bounds {
            timeout_at: own.and_then(|timeout| sent.checked_add(timeout)),
            timeout: workers,
            cancel_grace: Some(claimer.profile.cancel_grace),
            backoff: if held.facts.backoff.is_some() { None } else { policy.backoff },
        };
        let (metrics, waited) = (kinds.get(&held.job.queue, &held.job.kind), waited(&held));
        let patience = lanes::patience(claimed_for, timeout);
        let (source, recall) = (Arc::clone(&claimer.reach.source), Arc::clone(&claimer.recall));
        let attempt = Attempt::knowing(source, held, Some(now), Some(recall));
        leases.push(Held::new(attempt.clone(), lease_ms, sent, claimed_for, bounds.timeout_at));
        let line = claimer.lines.iter().position(|line| line.queue == attempt.job().queue);
        match (claimer.profile.handlers.get(attempt.kind()), line) {
            (Some(handler), Some(line)) if working => {
                let (handler, leave_at) = (handler.clone(), now + patience);
                lines[line].push(Ready { attempt, handler, bounds, metrics, waited, patience, leave_at });
            }
            _ => back.push(attempt),
        }
    }
    claimer.holdings.leases.insert(leases);
    for (line, jobs) in claimer.lines.iter().zip(lines) {
        if !jobs.is_empty() {
            line.admit(&claimer.reach.runtime, &claimer.holdings, jobs);
        }
    }
    claimer.holdings.give_back(back);
}

/// How long the store gave the lease for: the job's own, and never past its timeout.
fn lease_of(held: &Claimed, lease_ms: LeaseMs) -> Duration {
    let micros = held.job.started_at.map(|at| held.lease.expires_at.as_micros() - at.as_micros());
    let given = micros.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros);
    given.unwrap_or(Duration::from_millis(lease_ms.get().unsigned_abs()))
}

/// How long a job that runs for the first time was due before that.
fn waited(held: &Claimed) -> Option<Duration> {
    let started_at = held.job.started_at.filter(|_| held.job.attempt == 1)?;
    let due_at: Timestamp = held.facts.run_at.resolve(held.job.created_at);
    let micros = started_at.as_micros() - due_at.max(held.job.created_at).as_micros();
    u64::try_from(micros).ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests;
