//! A claim's way through the lanes of a queue, to those that may start a job.

use super::{Asked, Heads, Look};
use crate::db::Tx;
use crate::error::Tried;
use crate::rates::Paying;
use std::collections::BTreeMap;
use uuid::Uuid;
use windlass_core::lane::Turns;
use windlass_core::limits::LANED_WALK_MAX;
use windlass_core::{JobId, Lane};

/// How many lanes are looked at in one statement.
const WALK: usize = 500;

impl Tx<'_> {
    /// Lanes with room and a due job at these priorities that can be paid for, as many and as deep as a claim needs. A run whose
    /// lease is over and that was handed out before the queue had rules gets its slot here, and is taken over by the next claim.
    pub(super) async fn heads(
        &self,
        asked: &Asked<'_>,
        levels: &[i32],
        turns: &mut Turns,
        paying: &mut Paying,
        slots: &mut Vec<Uuid>,
    ) -> Tried<Vec<(Lane, Vec<JobId>)>> {
        let Asked { queue, flow, request, now, .. } = *asked;
        let look = Look { tx: self, queue, flow, levels, request, now };
        let wants = turns.wants();
        let mut heads = BTreeMap::new();
        if !flow.takes_turns() {
            look.plain(true, wants, &mut heads, slots).await?;
            self.learn_costs(paying, heads.values().flatten().copied()).await?;
            return Ok(heads.into_iter().collect());
        }
        let from = turns.from().number();
        // Most lanes have room: as many as are wanted are enough.
        let (mut looked, mut step, mut is_cut) = (0, wants.clamp(1, WALK), false);
        for (mut after, until, begins_again) in [(from, i64::MAX, false), (0, from, true)] {
            if begins_again && heads.len() < wants {
                look.plain(false, wants, &mut heads, slots).await?;
            }
            while heads.len() < wants && !is_cut {
                let most = step.min(LANED_WALK_MAX - looked);
                let lanes = look.lanes(after, until, most).await?;
                let Some(last) = lanes.last().copied() else { break };
                (looked, after, step) = (looked + lanes.len(), last.number(), WALK);
                let is_end = lanes.len() < most;
                look.open_lanes(lanes, turns, paying, &mut heads, slots).await?;
                if is_end {
                    break;
                }
                is_cut = looked == LANED_WALK_MAX && heads.len() < wants;
                if is_cut && !look.rest(turns, paying, &mut heads, slots).await? {
                    turns.stop(last);
                }
            }
        }
        if heads.len() < wants {
            let lanes = heads.len();
            let keyed = heads.keys().copied().filter(|lane| *lane != Lane::PLAIN);
            let deeper: Vec<_> = keyed.map(|lane| (lane, turns.depth(lane, lanes))).collect();
            heads.retain(|lane, _| *lane == Lane::PLAIN);
            look.of_lanes(deeper, &mut heads, slots).await?;
        }
        self.learn_costs(paying, heads.values().flatten().copied()).await?;
        Ok(heads.into_iter().collect())
    }
}

impl Look<'_, '_> {
    /// Adds those of some lanes that have room and a due job that can be paid for.
    async fn open_lanes(
        &self,
        lanes: Vec<Lane>,
        turns: &mut Turns,
        paying: &mut Paying,
        heads: &mut Heads,
        slots: &mut Vec<Uuid>,
    ) -> Tried<()> {
        let open = lanes.into_iter().filter(|lane| turns.room(*lane) > 0);
        let open = open.map(|lane| (lane, turns.depth(lane, usize::MAX))).collect();
        let mut found = BTreeMap::new();
        self.of_lanes(open, &mut found, slots).await?;
        self.tx.learn_costs(paying, found.values().flatten().copied()).await?;
        found.retain(|lane, jobs| jobs.first().is_some_and(|id| turns.opens(*lane, paying.cost(*id))));
        heads.extend(found);
        Ok(())
    }

    /// Adds all that is left where few jobs are due. Says no where so many are due that not all of them are looked at.
    async fn rest(
        &self,
        turns: &mut Turns,
        paying: &mut Paying,
        heads: &mut Heads,
        slots: &mut Vec<Uuid>,
    ) -> Tried<bool> {
        let Some(due) = self.due_lanes().await? else { return Ok(false) };
        let due = due.into_iter().filter(|lane| !heads.contains_key(lane)).map(|lane| (lane, ()));
        for some in turns.in_order(due).chunks(WALK) {
            if heads.len() < turns.wants() {
                let some = some.iter().map(|(lane, ())| *lane).collect();
                self.open_lanes(some, turns, paying, heads, slots).await?;
            }
        }
        Ok(true)
    }
}
