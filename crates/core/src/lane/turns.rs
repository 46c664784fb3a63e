//! Whose turn it is: one claim's way through the lanes of a queue.

use super::{Held, Lane, LaneRule, QueueLimits};
use crate::rate::Rates;
use std::collections::HashMap;

/// One claim's way through the lanes of a queue: who may be handed out, and in which order.
///
/// Every lane has its turn in the order of its number, from behind the one that was served last. A turn is as many jobs as
/// the lane's weight. Few lanes share the whole claim: after the last one comes the first again.
#[derive(Debug)]
pub struct Turns {
    /// Concurrency of the queue.
    most: Option<i64>,
    each: LaneRule,
    own: HashMap<Lane, LaneRule>,
    held: Held,
    rates: Option<Rates>,
    /// Where the claim began.
    begin: Lane,
    from: Lane,
    /// Where a look at lanes ended before all were seen: the nearest one.
    stopped: Option<Lane>,
    want: usize,
}

impl Turns {
    /// A claim of `want` jobs under these rules, which begins behind a lane. What it serves is paid for in its own copy of the
    /// buckets: what is handed out in the end is known to the store.
    pub fn new(flow: &QueueLimits, held: Held, rates: Option<Rates>, from: Lane, want: usize) -> Self {
        let lanes = flow.lanes.clone().unwrap_or_default();
        let own = lanes.keys.iter().map(|(key, rule)| (Lane::of(key), *rule)).collect();
        let most = flow.concurrency.map(i64::from);
        Self { most, each: lanes.each, own, held, rates, begin: from, from, stopped: None, want }
    }

    /// How many more may be handed out.
    pub fn wants(&self) -> usize {
        let room = self.most.map_or(i64::MAX, |most| most - self.held.total());
        let units = self.rates.as_ref().map_or(usize::MAX, Rates::wants);
        self.want.min(units).min(usize::try_from(room).unwrap_or_default())
    }

    /// Behind which lane the next turn of this claim begins.
    pub fn from(&self) -> Lane {
        self.from
    }

    /// Notes that a look at lanes ended behind this one before all were seen.
    pub fn stop(&mut self, lane: Lane) {
        if self.stopped.is_none_or(|stopped| self.way(lane) < self.way(stopped)) {
            self.stopped = Some(lane);
        }
    }

    /// Behind which lane the next claim begins: where this one served last, or where a look ended before that. So every lane
    /// is seen again after as many claims as it takes to look at all of them.
    pub fn next(&self) -> Lane {
        self.stopped.filter(|stopped| self.way(*stopped) < self.way(self.from)).unwrap_or(self.from)
    }

    /// How far behind the beginning of this claim a lane is, going round once.
    fn way(&self, lane: Lane) -> i64 {
        let way = lane.0.wrapping_sub(self.begin.0) & i64::MAX;
        if way == 0 { i64::MAX } else { way }
    }

    /// How many more jobs of a lane may be handed out.
    pub fn room(&self, lane: Lane) -> usize {
        let own = self.own.get(&lane).and_then(|rule| rule.concurrency);
        let most = own.or(self.each.concurrency).filter(|_| lane != Lane::PLAIN);
        let room = most.map_or(i64::MAX, |most| i64::from(most) - self.held.of(lane));
        let units = self.rates.as_ref().map_or(usize::MAX, |rates| rates.room(lane));
        units.min(usize::try_from(room).unwrap_or_default())
    }

    fn weight(&self, lane: Lane) -> usize {
        let own = self.own.get(&lane).and_then(|rule| rule.weight);
        let weight = own.or(self.each.weight).filter(|_| lane != Lane::PLAIN);
        usize::try_from(weight.unwrap_or(1)).unwrap_or(1).max(1)
    }

    /// How many jobs of a lane it is enough to know, where this many lanes have some.
    pub fn depth(&self, lane: Lane, lanes: usize) -> usize {
        let turn = if lanes >= self.wants() { self.weight(lane) } else { self.wants() };
        turn.min(self.room(lane)).min(self.wants())
    }

    /// Puts lanes in the order of their turns.
    pub fn in_order<T>(&self, lanes: impl IntoIterator<Item = (Lane, T)>) -> Vec<(Lane, T)> {
        let mut lanes: Vec<(Lane, T)> = lanes.into_iter().collect();
        lanes.sort_by_key(|(lane, _)| (*lane <= self.from, *lane));
        lanes
    }

    /// Whether the first job of a lane can be paid for out of the lane's bucket; if not, the lane stands still.
    pub fn opens(&mut self, lane: Lane, cost: i32) -> bool {
        self.rates.as_mut().is_none_or(|rates| rates.opens(lane, cost))
    }

    /// Serves lanes of one priority, each with its first jobs and what they cost, and says who is handed out, in this order.
    pub fn serve<T>(
        &mut self,
        lanes: impl IntoIterator<Item = (Lane, Vec<T>)>,
        cost: impl Fn(&T) -> i32,
    ) -> Vec<T> {
        let with_jobs =
            self.in_order(lanes).into_iter().map(|(lane, jobs)| (lane, jobs.into_iter().peekable()));
        let mut lanes: Vec<_> = with_jobs.collect();
        let mut served = Vec::new();
        loop {
            let before = served.len();
            for (lane, jobs) in &mut lanes {
                for _ in 0..self.weight(*lane).min(self.room(*lane)).min(self.wants()) {
                    let Some(job) = jobs.next_if(|job| self.starts(*lane, cost(job))) else { break };
                    served.push(job);
                    self.held.take(*lane);
                    self.want -= 1;
                    self.from = *lane;
                }
            }
            if served.len() == before {
                return served;
            }
        }
    }

    /// Pays for the start of a lane's next job, if the rates allow it.
    fn starts(&mut self, lane: Lane, cost: i32) -> bool {
        let Some(rates) = &mut self.rates else { return true };
        let admits = rates.admits(lane, cost);
        if admits {
            rates.pay(lane, cost);
        }
        admits
    }
}
