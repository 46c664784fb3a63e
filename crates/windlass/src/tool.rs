//! Tool calls: steps with an effect outside, which may have acted although nobody heard.

use crate::context::Context;
use crate::step::{encode_checked, ended};
use crate::value::{encode, named};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::IntoFuture;
use windlass_core::limits::EVENT_PAYLOAD_MAX_BYTES;
use windlass_core::step::{RecordedStep, StepState};
use windlass_core::{EventKind, Name, Payload, Version};
use windlass_engine::HandlerError;
use windlass_store::ReadEvents;

/// The event that says that a tool answered with an error, so that it is not in doubt.
const FAILED: &str = "tool_failed";

/// What to do with a tool that was called by an earlier attempt which died before it could say how the call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum InDoubt {
    /// Fail the job for good, with the code `tool_in_doubt`, so that a person looks. Who has looked redrives the job,
    /// and then the tool is called again.
    #[default]
    Fail,
    /// Call it again: right for whatever does no harm twice, or recognises a repeat by itself.
    Repeat,
}

/// Says of an error whether the call may have acted all the same.
type DoubtIf<'a, E> = Box<dyn Fn(&E) -> bool + Send + 'a>;
type Check<'a, T> = Box<dyn FnOnce() -> BoxFuture<'a, Result<Option<T>, HandlerError>> + Send + 'a>;

enum Doubt<'a, T> {
    Policy(InDoubt),
    Check(Check<'a, T>),
}

/// Calls a tool when awaited, and records what it returned. Made by [`Context::tool`].
#[must_use = "nothing is called before it is awaited"]
pub struct Tool<'a, S, T, E, F> {
    ctx: &'a Context<S>,
    name: Result<Name, HandlerError>,
    args: Result<Payload, HandlerError>,
    call: F,
    doubt: Doubt<'a, T>,
    doubt_if: Option<DoubtIf<'a, E>>,
}

impl<S: Send + Sync + 'static> Context<S> {
    /// Calls something outside: like [`Context::step`], with the arguments on record before the call.
    ///
    /// When the process dies between the call and the record, nobody knows whether the call acted: it is *in doubt*. Unless
    /// said otherwise the job then fails for good with the code `tool_in_doubt`; see [`InDoubt`] and [`Tool::check`].
    /// A call that answered with an error is not in doubt: the next attempt calls it again. One that nobody heard the answer
    /// of is in doubt too: a timeout of tokio, a connection that broke ([`std::io::Error`]), [`HandlerError::in_doubt`], and
    /// what [`Tool::doubt_if`] says.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError, InDoubt};
    /// # #[derive(Clone)] struct Bank;
    /// # impl Bank {
    /// #     async fn pay(&self, cents: u64, key: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// #     async fn find(&self, key: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    /// # }
    /// async fn handle(ctx: Context<Bank>, cents: u64) -> Result<String, HandlerError> {
    ///     let (bank, key) = (ctx.state(), ctx.id().to_string());
    ///     // The bank can be asked, so no doubt is left.
    ///     ctx.tool("pay", &cents, || bank.pay(cents, &key)).check(|| bank.find(&key)).await
    /// }
    /// ```
    pub fn tool<'a, T, E, F, Fut>(
        &'a self,
        name: &str,
        args: &impl Serialize,
        call: F,
    ) -> Tool<'a, S, T, E, F>
    where
        F: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        let args =
            encode(&format!("the arguments of tool {name}"), args, self.client.inner.limits.result_bytes);
        let doubt = Doubt::Policy(InDoubt::Fail);
        Tool { ctx: self, name: named("tool", name), args, call, doubt, doubt_if: None }
    }
}

impl<'a, S, T, E, F> Tool<'a, S, T, E, F> {
    /// What to do when it is in doubt whether an earlier call acted.
    pub fn in_doubt(mut self, policy: InDoubt) -> Self {
        self.doubt = Doubt::Policy(policy);
        self
    }

    /// Asks the outside when it is in doubt whether an earlier call acted: `Some` is what it returned then, and is recorded;
    /// `None` means that it did not act, and it is called.
    pub fn check<X, C, Fut>(mut self, check: C) -> Self
    where
        C: FnOnce() -> Fut + Send + 'a,
        Fut: Future<Output = Result<Option<T>, X>> + Send + 'a,
        X: Into<HandlerError>,
    {
        self.doubt = Doubt::Check(Box::new(move || {
            let found = check();
            Box::pin(async move { found.await.map_err(Into::into) })
        }));
        self
    }
}

impl<'a, S, T, E, F> Tool<'a, S, T, E, F> {
    /// Which errors leave it in doubt whether the call acted, beside those that are recognised anyway.
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # #[derive(Debug, thiserror::Error)] #[error("{status}")] struct HttpError { status: u16 }
    /// # async fn pay(cents: u64) -> Result<String, HttpError> { Ok(String::new()) }
    /// async fn handle(ctx: Context, cents: u64) -> Result<String, HandlerError> {
    ///     // A gateway that gave up does not know what became of the request behind it.
    ///     ctx.tool("pay", &cents, || pay(cents)).doubt_if(|e| e.status == 504).await
    /// }
    /// ```
    pub fn doubt_if(mut self, doubt_if: impl Fn(&E) -> bool + Send + 'a) -> Self {
        self.doubt_if = Some(Box::new(doubt_if));
        self
    }
}

impl<'a, S, T, E, F, Fut> IntoFuture for Tool<'a, S, T, E, F>
where
    S: Send + Sync + 'static,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Into<HandlerError> + 'a,
    F: FnOnce() -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send + 'a,
{
    type Output = Result<T, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<S: Send + Sync + 'static, T, E, F> Tool<'_, S, T, E, F> {
    async fn run<Fut>(self) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let Self { ctx, name, args, call, doubt, doubt_if } = self;
        let (name, args) = (name?, args?);
        ctx.attempt.take_name(&name)?;
        let _open = ctx.attempt.open_step();
        if let Some(step) = ctx.attempt.recorded(&name).await? {
            if let StepState::Ended { .. } = step.state {
                return ended(&step);
            }
            if is_in_doubt(ctx, &step).await?
                && let Some(value) = resolve(&step, doubt).await?
            {
                let payload = returned(&name, &value, ctx.client.inner.limits.result_bytes)?;
                ctx.attempt.step_finished(&name, true, Some(payload)).await?;
                return Ok(value);
            }
        }
        let called = async {
            ctx.attempt.step_started(&name, true, Some(args)).await?;
            let answer = call().await;
            match answer.map_err(|error| (doubt_if.is_some_and(|doubts| doubts(&error)), error.into())) {
                Ok(value) => {
                    let payload = returned(&name, &value, ctx.client.inner.limits.result_bytes)?;
                    ctx.attempt.step_finished(&name, true, Some(payload)).await?;
                    Ok(value)
                }
                // Nobody knows whether it acted: the call stays in doubt.
                Err((in_doubt, error)) if in_doubt || error.is_in_doubt() => Err(error),
                Err((_, error)) => {
                    note_failure(ctx, &name, &error).await;
                    Err(error)
                }
            }
        };
        ctx.attempt.traced("tool", &name, called).await
    }
}

fn returned<T: Serialize + DeserializeOwned>(
    name: &Name,
    value: &T,
    max: usize,
) -> Result<Payload, HandlerError> {
    encode_checked(&format!("the value of tool {name}"), value, max)
}

/// Takes the call out of doubt: it answered, with an error.
async fn note_failure<S>(ctx: &Context<S>, name: &Name, error: &HandlerError) {
    let message: String = error.message().chars().take(1_000).collect();
    let said = serde_json::json!({ "name": name, "code": error.error_code(), "message": message });
    let noted = async {
        let payload = encode("the error", &said, EVENT_PAYLOAD_MAX_BYTES)?;
        ctx.attempt.note(&named("event type", FAILED)?, Some(payload)).await
    };
    if let Err(lost) = noted.await {
        // The error itself is what the job must hear of; the call only stays in doubt.
        tracing::warn!(job = %ctx.id(), tool = %name, error = %lost, "the failure of a tool could not be noted");
    }
}

async fn resolve<T>(step: &RecordedStep, doubt: Doubt<'_, T>) -> Result<Option<T>, HandlerError> {
    match doubt {
        Doubt::Policy(InDoubt::Repeat) => Ok(None),
        Doubt::Policy(InDoubt::Fail) => {
            let message = format!(
                "tool {} was called (event {}) and it is not known whether it acted; look, then redrive the job to \
                 call it again, or let the handler decide with in_doubt or check",
                step.name, step.version
            );
            Err(HandlerError::permanent(message).code("tool_in_doubt"))
        }
        Doubt::Check(check) => check().await,
    }
}

/// Whether nothing after the call says that it answered with an error, or that an operator sent the job on.
async fn is_in_doubt<S>(ctx: &Context<S>, step: &RecordedStep) -> Result<bool, HandlerError> {
    #[derive(serde::Deserialize)]
    struct Failed {
        name: String,
    }
    let fails = |payload: Option<Payload>| {
        payload.and_then(|p| p.parse::<Failed>().ok()).is_some_and(|f| f.name == step.name.as_str())
    };
    let mut after: Version = step.version;
    loop {
        let request =
            ReadEvents { job: ctx.id(), after, limit: windlass_core::limits::PAGE_MAX, newest_first: false };
        let events = ctx.attempt.call(|| ctx.client.store().events(request, None)).await?;
        let Some(last) = events.last().map(|event| event.version) else { return Ok(true) };
        for event in events {
            match event.what {
                EventKind::JobRedriven(_) | EventKind::JobForked(_) => return Ok(false),
                EventKind::Noted(kind) if kind.as_str() == FAILED && fails(event.payload) => {
                    return Ok(false);
                }
                _ => {}
            }
        }
        after = last;
    }
}

impl<S, T, E, F> std::fmt::Debug for Tool<'_, S, T, E, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).finish_non_exhaustive()
    }
}
