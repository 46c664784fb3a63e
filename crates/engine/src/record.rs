//! Steps: what an attempt put on record is given to the next one instead of being done again.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use std::collections::HashSet;
use windlass_core::step::{Recorded, RecordedStep};
use windlass_core::{Name, Payload, WaitFor};
use windlass_store::RecordStep;

/// Names that an attempt has used. Steps and each kind of wait have names of their own.
#[derive(Debug, Default)]
pub(crate) struct Names {
    steps: HashSet<Name>,
    waits: HashSet<(WaitFor, Name)>,
}

impl Attempt {
    /// Takes the name of a step or tool for this attempt. What is on record is found by name, so a name used twice
    /// would get the first one's value: it is refused instead.
    pub fn take_name(&self, name: &Name) -> Result<(), HandlerError> {
        let fresh = self.names().lock().is_ok_and(|mut names| names.steps.insert(name.clone()));
        if fresh { Ok(()) } else { Err(used_twice("step", name)) }
    }

    pub(crate) fn take_wait_name(&self, waits_for: WaitFor, name: &Name) -> Result<(), HandlerError> {
        let key = (waits_for, name.clone());
        let fresh = self.names().lock().is_ok_and(|mut names| names.waits.insert(key));
        if fresh { Ok(()) } else { Err(used_twice(waits_for.as_str(), name)) }
    }

    /// What earlier attempts left on record about a step or tool: its value, or that it began and nothing more is
    /// known. Read from the store once, when something is first asked; a first attempt has no record to read.
    pub async fn recorded(&self, name: &Name) -> Result<Option<RecordedStep>, HandlerError> {
        Ok(self.on_record().await?.steps.iter().find(|step| step.name == *name).cloned())
    }

    pub(crate) async fn on_record(&self) -> Result<&Recorded, HandlerError> {
        let read = || async {
            if self.fence() == 1 {
                return Ok(Recorded::default());
            }
            let recorded = self.call(|| self.store().steps(self.job_id(), None)).await?;
            Ok(recorded.unwrap_or_default())
        };
        self.record().get_or_try_init(read).await
    }

    /// Records that a step began, or that a tool is called with these arguments.
    pub async fn step_started(
        &self,
        name: &Name,
        tool: bool,
        args: Option<Payload>,
    ) -> Result<(), HandlerError> {
        self.record_step(name, tool, false, args).await
    }

    /// Records the value of a step or tool: later attempts get it.
    pub async fn step_finished(
        &self,
        name: &Name,
        tool: bool,
        value: Option<Payload>,
    ) -> Result<(), HandlerError> {
        self.record_step(name, tool, true, value).await
    }

    async fn record_step(
        &self,
        name: &Name,
        tool: bool,
        finished: bool,
        payload: Option<Payload>,
    ) -> Result<(), HandlerError> {
        let (job, token) = (self.job_id(), self.lease_token());
        let request = RecordStep { job, token, name: name.clone(), tool, finished, payload };
        let answer = self.call(|| self.store().record_step(request.clone(), None)).await?;
        self.told(&format!("step {name}"), answer).await.map(|_| ())
    }
}

fn used_twice(what: &str, name: &Name) -> HandlerError {
    let message = format!("{what} name {name} was used twice in one attempt; give each its own name");
    HandlerError::permanent(message).code("name_used_twice")
}
