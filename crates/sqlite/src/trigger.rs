//! Events from outside that start jobs.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use rusqlite::Row;
use windlass_core::limits::PAGE_MAX;
use windlass_core::trigger::{KeptSecret, Started};
use windlass_core::{Actor, Key, Name, Payload, Refusal, Timestamp, TriggerEventId};
use windlass_store::{
    Enqueue, EventsOf, ForgetTriggerEvents, Ingest, Ingested, ProcessTriggerEvent, PutTrigger,
    PutTriggerSecret, ReadTriggerEvents, RemoveTrigger, TriggerEvent, TriggerState, WebhookSecret,
};

type Kept = (TriggerState, Vec<KeptSecret>);

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::Unreadable(error.to_string())
}

/// A trigger with its secrets. One that does not read back says so in its place, and opens for nobody.
fn kept(r: &Row<'_>) -> Tried<Kept> {
    let name = Name::try_from(r.get::<_, String>(0)?).unwrap_or_else(|_| Name::unreadable());
    let state = serde_json::from_str(&r.get::<_, String>(1)?);
    let state = state.unwrap_or_else(|why| TriggerState::unreadable(name, why));
    Ok((state, serde_json::from_str(&r.get::<_, String>(2)?).unwrap_or_default()))
}

fn event(r: &Row<'_>) -> Tried<TriggerEvent> {
    let time = |at: Option<i64>| at.map(Timestamp::from_micros);
    let payload: Option<Vec<u8>> = r.get(3)?;
    let is_json = r.get::<_, Option<bool>>(4)?.unwrap_or_default();
    Ok(TriggerEvent {
        id: TriggerEventId::from_bytes(r.get(0)?),
        trigger: Name::try_from(r.get::<_, String>(1)?).map_err(unreadable)?,
        dedupe_key: r.get::<_, Option<String>>(2)?.map(|key| Key::stored(&key)),
        payload: payload.map(|bytes| Payload::stored(bytes, is_json)),
        actor: Actor::try_from(r.get::<_, String>(5)?).map_err(unreadable)?,
        received_at: Timestamp::from_micros(r.get(6)?),
        due_at: time(r.get(7)?),
        processed_at: time(r.get(8)?),
        detail: serde_json::from_str(&r.get::<_, String>(9)?)?,
    })
}

impl Db<'_> {
    fn kept_trigger(&self, name: &Name) -> Tried<Option<Kept>> {
        self.one(sql!("trigger"), [name.as_str()], kept)
    }

    pub(crate) fn trigger(&self, name: &Name) -> Tried<Option<TriggerState>> {
        Ok(self.kept_trigger(name)?.map(|(state, _)| state))
    }

    pub(crate) fn triggers(&self) -> Tried<Vec<TriggerState>> {
        self.all(sql!("triggers"), (), |r| Ok(kept(r)?.0))
    }

    pub(crate) fn trigger_secrets(&self, name: &Name, now: Timestamp) -> Tried<Vec<WebhookSecret>> {
        let secrets = self.kept_trigger(name)?.map(|(_, secrets)| secrets).unwrap_or_default();
        Ok(KeptSecret::open(&secrets, now))
    }

    pub(crate) fn trigger_events(&self, request: &ReadTriggerEvents) -> Tried<Vec<TriggerEvent>> {
        let limit = request.limit.min(PAGE_MAX) as i64;
        match &request.of {
            EventsOf::Trigger(name) => self.all(sql!("trigger_events"), (name.as_str(), limit), event),
            EventsOf::Unprocessed(name) => {
                let name = name.as_ref().map(Name::as_str);
                self.all(sql!("unprocessed_trigger_events"), (name, limit), event)
            }
        }
    }

    pub(crate) fn due_trigger_events(&self, limit: usize, now: Timestamp) -> Tried<Vec<TriggerEventId>> {
        let due = (now.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX));
        self.all(sql!("due_trigger_events"), due, |r| Ok(TriggerEventId::from_bytes(r.get(0)?)))
    }
}

impl Tx<'_, '_> {
    fn save_trigger(&self, state: &TriggerState, secrets: &[KeptSecret]) -> Tried<()> {
        let texts = (serde_json::to_string(state)?, serde_json::to_string(secrets)?);
        self.execute(sql!("put_trigger"), (state.name.as_str(), texts.0, texts.1)).map(|_| ())
    }

    pub(crate) fn put_trigger(
        &self,
        request: &PutTrigger,
        now: Timestamp,
    ) -> Tried<Result<TriggerState, Refusal>> {
        let before = self.kept_trigger(&request.name)?;
        let changed = granted!(request.decide(before.as_ref().map(|(state, _)| state), now));
        let Some((state, audit)) = changed else {
            let missing = || Refusal::TriggerNotFound(request.name.to_string());
            return Ok(before.map(|(state, _)| state).ok_or_else(missing));
        };
        self.save_trigger(&state, &before.map(|(_, secrets)| secrets).unwrap_or_default())?;
        self.execute(sql!("wake_trigger_events"), (request.name.as_str(), now.as_micros()))?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }

    pub(crate) fn put_trigger_secret(
        &self,
        request: &PutTriggerSecret,
        now: Timestamp,
    ) -> Tried<Result<TriggerState, Refusal>> {
        let before = self.kept_trigger(&request.name)?;
        let Some((state, secrets, audit)) = granted!(request.decide(before.as_ref(), now)) else {
            let missing = || Refusal::TriggerNotFound(request.name.to_string());
            return Ok(before.map(|(state, _)| state).ok_or_else(missing));
        };
        self.save_trigger(&state, &secrets)?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }

    pub(crate) fn remove_trigger(
        &self,
        request: &RemoveTrigger,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let audit = granted!(request.decide(self.trigger(&request.name)?.as_ref()));
        self.execute(sql!("remove_trigger"), [request.name.as_str()])?;
        self.write_audit(&audit, now)?;
        Ok(Ok(()))
    }

    pub(crate) fn ingest(&self, request: &Ingest, now: Timestamp) -> Tried<Result<Ingested, Refusal>> {
        let started = granted!(request.decide(self.trigger(&request.trigger)?.as_ref(), now));
        let actor = granted!(started.event.enqueuer());
        if !self.take_trigger_event(&started.event)? {
            let key = request.dedupe_key.as_ref().map(Key::as_str);
            let by_key = (request.trigger.as_str(), key);
            let there = match self.one(sql!("trigger_event"), [request.id.as_bytes()], event)? {
                Some(there) => Some(there),
                None => self.one(sql!("trigger_event_by_key"), by_key, event)?,
            };
            let gone = || Failure::Unreadable("an event is neither there nor not there".into());
            return Ok(Ok(request.answer(there.ok_or_else(gone)?)));
        }
        let event = self.start_event(started, actor, now)?;
        Ok(Ok(Ingested::new(event)))
    }

    fn take_trigger_event(&self, event: &TriggerEvent) -> Tried<bool> {
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
        let taken = self.execute(
            sql!("take_trigger_event"),
            (
                event.id.as_bytes(),
                event.trigger.as_str(),
                event.dedupe_key.as_ref().map(Key::as_str),
                event.payload.as_ref().map(Payload::as_bytes),
                event.payload.as_ref().map(Payload::is_json),
                event.actor.as_str(),
                event.received_at.as_micros(),
                micros(event.due_at),
                micros(event.processed_at),
                serde_json::to_string(&event.detail)?,
            ),
        )?;
        Ok(taken == 1)
    }

    /// Makes the jobs of an event that is written down, and says there what came of it.
    fn start_event(&self, started: Started, actor: Actor, now: Timestamp) -> Tried<TriggerEvent> {
        let event = if started.jobs.is_empty() {
            started.event
        } else {
            let jobs = Enqueue { jobs: started.jobs.clone(), actor, idempotency: None };
            match self.enqueue(&jobs, now)? {
                Ok(made) => started.event.with(&made),
                Err(refused) => started.refused(&refused.refusal, now),
            }
        };
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
        let (due_at, processed_at) = (micros(event.due_at), micros(event.processed_at));
        let moved = (event.id.as_bytes(), due_at, processed_at, serde_json::to_string(&event.detail)?);
        self.execute(sql!("move_trigger_event"), moved)?;
        Ok(event)
    }

    pub(crate) fn process_trigger_event(
        &self,
        request: &ProcessTriggerEvent,
        now: Timestamp,
    ) -> Tried<Result<Option<TriggerEvent>, Refusal>> {
        let term = self.term(&request.term)?;
        let there = self.one(sql!("trigger_event"), [request.id.as_bytes()], event)?;
        let trigger = match &there {
            Some(event) => self.trigger(&event.trigger)?,
            None => None,
        };
        let decided = request.decide(term.as_ref(), there, trigger.as_ref(), now);
        let Some(started) = granted!(decided) else { return Ok(Ok(None)) };
        let actor = granted!(started.event.enqueuer());
        Ok(Ok(Some(self.start_event(started, actor, now)?)))
    }

    pub(crate) fn forget_trigger_events(
        &self,
        request: &ForgetTriggerEvents,
        now: Timestamp,
    ) -> Tried<Result<usize, Refusal>> {
        granted!(request.decide(self.term(&request.term)?.as_ref(), now));
        let old = (request.before.as_micros(), i64::try_from(request.limit).unwrap_or(i64::MAX));
        self.execute(sql!("forget_trigger_events"), old).map(Ok)
    }
}
