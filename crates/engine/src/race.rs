//! A race: which of several things came first, on record, so that later attempts see the same winner.
//!
//! The job waits for any news and looks itself: at its kept signals, at its children, at the time. The winner is recorded as a
//! step; a signal that won is then taken by a wait of its own, so that nobody takes it twice. What lost stays as it is.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::PoisonError;
use std::time::Duration;
use windlass_core::lease::hex;
use windlass_core::limits::PAGE_MAX;
use windlass_core::step::{REMEMBERED, StepState, kept_signal};
use windlass_core::{Event, JobId, Name, Payload, Timestamp, Version, Wait, WaitFor, Wake};
use windlass_store::ReadEvents;

/// The longest name that is made of the contenders' own.
const NAME_MAX: usize = 100;

/// What may win a race.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contender {
    /// A signal of this name.
    Signal(Name),
    /// So long after the race began.
    Timer(Duration),
    /// The end of a child of this job, however it ends.
    Child(JobId),
}

/// Who won.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Won {
    /// Which of the contenders, counted from 0.
    pub place: usize,
    /// What the signal brought, if a signal won.
    pub payload: Option<Payload>,
}

/// What is on record when a race began: when its timers end.
#[derive(Debug, Serialize, Deserialize)]
struct Began {
    timers: Vec<Option<i64>>,
}

/// What is on record when it was won.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Winner {
    place: usize,
    /// Which of the signals that the job took by this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<usize>,
}

impl Attempt {
    /// Which of these comes first, or came. Until one does, the attempt ends here and the job waits without a worker.
    ///
    /// The race is found again by its contenders, and by how many races of the same contenders this attempt ran before it.
    pub async fn race(&self, contenders: &[Contender]) -> Result<Won, HandlerError> {
        if contenders.is_empty() {
            let message = "a race without contenders never ends; give it a signal, a timer or a child";
            return Err(HandlerError::permanent(message).code("invalid"));
        }
        let name = self.race_name(contenders)?;
        self.take_name(&name)?;
        let timers = match self.recorded(&name).await?.map(|step| step.state) {
            Some(StepState::Ended { value }) => return self.won(contenders, read(&name, value)?).await,
            Some(StepState::Begun { args }) => read::<Began>(&name, args)?.timers,
            None => self.begin_race(&name, contenders).await?,
        };
        let (first, seen) = self.first(contenders, &timers).await?;
        if let Some(place) = first {
            let signal = match &contenders[place] {
                Contender::Signal(signal) => Some(self.taken(signal).await?.len()),
                _ => None,
            };
            let winner = Winner { place, signal };
            self.step_finished(&name, false, Some(written(&winner)?)).await?;
            return self.won(contenders, winner).await;
        }
        let expires_at = timers.iter().flatten().min().map(|at| Timestamp::from_micros(*at));
        let waits_for = WaitFor::News;
        Err(self.wait_anew(Wait { waits_for, name: Some(name), until: None, expires_at, since: seen }).await)
    }

    /// Puts on record when the timers end, and answers it.
    async fn begin_race(
        &self,
        name: &Name,
        contenders: &[Contender],
    ) -> Result<Vec<Option<i64>>, HandlerError> {
        let end = |contender: &Contender| match contender {
            Contender::Timer(after) => Some(self.after(*after).as_micros()),
            _ => None,
        };
        let timers: Vec<Option<i64>> = contenders.iter().map(end).collect();
        let began = Began { timers };
        self.step_started(name, false, Some(written(&began)?)).await?;
        Ok(began.timers)
    }

    /// Who has come first, if one has, and how much of the job's log was looked at for it.
    async fn first(
        &self,
        contenders: &[Contender],
        timers: &[Option<i64>],
    ) -> Result<(Option<usize>, Version), HandlerError> {
        // The log first: a child that ends after this look stands in it behind what was seen.
        let (log, seen) = self.remembered().await?;
        let now = self.now().as_micros();
        let mut first: Option<(i64, usize)> = None;
        for (place, contender) in contenders.iter().enumerate() {
            let came = match contender {
                Contender::Signal(name) => {
                    let kept = kept_signal(&log, name, self.job().steps_from);
                    kept.and_then(|version| log.iter().find(|e| e.version == version)).map(|e| e.at)
                }
                Contender::Child(id) => self.child_end(*id).await?,
                Contender::Timer(_) => {
                    let end = timers.get(place).copied().flatten().filter(|end| *end <= now);
                    end.map(Timestamp::from_micros)
                }
            };
            let came = came.map(|at| (at.as_micros(), place));
            first = first.into_iter().chain(came).min();
        }
        Ok((first.map(|(_, place)| place), seen))
    }

    async fn child_end(&self, id: JobId) -> Result<Option<Timestamp>, HandlerError> {
        let child = self.call(|| self.source().job(id)).await?;
        match child {
            Some(child) if child.facts.parent_id == Some(self.job_id()) => Ok(child.job.finished_at),
            Some(_) => {
                let message =
                    format!("job {id} is no child of {}; race those that it spawned", self.job_id());
                Err(HandlerError::permanent(message).code("not_a_child"))
            }
            None => {
                let message =
                    format!("child {id} is gone; keep finished jobs longer than their parents wait");
                Err(HandlerError::permanent(message).code("child_gone"))
            }
        }
    }

    /// What of the job's log matters to waits, and the newest version that was read.
    async fn remembered(&self) -> Result<(Vec<Event>, Version), HandlerError> {
        let (mut log, mut seen) = (Vec::new(), 0);
        loop {
            let request =
                ReadEvents { job: self.job_id(), after: seen, limit: PAGE_MAX, newest_first: false };
            let page = self.call(|| self.source().events(request)).await?;
            let Some(last) = page.last() else { return Ok((log, seen)) };
            seen = last.version;
            log.extend(page.into_iter().filter(|e| REMEMBERED.contains(&e.what.type_name())));
        }
    }

    /// How the waits for a signal ended so far.
    async fn taken(&self, signal: &Name) -> Result<&[Wake], HandlerError> {
        let record = self.on_record().await?;
        Ok(record.waits.get(&(WaitFor::Signal, signal.clone())).map_or(&[], Vec::as_slice))
    }

    /// What the winner brought. A signal that is not taken yet is taken first, by a wait that it answers.
    async fn won(&self, contenders: &[Contender], winner: Winner) -> Result<Won, HandlerError> {
        let place = winner.place;
        let (signal, number) = match (contenders.get(place), winner.signal) {
            (Some(Contender::Signal(signal)), Some(number)) => (signal, number),
            (Some(_), None) => return Ok(Won { place, payload: None }),
            _ => {
                let message = "the race on record was won by a contender that it no longer has; keep what races, and its order";
                return Err(HandlerError::permanent(message).code("race_differs"));
            }
        };
        // For `recv` of the same name: this one is taken.
        self.next_signal(signal);
        if let Some(wake) = self.taken(signal).await?.get(number) {
            return Ok(Won { place, payload: wake.payload.clone() });
        }
        let (waits_for, name) = (WaitFor::Signal, Some(signal.clone()));
        Err(self.wait_anew(Wait { waits_for, name, until: None, expires_at: None, since: 0 }).await)
    }

    /// What the race is found by.
    fn race_name(&self, contenders: &[Contender]) -> Result<Name, HandlerError> {
        let part = |contender: &Contender| match contender {
            Contender::Signal(name) => name.to_string(),
            Contender::Timer(_) => "timer".to_owned(),
            Contender::Child(id) => id.to_string(),
        };
        let mut name = format!("race:{}", contenders.iter().map(part).collect::<Vec<_>>().join(":"));
        if name.len() > NAME_MAX {
            name = format!("race:{}", hex(&Sha256::digest(&name)[..16]));
        }
        let mut names = self.names().lock().unwrap_or_else(PoisonError::into_inner);
        let ran = names.races.entry(name.clone()).or_default();
        *ran += 1;
        let name = if *ran == 1 { name } else { format!("{name}:{ran}") };
        Ok(Name::parse("race", name)?)
    }
}

fn written(value: &impl Serialize) -> Result<Payload, HandlerError> {
    Ok(Payload::from_value("race", value, usize::MAX)?)
}

fn read<T: for<'de> Deserialize<'de>>(name: &Name, payload: Option<Payload>) -> Result<T, HandlerError> {
    let unreadable = || {
        let message = format!("{name} is a step of another kind; give the step another name");
        HandlerError::permanent(message).code("step_unreadable")
    };
    payload.and_then(|payload| payload.parse().ok()).ok_or_else(unreadable)
}
