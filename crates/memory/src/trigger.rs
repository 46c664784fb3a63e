//! Events from outside that start jobs.

use crate::state::State;
use windlass_core::trigger::{Changed, KeptSecret, Started};
use windlass_core::{Name, Refusal, Timestamp, TriggerEventId};
use windlass_store::{
    Enqueue, EventsOf, ForgetTriggerEvents, Ingest, Ingested, ProcessTriggerEvent, PutTrigger,
    PutTriggerSecret, ReadTriggerEvents, RemoveTrigger, TriggerEvent, TriggerState, WebhookSecret,
};

impl State {
    /// Makes a trigger or changes it.
    pub fn put_trigger(&mut self, request: PutTrigger, now: Timestamp) -> Result<TriggerState, Refusal> {
        let before = self.triggers.get(&request.name);
        let secrets = before.map(|(_, secrets)| secrets.clone()).unwrap_or_default();
        let changed: Changed = request.decide(before.map(|(state, _)| state), now)?;
        if let Some((state, audit)) = changed {
            self.write_audit(audit, now);
            self.triggers.insert(request.name.clone(), (state, secrets));
            let of = |event: &&mut TriggerEvent| event.trigger == request.name && event.due_at.is_some();
            self.trigger_events
                .values_mut()
                .filter(of)
                .for_each(|event| event.due_at = event.due_at.min(Some(now)));
        }
        let missing = || Refusal::TriggerNotFound(request.name.to_string());
        self.triggers.get(&request.name).map(|(state, _)| state.clone()).ok_or_else(missing)
    }

    /// Gives a trigger a new secret.
    pub fn put_trigger_secret(
        &mut self,
        request: PutTriggerSecret,
        now: Timestamp,
    ) -> Result<TriggerState, Refusal> {
        if let Some((state, secrets, audit)) = request.decide(self.triggers.get(&request.name), now)? {
            self.write_audit(audit, now);
            self.triggers.insert(request.name.clone(), (state, secrets));
        }
        let missing = || Refusal::TriggerNotFound(request.name.to_string());
        self.triggers.get(&request.name).map(|(state, _)| state.clone()).ok_or_else(missing)
    }

    /// Removes a trigger.
    pub fn remove_trigger(&mut self, request: RemoveTrigger, now: Timestamp) -> Result<(), Refusal> {
        let audit = request.decide(self.triggers.get(&request.name).map(|(state, _)| state))?;
        self.write_audit(audit, now);
        self.triggers.remove(&request.name);
        Ok(())
    }

    /// One trigger.
    pub fn trigger(&mut self, request: Name, _now: Timestamp) -> Option<TriggerState> {
        self.triggers.get(&request).map(|(state, _)| state.clone())
    }

    /// Every trigger, by name.
    pub fn triggers(&mut self, _request: (), _now: Timestamp) -> Vec<TriggerState> {
        self.triggers.values().map(|(state, _)| state.clone()).collect()
    }

    /// The secrets that open now.
    pub fn trigger_secrets(&mut self, request: Name, now: Timestamp) -> Vec<WebhookSecret> {
        let kept = self.triggers.get(&request).map(|(_, secrets)| secrets.as_slice()).unwrap_or_default();
        KeptSecret::open(kept, now)
    }

    /// Takes an event in and makes its jobs.
    pub fn ingest(&mut self, request: Ingest, now: Timestamp) -> Result<Ingested, Refusal> {
        let started = request.decide(self.triggers.get(&request.trigger).map(|(state, _)| state), now)?;
        let same_key = |event: &&TriggerEvent| {
            event.trigger == request.trigger
                && event.dedupe_key.is_some()
                && event.dedupe_key == request.dedupe_key
        };
        let there = self.trigger_events.get(&request.id);
        let there = there.or_else(|| self.trigger_events.values().find(same_key)).cloned();
        if let Some(there) = there {
            return Ok(request.answer(there));
        }
        let event = self.start_event(started, now)?;
        Ok(Ingested::new(event))
    }

    fn start_event(&mut self, started: Started, now: Timestamp) -> Result<TriggerEvent, Refusal> {
        let actor = started.event.enqueuer()?;
        let event = if started.jobs.is_empty() {
            started.event
        } else {
            let jobs = Enqueue { jobs: started.jobs.clone(), actor, idempotency: None };
            match self.enqueue(jobs, now) {
                Ok(made) => started.event.with(&made),
                Err(refused) => started.refused(&refused.refusal, now),
            }
        };
        self.trigger_events.insert(event.id, event.clone());
        Ok(event)
    }

    /// A page of events.
    pub fn trigger_events(&mut self, request: ReadTriggerEvents, _now: Timestamp) -> Vec<TriggerEvent> {
        let all = self.trigger_events.values();
        match request.of {
            EventsOf::Trigger(name) => {
                all.rev().filter(|event| event.trigger == name).take(request.limit).cloned().collect()
            }
            EventsOf::Unprocessed(name) => {
                let of = |event: &&TriggerEvent| {
                    event.processed_at.is_none() && name.as_ref().is_none_or(|name| event.trigger == *name)
                };
                let mut events: Vec<_> = all.filter(of).cloned().collect();
                events.sort_by_key(|event| (event.received_at, event.id));
                events.truncate(request.limit);
                events
            }
        }
    }

    /// Which kept events are to be tried again.
    pub fn due_trigger_events(&mut self, request: usize, now: Timestamp) -> Vec<TriggerEventId> {
        let due = |event: &TriggerEvent| Some((event.due_at.filter(|at| *at <= now)?, event.id));
        let mut due: Vec<_> = self.trigger_events.values().filter_map(due).collect();
        due.sort();
        due.into_iter().take(request).map(|(_, id)| id).collect()
    }

    /// Makes the jobs of a kept event.
    pub fn process_trigger_event(
        &mut self,
        request: ProcessTriggerEvent,
        now: Timestamp,
    ) -> Result<Option<TriggerEvent>, Refusal> {
        let event = self.trigger_events.get(&request.id).cloned();
        let trigger = event.as_ref().and_then(|event| Some(&self.triggers.get(&event.trigger)?.0));
        match request.decide(self.terms.get(&request.term), event, trigger, now)? {
            Some(started) => self.start_event(started, now).map(Some),
            None => Ok(None),
        }
    }

    /// Removes processed events that are old.
    pub fn forget_trigger_events(
        &mut self,
        request: ForgetTriggerEvents,
        now: Timestamp,
    ) -> Result<usize, Refusal> {
        request.decide(self.terms.get(&request.term), now)?;
        let old = |event: &&TriggerEvent| event.processed_at.is_some_and(|at| at < request.before);
        let old = self.trigger_events.values().filter(old).take(request.limit).map(|event| event.id);
        let old: Vec<TriggerEventId> = old.collect();
        old.iter().for_each(|id| {
            self.trigger_events.remove(id);
        });
        Ok(old.len())
    }
}
