//! Waits: the attempt ends, the worker is free, and the next attempt passes over what has ended.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use std::time::Duration;
use windlass_core::approve::link_votes;
use windlass_core::limits::{APPROVAL_EXPIRES_DEFAULT_MS, APPROVAL_EXPIRES_MAX_MS, HORIZON_MS};
use windlass_core::wait::{LinkToken, WakeOutcome};
use windlass_core::{Approval, Name, Timestamp, Wait, WaitFor, Wake};
use windlass_store::{Ask, fresh};

/// An approval that was asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AskedFor {
    /// Where it stands.
    pub approval: Approval,
    /// The secret of its link, to be sent to whoever decides; none if it was approved before, or where a link has no vote:
    /// if approvers are named or several people have to say yes.
    pub link: Option<LinkToken>,
}

impl Attempt {
    /// Waits. If an earlier attempt's wait of this kind and name has ended, answers how. Else it ends this attempt:
    /// the handler's future is dropped here, the job waits without a worker, and its next attempt comes past this
    /// point. So nothing after a wait that is pending runs, whatever the handler does with errors.
    ///
    /// The wait needs a name, and a name serves once in an attempt.
    pub async fn wait(&self, wait: Wait) -> Result<Wake, HandlerError> {
        let Some(name) = wait.name.clone() else {
            let message =
                format!("a wait for a {} needs a name, by which it is found again", wait.waits_for.as_str());
            return Err(HandlerError::permanent(message).code("invalid"));
        };
        self.take_wait_name(wait.waits_for, &name)?;
        if let Some(wake) = self.ended_wait(wait.waits_for, &name).await? {
            return Ok(wake);
        }
        Err(self.wait_anew(wait).await)
    }

    /// Waits whatever is on record under the name: ends this attempt as soon as its open steps have ended, and never comes
    /// back to the handler. For a caller that knows by itself whether to wait.
    pub async fn wait_anew(&self, wait: Wait) -> HandlerError {
        if self.is_replay() {
            return self.stand_still().await;
        }
        let _posted = self.control().post(wait);
        self.ended().await
    }

    /// How an earlier attempt's wait of this kind and name ended; none if there was none.
    pub async fn ended_wait(&self, waits_for: WaitFor, name: &Name) -> Result<Option<Wake>, HandlerError> {
        let record = self.on_record().await?;
        Ok(record.waits.get(&(waits_for, name.clone())).and_then(|wakes| wakes.last()).cloned())
    }

    /// Sleeps for a while without a worker. The attempt that first comes here fixes when it ends.
    pub async fn sleep(&self, name: &Name, duration: Duration) -> Result<Wake, HandlerError> {
        self.sleep_until(name, self.after(duration)).await
    }

    /// Sleeps until a moment without a worker.
    pub async fn sleep_until(&self, name: &Name, until: Timestamp) -> Result<Wake, HandlerError> {
        let (waits_for, name) = (WaitFor::Timer, Some(name.clone()));
        self.wait(Wait { waits_for, name, until: Some(until), expires_at: None, since: 0 }).await
    }

    /// Waits for a signal of this name, which may have come before. Past the expiry the wait ends without it.
    pub async fn wait_for(&self, name: &Name, expires: Option<Duration>) -> Result<Wake, HandlerError> {
        let (waits_for, name) = (WaitFor::Signal, Some(name.clone()));
        let expires_at = expires.map(|duration| self.after(duration));
        self.wait(Wait { waits_for, name, until: None, expires_at, since: 0 }).await
    }

    /// Waits for the next signal of this name: the first call of an attempt gives the first that the job took here, and so on.
    pub async fn recv(&self, name: &Name) -> Result<Wake, HandlerError> {
        let place = self.next_signal(name);
        let key = (WaitFor::Signal, name.clone());
        if let Some(wake) = self.on_record().await?.waits.get(&key).and_then(|wakes| wakes.get(place)) {
            return Ok(wake.clone());
        }
        let wait = Wait {
            waits_for: WaitFor::Signal,
            name: Some(name.clone()),
            until: None,
            expires_at: None,
            since: 0,
        };
        Err(self.wait_anew(wait).await)
    }

    /// Waits for all children to finish, those that this attempt added included. Past the expiry the wait ends without
    /// them.
    pub async fn join(&self, name: &Name, expires: Option<Duration>) -> Result<Wake, HandlerError> {
        self.take_wait_name(WaitFor::Children, name)?;
        let wake = self.ended_wait(WaitFor::Children, name).await?;
        let all_ended = self.job().children == 0 && !self.has_added_children();
        match wake {
            Some(wake) if all_ended || wake.outcome == WakeOutcome::Expired => Ok(wake),
            _ => Err(self.wait_anew(self.children(name, expires)).await),
        }
    }

    /// A wait for all children.
    pub fn children(&self, name: &Name, expires: Option<Duration>) -> Wait {
        let expires_at = expires.map(|duration| self.after(duration));
        Wait { waits_for: WaitFor::Children, name: Some(name.clone()), until: None, expires_at, since: 0 }
    }

    /// Waits for an approval that was asked for; its denial or expiry fails the job.
    pub async fn approval(&self, name: &Name) -> Result<Wake, HandlerError> {
        let (waits_for, name) = (WaitFor::Approval, Some(name.clone()));
        self.wait(Wait { waits_for, name, until: None, expires_at: None, since: 0 }).await
    }

    /// Asks for an approval. Asking again while it is undecided makes a new link and voids the old one.
    pub async fn ask(
        &self,
        name: &Name,
        prompt: &str,
        approvers: Vec<String>,
        required: i32,
        expires: Option<Duration>,
    ) -> Result<AskedFor, HandlerError> {
        if self.is_replay() {
            return Err(self.stand_still().await);
        }
        let link = fresh::link_token();
        let expires_ms = match expires {
            None => APPROVAL_EXPIRES_DEFAULT_MS,
            Some(Duration::MAX) => APPROVAL_EXPIRES_MAX_MS,
            Some(expires) => i64::try_from(expires.as_millis()).unwrap_or(i64::MAX),
        };
        let request = Ask {
            job: self.job_id(),
            token: self.lease_token(),
            id: fresh::approval_id(),
            name: name.clone(),
            prompt: prompt.to_owned(),
            approvers,
            required,
            expires_ms,
            link_hash: link.hash(),
            asker: None,
        };
        let answer = self.call(|| self.source().ask(request.clone())).await?;
        let asked = self.held(&format!("approval {name}"), answer).await?;
        let votes = asked.approval.token_hash == request.link_hash
            && link_votes(&request.approvers, request.required);
        let link = votes.then_some(link);
        Ok(AskedFor { approval: asked.approval, link })
    }

    pub(crate) fn after(&self, duration: Duration) -> Timestamp {
        let ms = match duration {
            // As late as a store accepts, by a clock that may be a little ahead of it.
            Duration::MAX => HORIZON_MS - 86_400_000,
            duration => i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
        };
        self.now().plus_ms(ms)
    }
}
