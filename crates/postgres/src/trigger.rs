//! Events from outside that start jobs. Locks: the leader's term, the trigger, the event, then what its jobs need.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, Ts, name};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::limits::PAGE_MAX;
use windlass_core::trigger::{KeptSecret, Started};
use windlass_core::{Actor, Key, Name, Payload, Refusal, Timestamp, TriggerEventId};
use windlass_store::{
    Enqueue, EventsOf, ForgetTriggerEvents, Ingest, Ingested, Now, ProcessTriggerEvent, PutTrigger,
    PutTriggerSecret, ReadTriggerEvents, RemoveTrigger, TriggerEvent, TriggerState, WebhookSecret,
};

type Kept = (TriggerState, Vec<KeptSecret>);

/// A trigger with its secrets. One that does not read back says so in its place, and opens for nobody.
fn kept(row: &Row) -> Tried<Kept> {
    let mut c = Columns::new(row, 0);
    let name = c.text_or(name, Name::unreadable)?;
    let state = serde_json::from_str(c.get()?).unwrap_or_else(|why| TriggerState::unreadable(name, why));
    Ok((state, serde_json::from_str(c.get()?).unwrap_or_default()))
}

fn id(row: &Row) -> Tried<TriggerEventId> {
    Ok(TriggerEventId::from_bytes(Columns::new(row, 0).get::<Uuid>()?.into_bytes()))
}

fn event(row: &Row) -> Tried<TriggerEvent> {
    let mut c = Columns::new(row, 0);
    let id = TriggerEventId::from_bytes(c.get::<Uuid>()?.into_bytes());
    let (trigger, dedupe_key) = (c.text(name)?, c.opt_text(|text| Some(Key::stored(text)))?);
    let (bytes, is_json) = (c.get::<Option<&[u8]>>()?, c.get::<Option<bool>>()?.unwrap_or_default());
    Ok(TriggerEvent {
        id,
        trigger,
        dedupe_key,
        payload: bytes.map(|bytes| Payload::stored(bytes.to_vec(), is_json)),
        actor: c.text(|text| Actor::try_from(text).ok())?,
        received_at: c.time()?,
        due_at: c.opt_time()?,
        processed_at: c.opt_time()?,
        detail: serde_json::from_str(c.get()?)?,
    })
}

impl Db<'_> {
    pub(crate) async fn trigger(&self, request: &Name, _: Now) -> Tried<Option<TriggerState>> {
        Ok(self.one(sql!("trigger"), params![request.as_str()], kept).await?.map(|(state, _)| state))
    }

    pub(crate) async fn triggers(&self, (): &(), _: Now) -> Tried<Vec<TriggerState>> {
        self.all(sql!("triggers"), params![], |row| Ok(kept(row)?.0)).await
    }

    pub(crate) async fn trigger_secrets(&self, request: &Name, now: Now) -> Tried<Vec<WebhookSecret>> {
        let kept = self.one(sql!("trigger"), params![request.as_str()], kept).await?;
        let Some((_, secrets)) = kept else { return Ok(vec![]) };
        Ok(KeptSecret::open(&secrets, self.clock(now).await?))
    }

    pub(crate) async fn trigger_events(
        &self,
        request: &ReadTriggerEvents,
        _: Now,
    ) -> Tried<Vec<TriggerEvent>> {
        let limit = request.limit.min(PAGE_MAX) as i64;
        match &request.of {
            EventsOf::Trigger(name) => {
                self.all(sql!("trigger_events"), params![name.as_str(), limit], event).await
            }
            EventsOf::Unprocessed(name) => {
                let name = name.as_ref().map(Name::as_str);
                self.all(sql!("unprocessed_trigger_events"), params![name, limit], event).await
            }
        }
    }

    pub(crate) async fn due_trigger_events(&self, limit: &usize, now: Now) -> Tried<Vec<TriggerEventId>> {
        let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
        self.all(sql!("due_trigger_events"), params![now.map(Ts), limit], id).await
    }
}

impl Tx<'_> {
    async fn lock_trigger(&self, name: &Name) -> Tried<(Option<Kept>, Timestamp)> {
        let name = name.as_str();
        let lock = params![name];
        tokio::try_join!(biased; self.one(sql!("lock_trigger"), lock, kept), self.now())
    }

    async fn save_trigger(&self, state: &TriggerState, secrets: &[KeptSecret], was_there: bool) -> Tried<()> {
        let (text, secrets) = (serde_json::to_string(state)?, serde_json::to_string(secrets)?);
        let name = state.name.as_str();
        let put = self.rows(sql!("put_trigger"), params![name, text, secrets, was_there]).await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    pub(crate) async fn put_trigger(&self, request: &PutTrigger) -> Tried<Result<TriggerState, Refusal>> {
        let (before, now) = self.lock_trigger(&request.name).await?;
        let changed = granted!(request.decide(before.as_ref().map(|(state, _)| state), now));
        let Some((state, audit)) = changed else {
            let missing = || Refusal::TriggerNotFound(request.name.to_string());
            return Ok(before.map(|(state, _)| state).ok_or_else(missing));
        };
        let was_there = before.is_some();
        let secrets = before.map(|(_, secrets)| secrets).unwrap_or_default();
        self.save_trigger(&state, &secrets, was_there).await?;
        self.execute(sql!("wake_trigger_events"), params![request.name.as_str(), Ts(now)]).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }

    pub(crate) async fn put_trigger_secret(
        &self,
        request: &PutTriggerSecret,
    ) -> Tried<Result<TriggerState, Refusal>> {
        let (before, now) = self.lock_trigger(&request.name).await?;
        let Some((state, secrets, audit)) = granted!(request.decide(before.as_ref(), now)) else {
            let missing = || Refusal::TriggerNotFound(request.name.to_string());
            return Ok(before.map(|(state, _)| state).ok_or_else(missing));
        };
        self.save_trigger(&state, &secrets, true).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }

    pub(crate) async fn remove_trigger(&self, request: &RemoveTrigger) -> Tried<Result<(), Refusal>> {
        let (before, now) = self.lock_trigger(&request.name).await?;
        let audit = granted!(request.decide(before.as_ref().map(|(state, _)| state)));
        self.execute(sql!("remove_trigger"), params![request.name.as_str()]).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(()))
    }

    /// A trigger that cannot change before this transaction ends.
    async fn share_trigger(&self, name: &Name) -> Tried<Option<TriggerState>> {
        Ok(self.one(sql!("share_trigger"), params![name.as_str()], kept).await?.map(|(state, _)| state))
    }

    pub(crate) async fn ingest(&self, request: &Ingest) -> Tried<Result<Ingested, Refusal>> {
        let trigger = self.share_trigger(&request.trigger).await?;
        let now = self.now().await?;
        let started = granted!(request.decide(trigger.as_ref(), now));
        let actor = granted!(started.event.enqueuer());
        // Of two with one key, the second waits here until the first has its jobs.
        if !self.take_trigger_event(&started.event).await? {
            let uuid = *request.id.as_uuid();
            let there = match self.one(sql!("trigger_event"), params![uuid], event).await? {
                Some(there) => Some(there),
                None => {
                    let key = request.dedupe_key.as_ref().map(Key::as_str);
                    let trigger = request.trigger.as_str();
                    self.one(sql!("trigger_event_by_key"), params![trigger, key], event).await?
                }
            };
            // It may have been removed since.
            return there.map(|there| Ok(request.answer(there))).ok_or(Failure::Raced);
        }
        let event = self.start_event(started, actor, now).await?;
        Ok(Ok(Ingested::new(event)))
    }

    async fn take_trigger_event(&self, event: &TriggerEvent) -> Tried<bool> {
        let detail = serde_json::to_string(&event.detail)?;
        let taken = self
            .rows(
                sql!("take_trigger_event"),
                params![
                    *event.id.as_uuid(),
                    event.trigger.as_str(),
                    event.dedupe_key.as_ref().map(Key::as_str),
                    event.payload.as_ref().map(Payload::as_bytes),
                    event.payload.as_ref().map(Payload::is_json),
                    event.actor.as_str(),
                    Ts(event.received_at),
                    event.due_at.map(Ts),
                    event.processed_at.map(Ts),
                    detail,
                ],
            )
            .await?;
        Ok(taken.len() == 1)
    }

    /// Makes the jobs of an event that is written down, and says there what came of it.
    async fn start_event(&self, started: Started, actor: Actor, now: Timestamp) -> Tried<TriggerEvent> {
        let event = if started.jobs.is_empty() {
            started.event
        } else {
            let jobs = Enqueue { jobs: started.jobs.clone(), actor, idempotency: None };
            match self.enqueue(&jobs).await? {
                Ok(made) => started.event.with(&made),
                Err(refused) => started.refused(&refused.refusal, now),
            }
        };
        let detail = serde_json::to_string(&event.detail)?;
        let (due_at, processed_at) = (event.due_at.map(Ts), event.processed_at.map(Ts));
        let id = *event.id.as_uuid();
        self.execute(sql!("move_trigger_event"), params![id, due_at, processed_at, detail]).await?;
        Ok(event)
    }

    pub(crate) async fn process_trigger_event(
        &self,
        request: &ProcessTriggerEvent,
    ) -> Tried<Result<Option<TriggerEvent>, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let uuid = *request.id.as_uuid();
        // Whose it is never changes: the trigger is locked before the event.
        let trigger = match self.one(sql!("trigger_event"), params![uuid], event).await? {
            Some(event) => self.share_trigger(&event.trigger).await?,
            None => None,
        };
        let there = self.one(sql!("lock_trigger_event"), params![uuid], event).await?;
        let now = self.now().await?;
        let decided = request.decide(term.as_ref(), there, trigger.as_ref(), now);
        let Some(started) = granted!(decided) else { return Ok(Ok(None)) };
        let actor = granted!(started.event.enqueuer());
        Ok(Ok(Some(self.start_event(started, actor, now).await?)))
    }

    pub(crate) async fn forget_trigger_events(
        &self,
        request: &ForgetTriggerEvents,
    ) -> Tried<Result<usize, Refusal>> {
        let term = self.share_term(&request.term).await?;
        granted!(request.decide(term.as_ref(), self.now().await?));
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let before = Ts(request.before);
        let count = |row: &Row| Columns::new(row, 0).get::<i64>();
        let gone = self.one(sql!("forget_trigger_events"), params![before, limit], count).await?;
        Ok(Ok(usize::try_from(gone.unwrap_or_default()).unwrap_or_default()))
    }
}
