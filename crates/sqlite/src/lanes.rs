//! Queues with rules: how many of their jobs run at once, and whose turn it is. There is one writer, so nothing is locked.

use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::row;
use std::cmp::Reverse;
use windlass_core::decide::{Command, decide};
use windlass_core::lane::{Held, Turns};
use windlass_core::limits::{LANED_CLAIM_MAX, LANED_LOOK_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::{Job, JobId, Lane, Name, QueueLimits, Status, Timestamp};
use windlass_store::{ClaimMany, Claimed, LanePlaces};

/// The first jobs of a lane.
type Heads = (Lane, Vec<JobId>);

impl Db<'_> {
    /// The slots of a queue that are taken.
    pub(crate) fn slots(&self, queue: &Name, flow: &QueueLimits) -> Tried<Held> {
        let count = |r: &rusqlite::Row<'_>| Ok((Lane::from_number(r.get(0)?), r.get::<_, i64>(1)?));
        let counts = self.all(sql!("slots"), [queue.as_str()], count)?;
        Ok(counts.into_iter().map(|(lane, n)| (flow.lane(Some(lane)), n)).collect())
    }

    /// Whether a job that is not held finds a slot; one that is has it.
    pub(crate) fn has_slot(&self, job: &Job) -> Tried<bool> {
        if job.takes_slot() {
            return Ok(true);
        }
        let Some(flow) = self.queue(&job.queue)?.and_then(|queue| queue.flow) else { return Ok(true) };
        Ok(flow.has_room(job.lane, self.slots(&job.queue, &flow)?))
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
        let most = max.min(claimed.len() + LANED_CLAIM_MAX);
        let mut lost = self.all(sql!("lost"), (queue.as_str(), now.as_micros()), row::readable_job)?;
        // As they stood in line.
        lost.sort_unstable_by_key(|(job, _)| (Reverse(job.priority), job.due_at, job.id));
        for (job, wrong) in lost {
            if claimed.len() < most && takes(request, job.kind.as_str()) {
                self.take_laned(job, wrong, request, now, claimed)?;
            }
        }
        let from = request.from.unwrap_or_else(|| places.begin(queue));
        let mut turns = Turns::new(flow, self.slots(queue, flow)?, from, most - claimed.len());
        for priority in (PRIORITY_MIN..=PRIORITY_MAX).rev() {
            if turns.wants() == 0 {
                break;
            }
            let heads = self.heads(queue, flow, priority, &turns, request, now)?;
            for id in turns.serve(heads) {
                let found = self.all(sql!("job"), [id.as_bytes()], row::readable_job)?;
                for (job, wrong) in found {
                    self.take_laned(job, wrong, request, now, claimed)?;
                }
            }
        }
        if request.from.is_none() {
            places.end(queue, turns.from());
        }
        Ok(())
    }

    /// Hands out one job, or ends it; one that does not read back is set aside.
    fn take_laned(
        &self,
        job: Job,
        wrong: Option<String>,
        request: &ClaimMany,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<()> {
        if let Some(why) = wrong {
            self.set_aside(job.id, &why, now)?;
        } else if let Ok(step) = decide(&job, Command::Claim(request.claim.clone()), now) {
            claimed.extend(self.take(&job, step, &request.claim, now)?);
        }
        Ok(())
    }

    /// Lanes with room and a due job at one priority, in the order of their turns, as many and as deep as a claim needs.
    fn heads(
        &self,
        queue: &Name,
        flow: &QueueLimits,
        priority: i64,
        turns: &Turns,
        request: &ClaimMany,
        now: Timestamp,
    ) -> Tried<Vec<Heads>> {
        let plain = |all: bool| {
            let look =
                if all && request.kinds.is_empty() { turns.wants() + turns.wants() } else { LANED_LOOK_MAX };
            let params = (queue.as_str(), priority, now.as_micros(), all, look as i64);
            self.first(sql!("plain_heads"), params, request, turns.wants())
        };
        if flow.lanes.is_none() {
            return Ok(vec![(Lane::PLAIN, plain(true)?)]);
        }
        let of_lane = |lane: Lane, depth: usize| {
            let params = (queue.as_str(), priority, lane.number(), now.as_micros(), LANED_LOOK_MAX as i64);
            self.first(sql!("lane_heads"), params, request, depth)
        };
        let mut heads: Vec<Heads> = Vec::new();
        let from = turns.from().number();
        for (mut after, until, begins_again) in [(from, i64::MAX, false), (0, from, true)] {
            if begins_again {
                heads.extend(Some((Lane::PLAIN, plain(false)?)).filter(|(_, jobs)| !jobs.is_empty()));
            }
            while heads.len() < turns.wants() {
                let params = (queue.as_str(), priority, after, until);
                let next = self.one(sql!("lanes_due"), params, |r| Ok(r.get::<_, i64>(0)?))?;
                let Some(lane) = next.map(Lane::from_number) else { break };
                after = lane.number();
                if turns.room(lane) > 0 {
                    let jobs = of_lane(lane, turns.depth(lane, usize::MAX))?;
                    heads.extend(Some((lane, jobs)).filter(|(_, jobs)| !jobs.is_empty()));
                }
            }
        }
        if heads.len() < turns.wants() {
            let lanes = heads.len();
            for (lane, jobs) in heads.iter_mut().filter(|(lane, _)| *lane != Lane::PLAIN) {
                *jobs = of_lane(*lane, turns.depth(*lane, lanes))?;
            }
        }
        Ok(heads)
    }

    /// The first jobs of a statement that the claim takes and nobody holds.
    fn first(
        &self,
        sql: &'static str,
        params: impl rusqlite::Params,
        request: &ClaimMany,
        most: usize,
    ) -> Tried<Vec<JobId>> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while found.len() < most
            && let Some(row) = rows.next()?
        {
            let (kind, status) = (row.get_ref(1)?.as_str(), row.get_ref(2)?.as_str());
            if takes(request, kind.unwrap_or_default()) && status != Ok(Status::Running.as_str()) {
                found.push(JobId::from_bytes(row.get(0)?));
            }
        }
        Ok(found)
    }
}

/// Whether a claim takes jobs of a kind.
fn takes(request: &ClaimMany, kind: &str) -> bool {
    request.kinds.is_empty() || request.kinds.iter().any(|one| one.as_str() == kind)
}
