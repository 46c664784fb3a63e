//! Queues with rules: how many of their jobs run at once, and whose turn it is.

use crate::index::id_of;
use crate::state::{State, page};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use windlass_core::lane::{Held, Turns};
use windlass_core::limits::{LANED_CLAIM_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::{Job, JobId, Key, Lane, Name, Order, QueueLimits, Status, Timestamp};
use windlass_store::{ClaimMany, Claimed, LaneState, ListLanes};

impl State {
    /// The rules of a queue, if it has any.
    pub fn flow(&self, queue: &Name) -> Option<&QueueLimits> {
        self.queues.get(queue)?.flow.as_ref()
    }

    /// The slots of a queue that are taken.
    pub fn held_of(&self, queue: &Name, flow: &QueueLimits) -> Held {
        self.with_slot(queue).map(|job| (flow.lane(job.lane), 1)).collect()
    }

    /// Whether a job that is not held finds a slot; one that is has it.
    pub fn has_slot(&self, job: &Job, now: Timestamp) -> bool {
        let room = |flow: &QueueLimits| flow.at(now).has_room(job.lane, self.held_of(&job.queue, flow));
        job.takes_slot() || self.flow(&job.queue).is_none_or(room)
    }

    /// Takes from a queue with rules: first what its holders lost, which has a slot, then lane by lane in turn.
    pub fn claim_laned(
        &mut self,
        queue: &Name,
        flow: &QueueLimits,
        request: &ClaimMany,
        max: usize,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) {
        if flow.is_shut(now) {
            return;
        }
        let most = max.min(claimed.len() + LANED_CLAIM_MAX);
        let mut rates = self.rates(queue, flow, now);
        for id in self.lost(queue, &request.kinds, now) {
            if claimed.len() < most {
                claimed.extend(self.hand_out_paid(id, &request.claim, &mut rates, now));
            }
        }
        let from = request.from.unwrap_or_else(|| self.lane_places.begin(queue));
        let held = self.held_of(queue, flow);
        let mut turns = Turns::new(&flow.at(now), held, rates.clone(), from, most - claimed.len());
        for levels in flow.levels((PRIORITY_MIN as i32..=PRIORITY_MAX as i32).rev()) {
            if turns.wants() == 0 {
                break;
            }
            let waiting = self.waiting(queue, flow, &levels, &request.kinds, now);
            let cost = |id: &JobId| self.entry(*id).map_or(1, |entry| self.price(&entry.job).1);
            for id in turns.serve(waiting, cost) {
                claimed.extend(self.hand_out_paid(id, &request.claim, &mut rates, now));
            }
        }
        self.keep_rates(queue, rates, now);
        if request.from.is_none() {
            self.lane_places.end(queue, turns.from());
        }
    }

    /// The keys of a queue that take turns.
    pub fn lanes(&mut self, request: ListLanes, now: Timestamp) -> Vec<LaneState> {
        let queue = &request.queue;
        let Some(flow) = self.flow(queue).filter(|flow| flow.takes_turns()) else { return Vec::new() };
        let (held, rates) = (self.held_of(queue, flow), self.rates(queue, flow, now));
        let mut lanes = BTreeMap::<Lane, (Option<Key>, i64)>::new();
        let kept = self.buckets.iter().filter(|((of, _), bucket)| of == queue && bucket.counts_at(now));
        lanes.extend(kept.map(|((_, lane), _)| (*lane, (None, 0))));
        for entry in self.entries.values().filter(|entry| entry.job.queue == *queue) {
            let (job, key) = (&entry.job, entry.facts().and_then(|facts| facts.key.clone()));
            if let Some(lane) = job.lane.filter(|_| job.takes_slot() || job.due_at.is_some()) {
                let (of, due) = lanes.entry(lane).or_default();
                *of = key;
                *due += i64::from(!job.takes_slot() && job.is_due(now));
            }
        }
        let state = |(lane, (key, due))| LaneState::of(lane, key, due, &held, rates.as_ref());
        lanes
            .into_iter()
            .filter(|(lane, _)| *lane > request.after)
            .take(page(request.limit))
            .map(state)
            .collect()
    }

    fn with_slot(&self, queue: &Name) -> impl Iterator<Item = &Job> {
        let held = self.index.list(Order::Worker, None).filter_map(|place| self.entries.get(&id_of(place)));
        held.map(|entry| &entry.job).filter(move |job| job.takes_slot() && job.queue == *queue)
    }

    /// Runs whose lease is over, as they stood in line.
    fn lost(&self, queue: &Name, kinds: &[Name], now: Timestamp) -> Vec<JobId> {
        let is_lost = |job: &&Job| job.status == Status::Running && job.is_due(now) && of(kinds, job);
        let mut lost: Vec<_> = self
            .with_slot(queue)
            .filter(is_lost)
            .map(|job| (Reverse(job.priority), job.due_at, job.id))
            .collect();
        lost.sort_unstable();
        lost.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Due jobs of some priorities that nobody holds, by lane.
    fn waiting(
        &self,
        queue: &Name,
        flow: &QueueLimits,
        levels: &[i32],
        kinds: &[Name],
        now: Timestamp,
    ) -> BTreeMap<Lane, Vec<JobId>> {
        let mut lanes = BTreeMap::<_, Vec<_>>::new();
        for priority in levels {
            let mut place = None;
            while let Some(next) = self.index.next_due(queue, *priority, place.as_ref(), now) {
                if let Some(entry) = self.entries.get(&id_of(next))
                    && entry.job.status != Status::Running
                    && of(kinds, &entry.job)
                {
                    let rank = flow.rank(*priority, entry.job.due_at.unwrap_or(now));
                    lanes.entry(flow.lane(entry.job.lane)).or_default().push((rank, entry.job.id));
                }
                place = Some(next.clone());
            }
        }
        let in_order = |(lane, mut jobs): (Lane, Vec<(Timestamp, JobId)>)| {
            jobs.sort_unstable();
            (lane, jobs.into_iter().map(|(_, id)| id).collect())
        };
        lanes.into_iter().map(in_order).collect()
    }
}

/// Whether a claim for these kinds takes a job.
fn of(kinds: &[Name], job: &Job) -> bool {
    kinds.is_empty() || kinds.contains(&job.kind)
}
