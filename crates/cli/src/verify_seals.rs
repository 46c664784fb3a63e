//! The part of `windlass verify` that is about seals: the chain, what it sealed, and heads that were kept elsewhere.

use crate::args::VerifyArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::verify::Problem;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use windlass_core::lease::{hex, unhex};
use windlass_core::{Job, JobId};
use windlass_engine::seal_check::{KeptHead, SealCheck, SealReport, SealedJobs};
use windlass_store::{SealHead, Store};

/// What the seals say.
pub struct Seals {
    check: SealCheck,
    report: SealReport,
    problems: Vec<Problem>,
}

/// Jobs, portion by portion, with how far they are sealed.
pub struct Portions<'s> {
    check: &'s SealCheck,
    /// None while nothing is sealed: then there is nothing to compare.
    jobs: Option<SealedJobs>,
    portion: u64,
    portions: u64,
}

fn named((job, why): (Option<JobId>, String)) -> Problem {
    (job.map(|job| job.to_string()), why)
}

impl Seals {
    /// Looks at the whole chain.
    pub async fn look(store: &Arc<dyn Store>, args: &VerifyArgs, out: &Out) -> Outcome<Self> {
        let heads = match &args.heads {
            Some(file) => heads(file)?,
            None => Vec::new(),
        };
        let check = SealCheck::new(Arc::clone(store), args.most).await?;
        let total = store.last_seal((), None).await?.map_or(0, |last| last.number);
        let bar = out.bar(total.unsigned_abs(), "seals");
        let mut report = check.chain(&heads, |number| bar.set_position(number.unsigned_abs())).await?;
        bar.finish_and_clear();
        let problems = std::mem::take(&mut report.problems).into_iter().map(named).collect();
        Ok(Self { check, report, problems })
    }

    /// What is wrong with them.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// The first portion of jobs.
    pub async fn portions(&self) -> Outcome<Portions<'_>> {
        let portions = self.check.portions(&self.report);
        let jobs = match self.report.last {
            Some(_) => Some(self.check.sealed_jobs(0, portions).await?),
            None => None,
        };
        Ok(Portions { check: &self.check, jobs, portion: 0, portions })
    }

    /// Adds the head of the last seal to a file, if that is wished and nothing is wrong.
    pub fn write_head(&self, args: &VerifyArgs, is_right: bool) -> Outcome {
        let Some(file) = args.write_heads.as_ref().filter(|_| is_right) else { return Ok(()) };
        let head = self.head().ok_or_else(|| {
            Failure::failed("nothing is sealed yet, so there is no head to write; start `windlass serve`")
        })?;
        let failed =
            |e: std::io::Error| Failure::failed(format!("{} cannot be written: {e}", file.display()));
        let mut heads = std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
        writeln!(heads, "{head}").and_then(|()| heads.sync_all()).map_err(failed)
    }

    fn head(&self) -> Option<Value> {
        let last = self.report.last.as_ref()?;
        let store = format!("{:016x}", last.life.store);
        Some(
            json!({ "store": store, "seal": last.number, "hash": hex(&last.hash), "at": last.at.to_string() }),
        )
    }

    /// For programs.
    pub fn shown(&self) -> Value {
        let SealReport { seals, events, removed, erased, .. } = &self.report;
        json!({ "seals": seals, "events": events, "removed": removed, "erased": erased, "head": self.head() })
    }

    /// For people.
    pub fn said(&self) -> String {
        let SealReport { seals, events, removed, erased, .. } = &self.report;
        let Some(last) = &self.report.last else { return "nothing is sealed yet".to_owned() };
        let on_record = match (*removed, *erased) {
            (0, 0) => String::new(),
            (removed, erased) => {
                format!(", but for {removed} removed and {erased} erased, which is on record")
            }
        };
        let at = last.at;
        format!("{seals} seals, the last of {at}: all {events} sealed events are what they were{on_record}")
    }
}

impl Portions<'_> {
    /// Whether a job is of this portion.
    pub fn takes(&self, job: JobId) -> bool {
        self.jobs.as_ref().is_none_or(|jobs| jobs.takes(job))
    }

    /// Notes what of a job's log is in no seal.
    pub fn note(&mut self, job: &Job) {
        if let Some(jobs) = &mut self.jobs {
            jobs.note(job.id, job.version);
        }
    }

    /// Ends this portion and begins the next. False after the last one.
    pub async fn next(&mut self, problems: &mut Vec<Problem>) -> Outcome<bool> {
        let Some(jobs) = self.jobs.take() else { return Ok(false) };
        let (inserted, too_many) = self.check.inserted(jobs).await?;
        problems.extend(inserted.into_iter().map(named));
        if too_many {
            tracing::warn!("the sealing is far behind: whether entries were inserted is not checked yet");
        }
        self.portion += 1;
        if self.portion >= self.portions {
            return Ok(false);
        }
        self.jobs = Some(self.check.sealed_jobs(self.portion, self.portions).await?);
        Ok(true)
    }
}

/// Reads heads, one per line.
fn heads(file: &Path) -> Outcome<Vec<KeptHead>> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::usage(format!("{} cannot be read: {e}", file.display())))?;
    let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    lines.map(|(line, text)| head(text).ok_or_else(|| no_head(file, line))).collect()
}

fn head(line: &str) -> Option<KeptHead> {
    let head: Value = serde_json::from_str(line).ok()?;
    let hash = unhex(head["hash"].as_str()?)?.try_into().ok()?;
    let store = u64::from_str_radix(head["store"].as_str()?, 16).ok()?;
    Some(KeptHead { store, head: SealHead { number: head["seal"].as_i64()?, hash } })
}

fn no_head(file: &Path, line: usize) -> Failure {
    Failure::usage(format!("line {line} of {} is no head of a seal", file.display()))
}
