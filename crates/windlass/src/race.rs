//! Waiting for whatever comes first, without a worker; and signals as a stream.

use crate::context::Context;
use crate::value::{named, read};
use futures_core::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde::de::DeserializeOwned;
use std::future::IntoFuture;
use std::time::Duration;
use windlass_core::{JobId, Payload};
use windlass_engine::{Contender, HandlerError, Won};

impl<S: Send + Sync + 'static> Context<S> {
    /// Waits for the first of several things when awaited, without a worker, and says which it was. It is put on record: every
    /// later attempt is told the same. What came later stays as it is: a signal that lost is kept, a child goes on.
    ///
    /// The race is found again by what takes part in it, in that order, so those must be the same in every attempt. The
    /// attempt that first comes here fixes when the timer ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Context, HandlerError, Job};
    /// # #[derive(Serialize, Deserialize, Job)] #[job(kind = "remind")] struct Remind;
    /// use windlass::Winner;
    ///
    /// # #[derive(Deserialize)] struct Payment { cents: u64 }
    /// async fn handle(ctx: Context) -> Result<u64, HandlerError> {
    ///     let reminder = ctx.spawn("reminder", Remind).await?;
    ///     let day = Duration::from_secs(86_400);
    ///     match ctx.race().signal("paid").timer(day).child(reminder.id()).await? {
    ///         Winner::Signal(paid) => Ok(paid.read::<Payment>()?.cents),
    ///         Winner::Timer => Err(HandlerError::permanent("nobody paid within a day").code("unpaid")),
    ///         _ => Err(HandlerError::permanent("the reminder ended first")),
    ///     }
    /// }
    /// ```
    pub fn race(&self) -> Race<'_, S> {
        Race { ctx: self, contenders: Ok(Vec::new()) }
    }

    /// The signals of a name as a stream, each once, in the order they came; see [`Context::recv`]. It does not end: leave it
    /// when a signal says so.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// use futures_util::{StreamExt, TryStreamExt};
    ///
    /// async fn handle(ctx: Context) -> Result<u64, HandlerError> {
    ///     // Adds up until a zero comes.
    ///     let numbers = ctx.signals::<u64>("number").try_take_while(|n| std::future::ready(Ok(*n > 0)));
    ///     numbers.try_fold(0, |sum, n| async move { Ok(sum + n) }).await
    /// }
    /// ```
    pub fn signals<'a, T: DeserializeOwned + 'a>(
        &'a self,
        name: &'a str,
    ) -> impl Stream<Item = Result<T, HandlerError>> + use<'a, S, T> {
        stream::unfold(self, move |ctx| async move { Some((ctx.recv::<T>(name).await, ctx)) })
    }
}

/// Waits for the first of several things when awaited. Made by [`Context::race`].
#[derive(Debug)]
#[must_use = "nobody waits before it is awaited"]
pub struct Race<'a, S> {
    ctx: &'a Context<S>,
    contenders: Result<Vec<Contender>, HandlerError>,
}

impl<S> Race<'_, S> {
    fn with(mut self, contender: Result<Contender, HandlerError>) -> Self {
        self.contenders = self.contenders.and_then(|mut all| {
            all.push(contender?);
            Ok(all)
        });
        self
    }

    /// A signal of this name, which may have come before. If it wins, it is taken.
    pub fn signal(self, name: &str) -> Self {
        let signal = named("signal", name).map(Contender::Signal);
        self.with(signal)
    }

    /// So long after the race began.
    pub fn timer(self, after: Duration) -> Self {
        self.with(Ok(Contender::Timer(after)))
    }

    /// The end of a child of this job, however it ends; [`Child::id`](crate::Child::id) names it, and
    /// [`Context::join`] or [`Client::wait`](crate::Client::wait) read its result.
    pub fn child(self, id: JobId) -> Self {
        self.with(Ok(Contender::Child(id)))
    }
}

/// Who won a [`Race`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Winner {
    /// This signal.
    Signal(Received),
    /// The timer.
    Timer,
    /// The child with this id has ended.
    Child(JobId),
}

/// A signal that won a race.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Received {
    name: String,
    payload: Option<Payload>,
}

impl Received {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it brought.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        read(&format!("what signal {} brought", self.name), self.payload.as_ref())
    }
}

impl<'a, S: Send + Sync + 'static> IntoFuture for Race<'a, S> {
    type Output = Result<Winner, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let contenders = self.contenders?;
            let Won { place, payload, .. } = self.ctx.attempt.race(&contenders).await?;
            Ok(match &contenders[place] {
                Contender::Signal(name) => Winner::Signal(Received { name: name.to_string(), payload }),
                Contender::Child(id) => Winner::Child(*id),
                _ => Winner::Timer,
            })
        })
    }
}
