//! Queues with rules: how many of their jobs run at once, and whose turn it is. There is one writer, so nothing is locked.

use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::rates::Costs;
use crate::row;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use windlass_core::decide::{Command, decide};
use windlass_core::hold::LANE_DUE_CAP;
use windlass_core::lane::{Held, Turns};
use windlass_core::limits::{LANED_CLAIM_MAX, LANED_LOOK_MAX, LANED_WALK_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::rate::Rates;
use windlass_core::{Job, JobId, Key, Lane, Name, QueueLimits, Status, Timestamp};
use windlass_store::{ClaimMany, Claimed, LanePlaces, LaneState, ListLanes};

/// The first jobs of a lane.
type Heads = (Lane, Vec<JobId>);

impl Db<'_> {
    /// The slots of a queue that are taken.
    pub(crate) fn slots(&self, queue: &Name, flow: &QueueLimits) -> Tried<Held> {
        let count = |r: &rusqlite::Row<'_>| Ok((Lane::from_number(r.get(0)?), r.get::<_, i64>(1)?));
        let counts = self.all(sql!("slots"), [queue.as_str()], count)?;
        Ok(counts.into_iter().map(|(lane, n)| (flow.lane(Some(lane)), n)).collect())
    }

    /// The keys of a queue that take turns.
    pub(crate) fn lanes(&self, request: &ListLanes, now: Timestamp) -> Tried<Vec<LaneState>> {
        let queue = &request.queue;
        let flow = self.queue(queue)?.and_then(|queue| queue.flow).filter(QueueLimits::takes_turns);
        let Some(flow) = flow else { return Ok(Vec::new()) };
        let (held, rates) = (self.slots(queue, &flow)?, self.rates(queue, &flow, now)?);
        let (after, limit) = (request.after.number(), crate::list::page(request.limit));
        let params = (queue.as_str(), after, limit, now.as_micros(), LANE_DUE_CAP + 1);
        self.all(sql!("lanes"), params, |r| {
            let key = r.get::<_, Option<String>>(1)?.and_then(|key| Key::try_from(key).ok());
            Ok(LaneState::of(Lane::from_number(r.get(0)?), key, r.get(2)?, &held, rates.as_ref()))
        })
    }

    /// Whether a job that is not held finds a slot; one that is has it.
    pub(crate) fn has_slot(&self, job: &Job, now: Timestamp) -> Tried<bool> {
        if job.takes_slot() {
            return Ok(true);
        }
        let Some(flow) = self.queue(&job.queue)?.and_then(|queue| queue.flow) else { return Ok(true) };
        Ok(flow.at(now).has_room(job.lane, self.slots(&job.queue, &flow)?))
    }
}

impl Tx<'_, '_> {
    /// Takes from a queue with rules: first what its holders lost, which has a slot, then lane by lane in turn.
    #[expect(clippy::too_many_arguments, reason = "one loop's body, split for its length")]
    pub(crate) fn claim_laned(
        &self,
        queue: &Name,
        flow: &QueueLimits,
        request: &ClaimMany,
        max: usize,
        places: &LanePlaces,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<()> {
        if flow.is_shut(now) {
            return Ok(());
        }
        let most = max.min(claimed.len() + LANED_CLAIM_MAX);
        let (mut rates, mut costs) = (self.rates(queue, flow, now)?, Costs::default());
        let mut lost = self.all(sql!("lost"), (queue.as_str(), now.as_micros()), row::readable_job)?;
        // As they stood in line.
        lost.sort_unstable_by_key(|(job, _)| (Reverse(job.priority), job.due_at, job.id));
        self.costs(rates.as_ref(), lost.iter().map(|(job, _)| job.id), &mut costs)?;
        for (job, wrong) in lost {
            if claimed.len() < most && takes(request, job.kind.as_str()) {
                let price = (flow.lane(job.lane), costs.of(job.id));
                self.take_laned(job, wrong, request, price, &mut rates, now, claimed)?;
            }
        }
        let from = request.from.unwrap_or_else(|| places.begin(queue));
        let held = self.slots(queue, flow)?;
        let mut turns = Turns::new(&flow.at(now), held, rates.clone(), from, most - claimed.len());
        for levels in flow.levels((PRIORITY_MIN as i32..=PRIORITY_MAX as i32).rev()) {
            if turns.wants() == 0 {
                break;
            }
            let mut look = Look { tx: self, queue, flow, levels, request, rates: rates.as_ref(), now };
            let heads = look.heads(&mut turns, &mut costs)?;
            for id in turns.serve(heads, |id| costs.of(*id)) {
                let found = self.all(sql!("job"), [id.as_bytes()], row::readable_job)?;
                for (job, wrong) in found {
                    let price = (flow.lane(job.lane), costs.of(id));
                    self.take_laned(job, wrong, request, price, &mut rates, now, claimed)?;
                }
            }
        }
        self.keep_rates(queue, rates, now)?;
        if request.from.is_none() {
            places.end(queue, turns.next());
        }
        Ok(())
    }

    /// Hands out one job if the rates allow it, or ends it; one that does not read back is set aside.
    #[expect(clippy::too_many_arguments, reason = "one loop's body, split for its length")]
    fn take_laned(
        &self,
        job: Job,
        wrong: Option<String>,
        request: &ClaimMany,
        (lane, cost): (Lane, i32),
        rates: &mut Option<Rates>,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<()> {
        if let Some(why) = wrong {
            self.set_aside(job.id, &why, now)?;
            return Ok(());
        }
        let Ok(step) = decide(&job, Command::Claim(request.claim.clone()), now) else { return Ok(()) };
        // A lost run that ends here starts nothing.
        let admits = |rates: &mut Rates| rates.admits(lane, cost);
        if step.job.status == Status::Running && !rates.as_mut().is_none_or(admits) {
            return Ok(());
        }
        if let Some(held) = self.take(&job, step, &request.claim, now)? {
            claimed.push(held);
            if let Some(rates) = rates {
                rates.pay(lane, cost);
            }
        }
        Ok(())
    }
}

/// A look at one priority of a queue, or at all of them together.
struct Look<'a, 'c, 'd> {
    tx: &'a Tx<'c, 'd>,
    queue: &'a Name,
    flow: &'a QueueLimits,
    levels: Vec<i32>,
    request: &'a ClaimMany,
    rates: Option<&'a Rates>,
    now: Timestamp,
}

impl Look<'_, '_, '_> {
    /// Lanes with room and a due job that can be paid for, in the order of their turns, as many and as deep as a claim needs.
    fn heads(&mut self, turns: &mut Turns, costs: &mut Costs) -> Tried<Vec<Heads>> {
        if !self.flow.takes_turns() {
            return Ok(vec![(Lane::PLAIN, self.plain(true, turns.wants(), costs)?)]);
        }
        let mut heads: Vec<Heads> = Vec::new();
        let (from, mut looked, mut is_cut) = (turns.from().number(), 0, false);
        for (mut after, until, begins_again) in [(from, i64::MAX, false), (0, from, true)] {
            if begins_again && heads.len() < turns.wants() {
                let plain = self.plain(false, turns.wants(), costs)?;
                heads.extend(Some((Lane::PLAIN, plain)).filter(|(_, jobs)| !jobs.is_empty()));
            }
            while heads.len() < turns.wants() && !is_cut {
                let Some(lane) = self.next_lane(after, until)? else { break };
                is_cut = looked == LANED_WALK_MAX;
                if is_cut {
                    self.rest(after, turns, &mut heads, costs)?;
                } else {
                    (looked, after) = (looked + 1, lane.number());
                    heads.extend(self.open_lane(lane, turns, costs)?);
                }
            }
        }
        if heads.len() < turns.wants() {
            let lanes = heads.len();
            for (lane, jobs) in heads.iter_mut().filter(|(lane, _)| *lane != Lane::PLAIN) {
                *jobs = self.of_lane(*lane, turns.depth(*lane, lanes), costs)?;
            }
        }
        Ok(heads)
    }

    /// A lane with its first jobs, if it has room and a due job that can be paid for.
    fn open_lane(&self, lane: Lane, turns: &mut Turns, costs: &mut Costs) -> Tried<Option<Heads>> {
        if turns.room(lane) == 0 {
            return Ok(None);
        }
        let jobs = self.of_lane(lane, turns.depth(lane, usize::MAX), costs)?;
        let is_open = jobs.first().is_some_and(|first| turns.opens(lane, costs.of(*first)));
        Ok(is_open.then_some((lane, jobs)))
    }

    /// What a look finds that ended behind a lane before all were seen: all that is left if few jobs are due, else nothing, and
    /// the next claim goes on from there.
    fn rest(&self, after: i64, turns: &mut Turns, heads: &mut Vec<Heads>, costs: &mut Costs) -> Tried<()> {
        let Some(mut due) = self.due_lanes()? else {
            turns.stop(Lane::from_number(after));
            return Ok(());
        };
        due.retain(|lane| heads.iter().all(|(of, _)| of != lane));
        for (lane, ()) in turns.in_order(due.into_iter().map(|lane| (lane, ()))) {
            if heads.len() >= turns.wants() {
                break;
            }
            heads.extend(self.open_lane(lane, turns, costs)?);
        }
        Ok(())
    }

    /// All lanes with a due job; none if so many jobs are due that they are not all looked at.
    fn due_lanes(&self) -> Tried<Option<BTreeSet<Lane>>> {
        let mut lanes = BTreeSet::new();
        for priority in &self.levels {
            let params = (self.queue.as_str(), *priority, self.now.as_micros(), LANED_LOOK_MAX as i64 + 1);
            let due = self.tx.all(sql!("due_lanes"), params, |r| Ok(Lane::from_number(r.get(0)?)))?;
            if due.len() > LANED_LOOK_MAX {
                return Ok(None);
            }
            lanes.extend(due.into_iter().filter(|lane| *lane != Lane::PLAIN));
        }
        Ok(Some(lanes))
    }

    /// The next lane that has a job with a due time.
    fn next_lane(&self, after: i64, until: i64) -> Tried<Option<Lane>> {
        let mut next: Option<i64> = None;
        for priority in &self.levels {
            let params = (self.queue.as_str(), *priority, after, next.unwrap_or(until));
            next = self.tx.one(sql!("lanes_due"), params, |r| Ok(r.get::<_, i64>(0)?))?.or(next);
        }
        Ok(next.map(Lane::from_number))
    }

    /// The first jobs without a key, or of all.
    fn plain(&self, all: bool, most: usize, costs: &mut Costs) -> Tried<Vec<JobId>> {
        let look = if all && self.request.kinds.is_empty() { most + most } else { LANED_LOOK_MAX };
        let (queue, now) = (self.queue.as_str(), self.now.as_micros());
        self.first(sql!("plain_heads"), |priority| (queue, priority, now, all, look as i64), most, costs)
    }

    /// The first jobs of a lane.
    fn of_lane(&self, lane: Lane, depth: usize, costs: &mut Costs) -> Tried<Vec<JobId>> {
        let (queue, now, look) = (self.queue.as_str(), self.now.as_micros(), LANED_LOOK_MAX as i64);
        self.first(sql!("lane_heads"), |priority| (queue, priority, lane.number(), now, look), depth, costs)
    }

    /// The first jobs of a statement that the claim takes and nobody holds.
    fn first<P: rusqlite::Params>(
        &self,
        sql: &'static str,
        params: impl Fn(i32) -> P,
        most: usize,
        costs: &mut Costs,
    ) -> Tried<Vec<JobId>> {
        let mut ranked = Vec::new();
        for priority in &self.levels {
            let mut statement = self.tx.statement(sql)?;
            let mut rows = statement.query(params(*priority))?;
            let enough = ranked.len() + most;
            while ranked.len() < enough
                && let Some(row) = rows.next()?
            {
                let (kind, status) = (row.get_ref(1)?.as_str(), row.get_ref(2)?.as_str());
                if takes(self.request, kind.unwrap_or_default()) && status != Ok(Status::Running.as_str()) {
                    let due_at = Timestamp::from_micros(row.get(3)?);
                    ranked.push((self.flow.rank(*priority, due_at), JobId::from_bytes(row.get(0)?)));
                }
            }
        }
        ranked.sort_unstable();
        let found: Vec<JobId> = ranked.into_iter().take(most).map(|(_, id)| id).collect();
        self.tx.costs(self.rates, found.iter().copied(), costs)?;
        Ok(found)
    }
}

/// Whether a claim takes jobs of a kind.
fn takes(request: &ClaimMany, kind: &str) -> bool {
    request.kinds.is_empty() || request.kinds.iter().any(|one| one.as_str() == kind)
}
