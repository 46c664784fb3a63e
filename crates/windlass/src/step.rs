//! Durable steps: recorded once; later attempts get the record.

use crate::context::Context;
use crate::value::{encode, named, read};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::Payload;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::step::{RecordedStep, StepState};
use windlass_engine::HandlerError;

impl<S: Send + Sync + 'static> Context<S> {
    /// Does something once: runs `work` and records its value under `name`; a later attempt of the job gets the recorded
    /// value and does not run it again. It runs again only if its process died before the record, or if it failed.
    ///
    /// Steps are found by name, in any order and number. A name used twice in one attempt is an error; in a loop, put what is
    /// looped over into the name. For calls to the outside that must not be repeated blindly see [`Context::tool`].
    ///
    /// ```
    /// # use windlass::{Context, HandlerError};
    /// # async fn fetch(page: u32) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// async fn handle(ctx: Context) -> Result<usize, HandlerError> {
    ///     let mut length = 0;
    ///     for page in 1..=3 {
    ///         let text = ctx.step(&format!("fetch-{page}"), || fetch(page)).await?;
    ///         length += text.len();
    ///     }
    ///     Ok(length)
    /// }
    /// ```
    pub async fn step<T, E, F, Fut>(&self, name: &str, work: F) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let name = named("step", name)?;
        self.attempt.take_name(&name)?;
        if let Some(step) = self.attempt.recorded(&name).await?
            && let StepState::Ended { .. } = step.state
        {
            return ended(&step);
        }
        let _open = self.attempt.open_step();
        self.attempt.step_started(&name, false, None).await?;
        let value = work().await.map_err(Into::into)?;
        let payload = encode_checked(&format!("the value of step {name}"), &value)?;
        self.attempt.step_finished(&name, false, Some(payload)).await?;
        Ok(value)
    }
}

/// The bytes of a value that a later attempt reads back. What does not read back is refused now, while somebody looks.
pub(crate) fn encode_checked<T: Serialize + DeserializeOwned>(
    what: &str,
    value: &T,
) -> Result<Payload, HandlerError> {
    let payload = encode(what, value, PAYLOAD_MAX_BYTES)?;
    read::<T>(what, Some(&payload)).map_err(|e| {
        let message =
            format!("{e}; a later attempt could not read it, so it is not recorded: change the type");
        HandlerError::permanent(message).code("step_unreadable")
    })?;
    Ok(payload)
}

/// The value that is on record for a step or tool that ended.
pub(crate) fn ended<T: DeserializeOwned>(step: &RecordedStep) -> Result<T, HandlerError> {
    let value = match &step.state {
        StepState::Ended { value } => value.as_ref(),
        StepState::Begun { .. } => None,
    };
    let what = format!("the value on record for step {}", step.name);
    read(&what, value).map_err(|e| {
        let message = format!("{e}; rename the step to do it anew, or let the type read what was written");
        HandlerError::permanent(message).code("step_unreadable")
    })
}
