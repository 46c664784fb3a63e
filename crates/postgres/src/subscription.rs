//! Subscriptions: events carried out of the store. Locks: the leader's term, then the subscription, then its place.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, name};
use tokio_postgres::Row;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Credential, Now, PauseSubscription, PutSubscription, RemoveSubscription, ReportSubscription,
    SubscriptionState,
};

type Kept = (SubscriptionState, Option<Credential>);

/// A subscription with what it signs in with. One that does not read back says so in its place.
fn kept(row: &Row) -> Tried<Kept> {
    let mut c = Columns::new(row, 0);
    let name = c.text_or(name, Name::unreadable)?;
    let state = serde_json::from_str(c.get()?).unwrap_or_else(|why| SubscriptionState::unreadable(name, why));
    let credential: Option<&str> = c.get()?;
    Ok((state, credential.and_then(|text| serde_json::from_str(text).ok())))
}

impl Db<'_> {
    pub(crate) async fn subscription(&self, request: &Name, _: Now) -> Tried<Option<SubscriptionState>> {
        Ok(self.one(sql!("subscription"), params![request.as_str()], kept).await?.map(|(state, _)| state))
    }

    pub(crate) async fn subscriptions(&self, (): &(), _: Now) -> Tried<Vec<SubscriptionState>> {
        self.all(sql!("subscriptions"), params![], |row| Ok(kept(row)?.0)).await
    }

    pub(crate) async fn credential(&self, request: &Name, _: Now) -> Tried<Option<Credential>> {
        let kept = self.one(sql!("subscription"), params![request.as_str()], kept).await?;
        Ok(kept.and_then(|(_, credential)| credential))
    }
}

impl Tx<'_> {
    async fn lock_subscription(&self, name: &Name) -> Tried<(Option<Kept>, Timestamp)> {
        let name = name.as_str();
        let lock = params![name];
        tokio::try_join!(biased; self.one(sql!("lock_subscription"), lock, kept), self.now())
    }

    async fn save_subscription(
        &self,
        state: &SubscriptionState,
        credential: Option<&Credential>,
        was_there: bool,
    ) -> Tried<()> {
        let text = serde_json::to_string(state)?;
        let credential = credential.map(serde_json::to_string).transpose()?;
        let name = state.name.as_str();
        let put = self.rows(sql!("put_subscription"), params![name, text, credential, was_there]).await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    pub(crate) async fn put_subscription(
        &self,
        request: &PutSubscription,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let (before, now) = self.lock_subscription(&request.name).await?;
        let Some((state, audit)) = granted!(request.decide(before.as_ref(), now)) else {
            return Ok(stands(before, &request.name));
        };
        let was_there = before.is_some();
        let credential = before.and_then(|(_, credential)| credential);
        let credential = request.credential.as_ref().or(credential.as_ref());
        self.save_subscription(&state, credential, was_there).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }

    pub(crate) async fn pause_subscription(
        &self,
        request: &PauseSubscription,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let (before, now) = self.lock_subscription(&request.name).await?;
        let Some((state, audit)) = granted!(request.decide(before.as_ref().map(|kept| &kept.0), now)) else {
            return Ok(stands(before, &request.name));
        };
        let credential = before.and_then(|(_, credential)| credential);
        self.save_subscription(&state, credential.as_ref(), true).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }

    pub(crate) async fn report_subscription(
        &self,
        request: &ReportSubscription,
    ) -> Tried<Result<SubscriptionState, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let (before, now) = self.lock_subscription(&request.name).await?;
        let decided = request.decide(term.as_ref(), before.as_ref().map(|kept| &kept.0), now);
        let Some((state, audit)) = granted!(decided) else { return Ok(stands(before, &request.name)) };
        let credential = before.and_then(|(_, credential)| credential);
        self.save_subscription(&state, credential.as_ref(), true).await?;
        if let Some(audit) = audit {
            self.put_audit(&audit, now).await?;
        }
        Ok(Ok(state))
    }

    pub(crate) async fn remove_subscription(
        &self,
        request: &RemoveSubscription,
    ) -> Tried<Result<(), Refusal>> {
        let (before, now) = self.lock_subscription(&request.name).await?;
        let audit = granted!(request.decide(before.as_ref().map(|(state, _)| state)));
        let reader = SubscriptionState::reader(&request.name);
        self.execute(sql!("remove_subscription"), params![request.name.as_str()]).await?;
        self.execute(sql!("remove_place"), params![reader.as_str()]).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(()))
    }
}

fn stands(before: Option<Kept>, name: &Name) -> Result<SubscriptionState, Refusal> {
    before.map(|(state, _)| state).ok_or_else(|| Refusal::SubscriptionNotFound(name.to_string()))
}
