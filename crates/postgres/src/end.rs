//! What the end of a job entails, in its transaction: its key, its approvals, its parent, the jobs that wait for it. Each
//! row is written once, however often it moves: a parent that learns of a thousand ends one by one would leave a thousand dead versions of its row
//! behind, all of which every next update walks over, and cost a round trip for each of them.
//!
//! Locks are taken from parent to child, from upstream to downstream, and by id among the dependents of one job. Ids begin
//! with their time and edges lead to newer jobs, so two transactions hardly ever meet in opposite order; where they do, the
//! server breaks the circle and the loser is tried again.

use crate::db::{Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, HashMap, VecDeque};
use uuid::Uuid;
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::flow::{children, dependents};
use windlass_core::{Event, Job, JobId, Timestamp, Version};

/// So many statements are under way at once, sent in order.
const TOGETHER: usize = 16;
/// With so many events what has gathered is written.
const GATHERED: usize = 1_000;

/// What a transaction has locked, and what it will write of it.
pub(crate) struct Moves<'t> {
    tx: &'t Tx<'t>,
    /// Rows that are locked, as they will be; none for a job that is gone or does not read back.
    rows: HashMap<JobId, Option<Job>>,
    /// The versions that moved rows have in the database.
    moved: BTreeMap<JobId, Version>,
    events: Vec<Event>,
    /// Jobs that give back their keys, and those whose approvals are closed, with the moment.
    freed: Vec<Uuid>,
    closed: Vec<(Uuid, Timestamp)>,
}

impl Tx<'_> {
    /// Carries out what ends entail.
    pub(crate) async fn follow_ends(&self, ended: VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        if ended.is_empty() {
            return Ok(());
        }
        let mut moves = Moves::new(self);
        moves.follow(ended, now).await?;
        moves.write().await
    }
}

impl<'t> Moves<'t> {
    pub(crate) fn new(tx: &'t Tx<'t>) -> Self {
        let (rows, moved) = (HashMap::new(), BTreeMap::new());
        Self { tx, rows, moved, events: Vec::new(), freed: Vec::new(), closed: Vec::new() }
    }

    /// A row that was locked already.
    pub(crate) fn knows(&mut self, job: Job) {
        self.rows.insert(job.id, Some(job));
    }

    /// A row that was loaded, as it will be.
    pub(crate) fn row(&self, id: JobId) -> Option<&Job> {
        self.rows.get(&id)?.as_ref()
    }

    /// Locks jobs by id and loads them. One that does not read back learns of nothing.
    pub(crate) async fn load(&mut self, ids: impl Iterator<Item = JobId>) -> Tried<()> {
        let ids: Vec<JobId> = ids.filter(|id| !self.rows.contains_key(id)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.rows.extend(ids.iter().map(|id| (*id, None)));
        let uuids: Vec<Uuid> = ids.into_iter().map(uuid).collect();
        for row in self.tx.rows(sql!("lock_jobs"), params![uuids]).await? {
            match row::readable_job(&row)? {
                (job, None) => self.knows(job),
                (job, Some(why)) => {
                    tracing::error!(job = %job.id, %why, "a job does not read back and does not learn of another's end");
                }
            }
        }
        Ok(())
    }

    /// Notes that a job that was loaded moves.
    pub(crate) fn moves(&mut self, step: Move) -> Option<Ending> {
        let Move { job, event, .. } = step;
        let before = self.rows.insert(job.id, Some(job)).flatten()?;
        let after = self.rows[&before.id].as_ref()?;
        self.moved.entry(before.id).or_insert(before.version);
        self.tx.mark_move(after, event.at);
        self.events.push(event);
        Ending::of(&before, after)
    }

    /// Carries out what ends entail, one after the other: an end may bring about others, in a chain of any length.
    pub(crate) async fn follow(&mut self, mut ended: VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        while let Some(ending) = ended.pop_front() {
            self.end(&ending, &mut ended, now).await?;
            if self.events.len() >= GATHERED {
                self.write().await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self, ending: &Ending, ended: &mut VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        if ending.frees_key {
            self.freed.push(uuid(ending.job));
        }
        if ending.closes_approvals {
            self.closed.push((uuid(ending.job), now));
        }
        if let Some(id) = ending.parent {
            self.load([id].into_iter()).await?;
            let steps = self.row(id).map(|parent| ending.told(parent, now));
            ended.extend(steps.into_iter().flatten().filter_map(|step| self.moves(step)));
        }
        if !ending.has_dependents && !ending.cancels_children {
            return Ok(());
        }
        let log = self.tx.graph_events(ending.job).await?;
        if ending.has_dependents {
            let waiting = dependents(&log);
            self.load(waiting.iter().map(|dependent| dependent.job)).await?;
            for dependent in waiting {
                let step = self.row(dependent.job).and_then(|job| ending.reaches(job, dependent.on, now));
                ended.extend(step.and_then(|step| self.moves(step)));
            }
        }
        if ending.cancels_children {
            let nodes = children(&log);
            self.load(nodes.iter().copied()).await?;
            for node in nodes {
                let step = self.row(node).and_then(|job| ending.cancels(job, now));
                ended.extend(step.and_then(|step| self.moves(step)));
            }
        }
        Ok(())
    }

    /// Writes what has gathered: the log first, then each row once.
    pub(crate) async fn write(&mut self) -> Tried<()> {
        let tx = self.tx;
        tx.append_events(&std::mem::take(&mut self.events)).await?;
        let moved: Vec<(JobId, Version)> = std::mem::take(&mut self.moved).into_iter().collect();
        for moved in moved.chunks(TOGETHER) {
            let rows = moved.iter().filter_map(|(id, from)| Some((self.row(*id)?, *from)));
            let moves = rows.map(|(job, from)| async move {
                if tx.move_job(job, from, None).await? {
                    return Ok(());
                }
                Err(Failure::Unreadable(format!("job {} is not at version {from}", job.id)))
            });
            try_join_all(moves).await?;
        }
        for freed in std::mem::take(&mut self.freed).chunks(TOGETHER) {
            let free = |job: Uuid| async move { tx.execute(sql!("free_keys"), params![job]).await };
            try_join_all(freed.iter().copied().map(free)).await?;
        }
        for closed in std::mem::take(&mut self.closed).chunks(TOGETHER) {
            let close = |(job, now): (Uuid, Timestamp)| async move {
                tx.execute(sql!("void_approvals"), params![job, Ts(now)]).await
            };
            try_join_all(closed.iter().copied().map(close)).await?;
        }
        Ok(())
    }
}
