//! Queues with rules: how many of their jobs run at once, and whose turn it is.
//!
//! Whoever hands out a job of such a queue locks the queue first, and counts in a later statement: a statement does not see
//! what was committed while it waited for a lock. A slot is a row of `jobs` that runs or is assigned; `slots` only says where
//! to look. So a job that ends, waits or is lost frees its slot by that alone, and settling a job writes nothing more.

mod walk;

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::lost::end;
use crate::param::params;
use crate::pool::Connections;
use crate::rates::Paying;
use crate::registry::queue as read_queue;
use crate::row::{Columns, Ts, name};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use uuid::Uuid;
use windlass_core::decide::{Command, decide};
use windlass_core::lane::{Held, Turns};
use windlass_core::limits::{LANED_CLAIM_MAX, LANED_LOOK_MAX};
use windlass_core::{Job, JobId, Lane, Name, QueueLimits, Status, Timestamp};
use windlass_store::{ClaimMany, Claimed, LanePlaces, Now, StoreResult};

/// How long this process goes by which queues have rules before it looks again. Until then nothing is handed out of a queue
/// that has its first rule: the plain claim passes it over at once.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// How often a claim tries to lock a queue that claims of other processes hold, and how long it waits in between.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What this process knows of queues with rules.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    places: LanePlaces,
    /// Which they are, and since when that is known.
    known: Mutex<Option<(Instant, Arc<Ruled>)>>,
    /// Claims of one queue take turns here, so that one of them at a time waits for its lock.
    turns: Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>,
}

/// Queues with rules.
#[derive(Debug, Default)]
pub(crate) struct Ruled {
    /// All of them.
    pub(crate) laned: HashSet<Name>,
    /// Those whose rules look at jobs with a key that come.
    pub(crate) guarded: HashSet<Name>,
}

impl Lanes {
    /// The queues with rules. With a clock of the caller's own the answer is exact.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    pub(crate) async fn known(&self, connections: &Arc<Connections>, now: Now) -> StoreResult<Arc<Ruled>> {
        let fresh = |(since, ruled): &(Instant, Arc<Ruled>)| {
            (now.is_none() && since.elapsed() < KNOWN_FOR).then(|| Arc::clone(ruled))
        };
        if let Some(ruled) = self.known.lock().ok().and_then(|known| known.as_ref().and_then(fresh)) {
            return Ok(ruled);
        }
        let read = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            let (name, flow) = (c.text(name)?, c.get::<&str>()?);
            Ok((name, serde_json::from_str::<QueueLimits>(flow).is_ok_and(|flow| flow.asks_at_entry())))
        };
        let found =
            connections.read(move |db| Box::pin(db.all(sql!("laned_queues"), params![], read))).await?;
        let guarded =
            found.iter().filter(|(_, is_guarded)| *is_guarded).map(|(name, _)| name.clone()).collect();
        let ruled = Arc::new(Ruled { laned: found.into_iter().map(|(name, _)| name).collect(), guarded });
        if let Ok(mut known) = self.known.lock() {
            *known = Some((Instant::now(), Arc::clone(&ruled)));
        }
        Ok(ruled)
    }

    /// Forgets which queues have rules: one was changed.
    pub(crate) fn forget(&self) {
        if let Ok(mut known) = self.known.lock() {
            *known = None;
        }
    }

    fn turn(&self, queue: &Name) -> Arc<tokio::sync::Mutex<()>> {
        self.turns
            .lock()
            .map(|mut turns| Arc::clone(turns.entry(queue.clone()).or_default()))
            .unwrap_or_default()
    }
}

/// What one transaction handed out of a queue with rules.
#[derive(Default)]
struct Handed {
    claimed: Vec<Claimed>,
    /// Who is now among those that may take a slot.
    slots: Vec<Uuid>,
    /// A job that must end, or does not read back, before others are looked at: why, if it is unreadable.
    ending: Option<(JobId, Option<String>)>,
    /// Behind which lane the next claim begins.
    from: Lane,
}

/// What a try to claim from a queue with rules came to.
enum Laned {
    Handed(Handed),
    /// Another process claims from it.
    Busy,
    /// It has no rules.
    Plain,
}

/// Takes from a queue with rules: first what its holders lost, which has a slot, then lane by lane in turn. None if the queue
/// has no rules any more.
pub(crate) async fn claim(
    connections: &Arc<Connections>,
    lanes: &Lanes,
    request: &Arc<ClaimMany>,
    queue: &Name,
    want: usize,
    now: Now,
) -> StoreResult<Option<Vec<Claimed>>> {
    let turn = lanes.turn(queue);
    let _turn = turn.lock().await;
    let want = want.min(LANED_CLAIM_MAX);
    let mut from = request.from.unwrap_or_else(|| lanes.places.begin(queue));
    let (mut claimed, mut passed, mut tries) = (Vec::new(), Vec::new(), 0);
    while claimed.len() < want {
        let (asked, of, room, past) =
            (Arc::clone(request), queue.clone(), want - claimed.len(), passed.clone());
        let laned = connections
            .transact(now, move |tx| {
                let (asked, of, past) = (Arc::clone(&asked), of.clone(), past.clone());
                Box::pin(async move { tx.claim_laned(&of, &asked, room, from, &past).await })
            })
            .await?;
        let handed = match laned {
            Laned::Handed(handed) => handed,
            Laned::Plain => {
                lanes.forget();
                return Ok(None);
            }
            Laned::Busy if tries < LOCK_TRIES => {
                tries += 1;
                tokio::time::sleep(LOCK_PAUSE).await;
                continue;
            }
            Laned::Busy => break,
        };
        from = handed.from;
        claimed.extend(handed.claimed);
        let Some((id, why)) = handed.ending else { break };
        if !end(connections, id, why, request.claim.clone(), now).await? {
            passed.push(id);
        }
    }
    if request.from.is_none() {
        lanes.places.end(queue, from);
    }
    Ok(Some(claimed))
}

impl Db<'_> {
    /// The slots of a queue that are taken.
    pub(crate) async fn slots(&self, queue: &Name, flow: &QueueLimits) -> Tried<Held> {
        let count = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok((Lane::from_number(c.get()?), c.get::<i64>()?))
        };
        let counts = self.all(sql!("slots"), params![queue.as_str()], count).await?;
        Ok(counts.into_iter().map(|(lane, n)| (flow.lane(Some(lane)), n)).collect())
    }
}

impl Tx<'_> {
    /// The slots of a queue that is locked.
    pub(crate) async fn locked_slots(&self, queue: &Name, flow: &QueueLimits) -> Tried<Held> {
        let free = async { self.execute(sql!("free_slots"), params![queue.as_str()]).await };
        let (_, held) = tokio::try_join!(biased; free, self.slots(queue, flow))?;
        Ok(held)
    }

    /// Finds a slot for a job that is about to be handed out by itself and, if it starts by that, pays for it. Returns the
    /// moment of that; none if there is no slot or no unit.
    pub(crate) async fn take_slot(&self, job: &Job, starts: bool) -> Tried<Option<Timestamp>> {
        let queue = self.lock_queue(&job.queue).await?;
        let now = self.now().await?;
        let Some(flow) = queue.and_then(|queue| queue.flow) else { return Ok(Some(now)) };
        if !job.takes_slot() && !flow.at(now).has_room(job.lane, self.locked_slots(&job.queue, &flow).await?)
        {
            return Ok(None);
        }
        if starts && !self.pay_for(job, &flow, now).await? {
            return Ok(None);
        }
        self.take_slots(vec![uuid(job.id)]).await?;
        Ok(Some(now))
    }

    pub(crate) async fn take_slots(&self, ids: Vec<Uuid>) -> Tried<()> {
        if ids.is_empty() { Ok(()) } else { self.execute(sql!("take_slots"), params![ids]).await }
    }

    async fn claim_laned(
        &self,
        queue: &Name,
        request: &ClaimMany,
        want: usize,
        from: Lane,
        passed: &[JobId],
    ) -> Tried<Laned> {
        let Some(set) = self.one(sql!("try_lock_queue"), params![queue.as_str()], read_queue).await? else {
            let has_rules = self.queue(queue).await?.is_some_and(|set| set.flow.is_some());
            return Ok(if has_rules { Laned::Busy } else { Laned::Plain });
        };
        if set.flow.is_none() {
            return Ok(Laned::Plain);
        }
        let mut handed = Handed { from, ..Handed::default() };
        if !set.is_open() {
            return Ok(Laned::Handed(handed));
        }
        let now = self.now().await?;
        let set = self.without_old_holds(set, now).await?;
        let Some(flow) = &set.flow else { return Ok(Laned::Plain) };
        if flow.is_shut(now) {
            return Ok(Laned::Handed(handed));
        }
        let mut paying = self.paying(queue, flow, now).await?;
        let asked = Asked { queue, flow, request, passed, now };
        // Sent together, they run one after the other.
        let (lost, mut held, mut priorities) = tokio::try_join!(
            biased;
            self.lost_of(queue, request, want + passed.len(), now),
            self.locked_slots(queue, flow),
            self.due_priorities(queue, now)
        )?;
        if !lost.is_empty() {
            self.learn_costs(&mut paying, lost.iter().copied()).await?;
            self.hand_out_all(&lost, &asked, &mut paying, &mut handed).await?;
            held = self.slots(queue, flow).await?;
            priorities = self.due_priorities(queue, now).await?;
        }
        let mut turns =
            Turns::new(&flow.at(now), held, paying.rates.clone(), from, want - handed.claimed.len());
        if handed.ending.is_none() && turns.wants() > 0 {
            for levels in flow.levels(priorities) {
                let heads = self.heads(&asked, &levels, &mut turns, &mut paying, &mut handed.slots).await?;
                let next = turns.serve(heads, |id| paying.cost(*id));
                self.hand_out_all(&next, &asked, &mut paying, &mut handed).await?;
                if turns.wants() == 0 || handed.ending.is_some() {
                    break;
                }
            }
        }
        handed.from = turns.next();
        self.keep_rates(queue, &paying, now).await?;
        self.take_slots(std::mem::take(&mut handed.slots)).await?;
        Ok(Laned::Handed(handed))
    }

    async fn lost_of(
        &self,
        queue: &Name,
        request: &ClaimMany,
        most: usize,
        now: Timestamp,
    ) -> Tried<Vec<JobId>> {
        let kinds: Vec<&str> = request.kinds.iter().map(Name::as_str).collect();
        let (queue, now, most) = (queue.as_str(), Ts(now), most as i64);
        self.all(sql!("lost"), params![queue, now, kinds, most], |r| Columns::new(r, 0).job_id()).await
    }

    async fn due_priorities(&self, queue: &Name, now: Timestamp) -> Tried<Vec<i32>> {
        let priority = |r: &tokio_postgres::Row| Columns::new(r, 0).get::<i32>();
        self.all(sql!("due_priorities"), params![queue.as_str(), Ts(now)], priority).await
    }

    /// Hands out jobs that nobody else has locked, in this order, up to the first that must end instead. Those that could not
    /// be ended before are passed over.
    async fn hand_out_all(
        &self,
        ids: &[JobId],
        asked: &Asked<'_>,
        paying: &mut Paying,
        handed: &mut Handed,
    ) -> Tried<()> {
        let Asked { flow, request, passed, now, .. } = *asked;
        let ids: Vec<JobId> = ids.iter().copied().filter(|id| !passed.contains(id)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        // The later statement sees the rows as they were locked.
        let (free, mut rows) = tokio::try_join!(
            biased;
            self.lock_free(ids.iter().copied().map(uuid).collect()),
            self.readable_jobs(ids.iter().copied())
        )?;
        let (unpaid, mut steps) = (paying.rates.clone(), Vec::with_capacity(ids.len()));
        for id in &ids {
            let Some((job, wrong)) = rows.remove(id).filter(|_| free.contains(&uuid(*id))) else { continue };
            if wrong.is_some() {
                handed.ending = Some((*id, wrong));
                break;
            }
            let now = now.max(job.updated_at);
            let claim = Command::Claim(request.claim.clone());
            let Some(step) = job.is_due(now).then(|| decide(&job, claim, now).ok()).flatten() else {
                continue;
            };
            if step.job.status != Status::Running {
                handed.ending = Some((*id, None));
                break;
            }
            let lane = flow.lane(job.lane);
            if paying.admits(lane, *id) {
                paying.pay(lane, *id);
                steps.push(step);
            }
        }
        let decided = steps.len();
        let claimed = self.hand_out_many(steps, &request.claim).await?;
        if claimed.len() < decided {
            // What could not start pays nothing.
            paying.rates = unpaid;
            claimed.iter().for_each(|held| paying.pay(flow.lane(held.job.lane), held.job.id));
        }
        handed.claimed.extend(claimed);
        Ok(())
    }
}

/// What a claim asks of a queue with rules.
struct Asked<'a> {
    queue: &'a Name,
    flow: &'a QueueLimits,
    request: &'a ClaimMany,
    /// Jobs that must end and could not be ended.
    passed: &'a [JobId],
    now: Timestamp,
}

/// A look at one priority of a queue, or at all of them together.
struct Look<'a, 't> {
    tx: &'a Tx<'t>,
    queue: &'a Name,
    flow: &'a QueueLimits,
    levels: &'a [i32],
    request: &'a ClaimMany,
    now: Timestamp,
}

/// The first jobs of lanes.
type Heads = BTreeMap<Lane, Vec<JobId>>;

impl Look<'_, '_> {
    fn kinds(&self) -> Vec<&str> {
        self.request.kinds.iter().map(Name::as_str).collect()
    }

    /// The next lanes that have a job in line.
    async fn lanes(&self, after: i64, until: i64, most: usize) -> Tried<Vec<Lane>> {
        let (queue, limit) = (self.queue.as_str(), i32::try_from(most).unwrap_or(i32::MAX));
        let lane = |r: &tokio_postgres::Row| Ok(Lane::from_number(Columns::new(r, 0).get()?));
        let mut lanes = BTreeSet::new();
        for priority in self.levels {
            let params = params![queue, *priority, after, until, limit];
            lanes.extend(self.tx.all(sql!("lanes_due"), params, lane).await?);
        }
        Ok(lanes.into_iter().take(most).collect())
    }

    /// All lanes with a due job; none if so many jobs are due that they are not all looked at.
    async fn due_lanes(&self) -> Tried<Option<BTreeSet<Lane>>> {
        let (queue, now, limit) = (self.queue.as_str(), Ts(self.now), LANED_LOOK_MAX as i64 + 1);
        let lane = |r: &tokio_postgres::Row| Ok(Lane::from_number(Columns::new(r, 0).get()?));
        let mut lanes = BTreeSet::new();
        for priority in self.levels {
            let due = self.tx.all(sql!("due_lanes"), params![queue, *priority, now, limit], lane).await?;
            if due.len() > LANED_LOOK_MAX {
                return Ok(None);
            }
            lanes.extend(due.into_iter().filter(|lane| *lane != Lane::PLAIN));
        }
        Ok(Some(lanes))
    }

    async fn of_lanes(
        &self,
        lanes: Vec<(Lane, usize)>,
        heads: &mut Heads,
        slots: &mut Vec<Uuid>,
    ) -> Tried<()> {
        if lanes.is_empty() {
            return Ok(());
        }
        let (numbers, depths): (Vec<i64>, Vec<i64>) =
            lanes.iter().map(|(lane, depth)| (lane.number(), *depth as i64)).unzip();
        let (queue, kinds, look, now) =
            (self.queue.as_str(), self.kinds(), LANED_LOOK_MAX as i64, Ts(self.now));
        let mut found = Vec::new();
        for priority in self.levels {
            let params = params![queue, *priority, numbers, depths, now, kinds, look];
            found.extend(self.tx.all(sql!("lane_heads"), params, |r| self.head(*priority, r)).await?);
        }
        let depths: HashMap<Lane, usize> = lanes.into_iter().collect();
        collect(found, |lane| depths.get(&lane).copied().unwrap_or_default(), heads, slots);
        Ok(())
    }

    async fn plain(&self, all: bool, most: usize, heads: &mut Heads, slots: &mut Vec<Uuid>) -> Tried<()> {
        let (queue, kinds, look, now) =
            (self.queue.as_str(), self.kinds(), LANED_LOOK_MAX as i64, Ts(self.now));
        let (limit, mut found) = (most as i64, Vec::new());
        for priority in self.levels {
            let params = params![queue, *priority, now, all, look, kinds, limit];
            found.extend(self.tx.all(sql!("plain_heads"), params, |r| self.head(*priority, r)).await?);
        }
        collect(found, |_| most, heads, slots);
        Ok(())
    }

    fn head(&self, priority: i32, r: &tokio_postgres::Row) -> Tried<Head> {
        let mut c = Columns::new(r, 0);
        let (lane, id, is_running) = (Lane::from_number(c.get()?), c.job_id()?, c.get()?);
        Ok(Head { lane, rank: self.flow.rank(priority, c.time()?), id, is_running })
    }
}

/// A job that is next in its lane, at its priority. In the order of lanes and of what is first there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    lane: Lane,
    rank: Timestamp,
    id: JobId,
    /// A run whose lease is over.
    is_running: bool,
}

/// Keeps the first of each lane, as many as are wanted of it.
fn collect(mut found: Vec<Head>, depth: impl Fn(Lane) -> usize, heads: &mut Heads, slots: &mut Vec<Uuid>) {
    found.sort_unstable();
    for Head { lane, id, is_running, .. } in found {
        if is_running {
            slots.push(uuid(id));
            continue;
        }
        let jobs = heads.entry(lane).or_default();
        if jobs.len() < depth(lane) {
            jobs.push(id);
        }
    }
}
