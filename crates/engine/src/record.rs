//! Steps: what an attempt put on record is given to the next one instead of being done again.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use crate::recall::Known;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use windlass_core::step::{Recorded, RecordedStep, RecordedWait, StepState};
use windlass_core::{JobId, Name, Payload, Version, WaitFor, Wake};
use windlass_store::{ReadSteps, RecordStep};

/// Names that an attempt has used. Steps and each kind of wait have names of their own.
#[derive(Debug, Default)]
pub(crate) struct Names {
    steps: HashSet<Name>,
    waits: HashSet<(WaitFor, Name)>,
    children: HashSet<Name>,
    /// How many signals of a name this attempt has taken.
    signals: HashMap<Name, usize>,
    /// How many races of the same contenders this attempt ran.
    pub(crate) races: HashMap<String, usize>,
}

/// What earlier attempts left on record, found by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    steps: HashMap<Name, RecordedStep>,
    /// How each wait ended, in order.
    pub(crate) waits: HashMap<(WaitFor, Name), Vec<Wake>>,
    /// How much was read for it, and about how much memory that takes.
    entries: usize,
    bytes: usize,
}

/// What an entry takes beside its payload.
const ENTRY_BYTES: usize = 256;

/// The whole record of a job that has ended.
impl From<Recorded> for Record {
    fn from(recorded: Recorded) -> Self {
        let mut record = Self::default();
        record.add(recorded, Version::MAX);
        record
    }
}

impl Record {
    /// Adds what was read after that. Waits that began after the claim of this attempt are another's, which holds the job now.
    fn add(&mut self, recorded: Recorded, claim: Version) {
        for step in recorded.steps {
            let (StepState::Begun { args: payload } | StepState::Ended { value: payload }) = &step.state;
            (self.entries, self.bytes) = (self.entries + 1, self.bytes + entry_bytes(payload.as_ref()));
            self.steps.insert(step.name.clone(), step);
        }
        for RecordedWait { version, wake } in recorded.waits {
            if let Some(name) = wake.name.clone().filter(|_| version < claim) {
                (self.entries, self.bytes) =
                    (self.entries + 1, self.bytes + entry_bytes(wake.payload.as_ref()));
                self.waits.entry((wake.waited_for, name)).or_default().push(wake);
            }
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn entry_bytes(payload: Option<&Payload>) -> usize {
    ENTRY_BYTES + payload.map_or(0, |payload| payload.as_bytes().len())
}

/// A step or tool that has begun. Until it is dropped no wait ends the attempt, so that nothing stops half-way.
#[derive(Debug)]
pub struct OpenStep(Attempt);

impl Drop for OpenStep {
    fn drop(&mut self) {
        self.0.control().close_step();
    }
}

impl Attempt {
    /// Takes the name of a step or tool for this attempt. What is on record is found by name, so a name used twice
    /// would get the first one's value: it is refused instead.
    pub fn take_name(&self, name: &Name) -> Result<(), HandlerError> {
        let fresh = self.names().lock().is_ok_and(|mut names| names.steps.insert(name.clone()));
        if fresh { Ok(()) } else { Err(used_twice("step", name)) }
    }

    /// Takes the name of a child for this attempt, and answers the child's id: two children of one name would be one.
    pub fn take_child_name(&self, name: &Name) -> Result<JobId, HandlerError> {
        let fresh = self.names().lock().is_ok_and(|mut names| names.children.insert(name.clone()));
        if fresh { Ok(self.child_id(name)) } else { Err(used_twice("child", name)) }
    }

    /// Which signal of this name comes next in this attempt.
    pub(crate) fn next_signal(&self, name: &Name) -> usize {
        let mut names = self.names().lock().unwrap_or_else(PoisonError::into_inner);
        let taken = names.signals.entry(name.clone()).or_default();
        *taken += 1;
        *taken - 1
    }

    /// Takes the name of a wait for children for this attempt.
    pub fn take_join_name(&self, name: &Name) -> Result<(), HandlerError> {
        self.take_wait_name(WaitFor::Children, name)
    }

    /// Holds back waits of this attempt until what this returns is dropped: for work that must not stop half-way.
    pub fn open_step(&self) -> OpenStep {
        self.control().open_step();
        OpenStep(self.clone())
    }

    pub(crate) fn take_wait_name(&self, waits_for: WaitFor, name: &Name) -> Result<(), HandlerError> {
        let key = (waits_for, name.clone());
        let fresh = self.names().lock().is_ok_and(|mut names| names.waits.insert(key));
        if fresh { Ok(()) } else { Err(used_twice(waits_for.as_str(), name)) }
    }

    /// What earlier attempts left on record about a step or tool: its value, or that it began and nothing more is
    /// known. Read from the store once, when something is first asked: all of it, or what came after what this worker knows.
    /// A first attempt has no record to read.
    pub async fn recorded(&self, name: &Name) -> Result<Option<RecordedStep>, HandlerError> {
        Ok(self.on_record().await?.steps.get(name).cloned())
    }

    pub(crate) async fn on_record(&self) -> Result<&Record, HandlerError> {
        let read = || async {
            if self.number() == 1 {
                return Ok(Arc::default());
            }
            let known = self.recall().and_then(|recall| recall.take(self.claimed()));
            let (after, mut record) = known.map_or_else(Default::default, |known| (known.at, known.record));
            let request = ReadSteps { job: self.job_id(), after };
            let recorded = self.call(|| self.source().steps(request)).await?;
            Arc::make_mut(&mut record).add(recorded.unwrap_or_default(), self.job().version);
            Ok(record)
        };
        self.record().get_or_try_init(read).await.map(|record| &**record)
    }

    /// Keeps what this attempt has read, for the next one. The handler's future is gone.
    pub(crate) fn keep_record(&self) {
        if let (Some(recall), Some(record)) = (self.recall(), self.record().get()) {
            recall.put(self.job_id(), Known::new(self.claimed(), Arc::clone(record)));
        }
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
        if self.is_replay() {
            return Err(self.stand_still().await);
        }
        let (job, token) = (self.job_id(), self.lease_token());
        let request = RecordStep { job, token, name: name.clone(), tool, finished, payload };
        let answer = self.call(|| self.source().record_step(request.clone())).await?;
        self.told(&format!("step {name}"), answer).await.map(|_| ())
    }
}

fn used_twice(what: &str, name: &Name) -> HandlerError {
    let message = format!("{what} name {name} was used twice in one attempt; give each its own name");
    HandlerError::permanent(message).code("name_used_twice")
}
