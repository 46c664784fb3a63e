//! Waiting for a time or for a signal, without a worker.

use crate::context::Context;
use crate::value::{named, read};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;
use windlass_core::wait::WakeOutcome;
use windlass_core::{Timestamp, Wake};
use windlass_engine::HandlerError;

impl<S: Send + Sync + 'static> Context<S> {
    /// Sleeps without a worker, for seconds or for months: the attempt ends here, and the job's next one comes past this
    /// point. The attempt that first comes here fixes when the sleep ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Context, HandlerError};
    /// # async fn mail(text: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// async fn handle(ctx: Context) -> Result<(), HandlerError> {
    ///     ctx.step("welcome", || mail("welcome")).await?;
    ///     ctx.sleep("a-week", Duration::from_secs(7 * 86_400)).await?;
    ///     ctx.step("how-is-it", || mail("how is it going?")).await
    /// }
    /// ```
    pub async fn sleep(&self, name: &str, duration: Duration) -> Result<(), HandlerError> {
        self.attempt.sleep(&named("sleep", name)?, duration).await.map(|_| ())
    }

    /// Sleeps until a moment, without a worker.
    pub async fn sleep_until(&self, name: &str, time: impl Into<Timestamp>) -> Result<(), HandlerError> {
        let time = time.into();
        self.attempt.sleep_until(&named("sleep", name)?, time).await.map(|_| ())
    }

    /// Waits for a signal of this name without a worker, and gives what it brought. It may have come before: signals are
    /// kept. Send one with [`Client::signal`](crate::Client::signal).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass::{Context, HandlerError};
    /// # #[derive(serde::Deserialize)] struct Payment { cents: u64 }
    /// async fn handle(ctx: Context) -> Result<u64, HandlerError> {
    ///     match ctx.wait_for::<Payment>("paid").expires(Duration::from_secs(3 * 86_400)).await? {
    ///         Some(payment) => Ok(payment.cents),
    ///         None => Err(HandlerError::permanent("nobody paid within three days").code("unpaid")),
    ///     }
    /// }
    /// ```
    pub fn wait_for<'a, T: DeserializeOwned>(&'a self, name: &'a str) -> WaitFor<'a, S, T> {
        WaitFor { ctx: self, name, brings: PhantomData }
    }

    /// Waits for the next signal of this name without a worker, and gives what it brought: each once, in the order they came.
    /// The first call of an attempt gives the first signal that the job ever received here, so a loop sees all of them again
    /// after a restart, and goes on where it was.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # #[derive(serde::Deserialize)] enum Message { Add(i64), Done }
    /// async fn handle(ctx: Context) -> Result<i64, HandlerError> {
    ///     let mut sum = 0;
    ///     loop {
    ///         match ctx.recv::<Message>("message").await? {
    ///             Message::Add(n) => sum += n,
    ///             Message::Done => return Ok(sum),
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn recv<T: DeserializeOwned>(&self, name: &str) -> Result<T, HandlerError> {
        let wake = self.attempt.recv(&named("signal", name)?).await?;
        brought(name, &wake)
    }
}

/// Waits for a signal when awaited. Made by [`Context::wait_for`].
#[derive(Debug)]
#[must_use = "nobody waits before it is awaited"]
pub struct WaitFor<'a, S, T> {
    ctx: &'a Context<S>,
    name: &'a str,
    brings: PhantomData<fn() -> T>,
}

impl<'a, S, T> WaitFor<'a, S, T> {
    /// Waits no longer than this; then the answer is `None`.
    pub fn expires(self, after: Duration) -> WaitForUntil<'a, S, T> {
        WaitForUntil { wait: self, after }
    }
}

impl<'a, S: Send + Sync + 'static, T: DeserializeOwned + 'a> IntoFuture for WaitFor<'a, S, T> {
    type Output = Result<T, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let wake = self.ctx.attempt.wait_for(&named("signal", self.name)?, None).await?;
            brought(self.name, &wake)
        })
    }
}

/// Waits for a signal when awaited, up to a limit. Made by [`WaitFor::expires`].
#[derive(Debug)]
#[must_use = "nobody waits before it is awaited"]
pub struct WaitForUntil<'a, S, T> {
    wait: WaitFor<'a, S, T>,
    after: Duration,
}

impl<'a, S: Send + Sync + 'static, T: DeserializeOwned + 'a> IntoFuture for WaitForUntil<'a, S, T> {
    type Output = Result<Option<T>, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let WaitFor { ctx, name, .. } = self.wait;
            let wake = ctx.attempt.wait_for(&named("signal", name)?, Some(self.after)).await?;
            match wake.outcome {
                WakeOutcome::Expired => Ok(None),
                _ => brought(name, &wake).map(Some),
            }
        })
    }
}

fn brought<T: DeserializeOwned>(name: &str, wake: &Wake) -> Result<T, HandlerError> {
    read(&format!("what signal {name} brought"), wake.payload.as_ref())
}
