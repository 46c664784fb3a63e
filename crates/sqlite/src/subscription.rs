//! Subscriptions: events carried out of the store.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use rusqlite::Row;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Credential, PauseSubscription, PutSubscription, RemoveSubscription, ReportSubscription, SubscriptionState,
};

type Kept = (SubscriptionState, Option<Credential>);

/// A subscription with what it signs in with. One that does not read back says so in its place.
fn kept(r: &Row<'_>) -> Tried<Kept> {
    let name = Name::try_from(r.get::<_, String>(0)?).unwrap_or_else(|_| Name::unreadable());
    let state = serde_json::from_str(&r.get::<_, String>(1)?);
    let state = state.unwrap_or_else(|why| SubscriptionState::unreadable(name, why));
    let credential: Option<String> = r.get(2)?;
    Ok((state, credential.and_then(|text| serde_json::from_str(&text).ok())))
}

impl Db<'_> {
    fn kept_subscription(&self, name: &Name) -> Tried<Option<Kept>> {
        self.one(sql!("subscription"), [name.as_str()], kept)
    }

    pub(crate) fn subscription(&self, name: &Name) -> Tried<Option<SubscriptionState>> {
        Ok(self.kept_subscription(name)?.map(|(state, _)| state))
    }

    pub(crate) fn subscriptions(&self) -> Tried<Vec<SubscriptionState>> {
        self.all(sql!("subscriptions"), (), |r| Ok(kept(r)?.0))
    }

    pub(crate) fn credential(&self, name: &Name) -> Tried<Option<Credential>> {
        Ok(self.kept_subscription(name)?.and_then(|(_, credential)| credential))
    }
}

impl Tx<'_, '_> {
    fn save_subscription(&self, state: &SubscriptionState, credential: Option<&Credential>) -> Tried<()> {
        let credential = credential.map(serde_json::to_string).transpose()?;
        let row = (state.name.as_str(), serde_json::to_string(state)?, credential);
        self.execute(sql!("put_subscription"), row).map(|_| ())
    }

    pub(crate) fn put_subscription(
        &self,
        request: &PutSubscription,
        now: Timestamp,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let before = self.kept_subscription(&request.name)?;
        let Some((state, audit)) = granted!(request.decide(before.as_ref(), now)) else {
            return Ok(stands(before, &request.name));
        };
        let credential = before.and_then(|(_, credential)| credential);
        self.save_subscription(&state, request.credential.as_ref().or(credential.as_ref()))?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }

    pub(crate) fn pause_subscription(
        &self,
        request: &PauseSubscription,
        now: Timestamp,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let before = self.kept_subscription(&request.name)?;
        let Some((state, audit)) = granted!(request.decide(before.as_ref().map(|kept| &kept.0), now)) else {
            return Ok(stands(before, &request.name));
        };
        self.save_subscription(&state, before.and_then(|(_, credential)| credential).as_ref())?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }

    pub(crate) fn report_subscription(
        &self,
        request: &ReportSubscription,
        now: Timestamp,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let term = self.term(&request.term)?;
        let before = self.kept_subscription(&request.name)?;
        let decided = request.decide(term.as_ref(), before.as_ref().map(|kept| &kept.0), now);
        let Some((state, audit)) = granted!(decided) else { return Ok(stands(before, &request.name)) };
        self.save_subscription(&state, before.and_then(|(_, credential)| credential).as_ref())?;
        if let Some(audit) = audit {
            self.write_audit(&audit, now)?;
        }
        Ok(Ok(state))
    }

    pub(crate) fn remove_subscription(
        &self,
        request: &RemoveSubscription,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let audit = granted!(request.decide(self.subscription(&request.name)?.as_ref()));
        self.execute(sql!("remove_subscription"), [request.name.as_str()])?;
        self.execute(sql!("remove_place"), [SubscriptionState::reader(&request.name).as_str()])?;
        self.write_audit(&audit, now)?;
        Ok(Ok(()))
    }
}

fn stands(before: Option<Kept>, name: &Name) -> Result<SubscriptionState, Refusal> {
    before.map(|(state, _)| state).ok_or_else(|| Refusal::SubscriptionNotFound(name.to_string()))
}
