//! Subscriptions: events carried out of the store.

use crate::state::State;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Credential, PauseSubscription, PutSubscription, RemoveSubscription, ReportSubscription, SubscriptionState,
};

impl State {
    fn kept_subscription(&self, name: &Name) -> Result<SubscriptionState, Refusal> {
        let kept = self.subscriptions.get(name).map(|(state, _)| state.clone());
        kept.ok_or_else(|| Refusal::SubscriptionNotFound(name.to_string()))
    }

    /// Makes a subscription or changes it.
    pub fn put_subscription(
        &mut self,
        request: PutSubscription,
        now: Timestamp,
    ) -> Result<SubscriptionState, Refusal> {
        let before = self.subscriptions.get(&request.name);
        let kept = before.and_then(|(_, credential)| credential.clone());
        if let Some((state, audit)) = request.decide(before, now)? {
            self.write_audit(audit, now);
            self.subscriptions.insert(request.name.clone(), (state, request.credential.or(kept)));
        }
        self.kept_subscription(&request.name)
    }

    /// Pauses or resumes a subscription.
    pub fn pause_subscription(
        &mut self,
        request: PauseSubscription,
        now: Timestamp,
    ) -> Result<SubscriptionState, Refusal> {
        let before = self.subscriptions.get(&request.name).map(|(state, _)| state);
        if let Some((state, audit)) = request.decide(before, now)? {
            self.write_audit(audit, now);
            self.set_subscription(state);
        }
        self.kept_subscription(&request.name)
    }

    /// Notes how deliveries go.
    pub fn report_subscription(
        &mut self,
        request: ReportSubscription,
        now: Timestamp,
    ) -> Result<SubscriptionState, Refusal> {
        let before = self.subscriptions.get(&request.name).map(|(state, _)| state);
        if let Some((state, audit)) = request.decide(self.terms.get(&request.term), before, now)? {
            audit.into_iter().for_each(|audit| self.write_audit(audit, now));
            self.set_subscription(state);
        }
        self.kept_subscription(&request.name)
    }

    fn set_subscription(&mut self, state: SubscriptionState) {
        if let Some(kept) = self.subscriptions.get_mut(&state.name) {
            kept.0 = state;
        }
    }

    /// Removes a subscription with its place.
    pub fn remove_subscription(
        &mut self,
        request: RemoveSubscription,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let audit = request.decide(self.subscriptions.get(&request.name).map(|(state, _)| state))?;
        self.write_audit(audit, now);
        self.subscriptions.remove(&request.name);
        self.kept.forget_place(&SubscriptionState::reader(&request.name));
        Ok(())
    }

    /// One subscription.
    pub fn subscription(&mut self, request: Name, _now: Timestamp) -> Option<SubscriptionState> {
        self.subscriptions.get(&request).map(|(state, _)| state.clone())
    }

    /// Every subscription, by name.
    pub fn subscriptions(&mut self, _request: (), _now: Timestamp) -> Vec<SubscriptionState> {
        self.subscriptions.values().map(|(state, _)| state.clone()).collect()
    }

    /// What a subscription signs or signs in with.
    pub fn credential(&mut self, request: Name, _now: Timestamp) -> Option<Credential> {
        self.subscriptions.get(&request)?.1.clone()
    }
}
