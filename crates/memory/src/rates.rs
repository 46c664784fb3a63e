//! Queues with rates: how fast their jobs start.

use crate::state::State;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::hold::{LaneHold, ReleaseLane};
use windlass_core::rate::{Bucket, Rates};
use windlass_core::{Job, JobId, Lane, Name, Queue, QueueLimits, Refusal, Status, Timestamp};
use windlass_store::Claimed;

impl State {
    /// The rates of a queue; none if it has none.
    pub fn rates(&self, queue: &Name, flow: &QueueLimits, now: Timestamp) -> Option<Rates> {
        let of_queue =
            (queue.clone(), Lane::from_number(i64::MIN))..=(queue.clone(), Lane::from_number(i64::MAX));
        let kept = self.buckets.range(of_queue).map(|((_, lane), bucket)| (*lane, *bucket));
        Rates::new(flow, kept, now)
    }

    /// Keeps what was paid, and forgets buckets that mean nothing any more.
    pub fn keep_rates(&mut self, queue: &Name, rates: Option<Rates>, now: Timestamp) {
        let Some(rates) = rates else { return };
        let changed: Vec<(Lane, Bucket)> = rates.changed().collect();
        self.buckets.retain(|(of, _), bucket| of != queue || bucket.counts_at(now));
        self.buckets.extend(changed.into_iter().map(|(lane, bucket)| ((queue.clone(), lane), bucket)));
    }

    /// Holds a lane, and says of its queue that something of it is held.
    pub fn hold_lane(&mut self, queue: &Name, hold: LaneHold, now: Timestamp) {
        if let Some(held) = Queue::with_hold(self.queues.get(queue), queue) {
            self.queues.insert(queue.clone(), held);
        }
        let place = (queue.clone(), hold.lane);
        let bucket = hold.put(self.buckets.get(&place).copied(), now);
        self.buckets.insert(place, bucket);
    }

    /// The rules of a queue that is claimed from; what says that something is held goes when nothing is.
    pub fn settled_flow(&mut self, queue: &Name, now: Timestamp) -> Option<QueueLimits> {
        let flow = self.flow(queue)?.clone();
        if flow.held
            && !self.rates(queue, &flow, now).is_some_and(|rates| rates.has_holds())
            && let Some(set) = self.queues.get_mut(queue)
        {
            *set = set.without_holds();
            self.buckets.retain(|(of, _), bucket| of != queue || bucket.counts_at(now));
            return set.flow.clone();
        }
        Some(flow)
    }

    /// Lets a lane go; false if there was nothing to let go.
    pub fn release_lane(&mut self, request: ReleaseLane, now: Timestamp) -> bool {
        let kept = self.buckets.remove(&(request.queue.clone(), request.lane()));
        let Some(bucket) = kept.filter(|bucket| bucket.counts_at(now)) else { return false };
        self.write_audit(request.audit(bucket), now);
        self.tell(true);
        true
    }

    /// Adds units that a job turned out to cost, where its queue has rates.
    pub fn charge(&mut self, id: JobId, units: i32, now: Timestamp) {
        let Some(job) = self.entries.get(&id).map(|entry| &entry.job) else { return };
        let (queue, (lane, _)) = (job.queue.clone(), self.price(job));
        let mut rates = self.flow(&queue).and_then(|flow| self.rates(&queue, flow, now));
        if let Some(rates) = &mut rates {
            rates.charge(lane, units);
        }
        self.keep_rates(&queue, rates, now);
    }

    /// The lane of a job under the rules of its queue, and what it costs.
    pub fn price(&self, job: &Job) -> (Lane, i32) {
        let lane = self.flow(&job.queue).map_or(Lane::PLAIN, |flow| flow.lane(job.lane));
        let facts = self.entries.get(&job.id).and_then(|entry| entry.facts());
        (lane, facts.map_or(1, |facts| facts.cost))
    }

    /// Hands out one job if the rates allow it, and pays for it. A lost run that ends by being looked at starts nothing.
    pub fn hand_out_paid(
        &mut self,
        id: JobId,
        claim: &Claim,
        rates: &mut Option<Rates>,
        now: Timestamp,
    ) -> Result<Claimed, Refusal> {
        let job = &self.entry(id)?.job;
        let (lane, cost) = self.price(job);
        let step = decide(job, Command::Claim(claim.clone()), now)?;
        let admits = |rates: &mut Rates| rates.admits(lane, cost);
        if step.job.status == Status::Running && !rates.as_mut().is_none_or(admits) {
            return Err(Refusal::NotClaimable(job.status));
        }
        let claimed = self.hand_out(id, Command::Claim(claim.clone()), claim, now)?;
        if let Some(rates) = rates {
            rates.pay(lane, cost);
        }
        Ok(claimed)
    }
}
