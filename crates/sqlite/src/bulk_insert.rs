//! New jobs into the store: those that differ only in id and payload together, in two statements.
//!
//! A statement costs SQLite about as much as the row it writes: counted in instructions, 500 rows written one by one take
//! 1.7 times what one statement takes for them.

use crate::db::{Tx, array, sql};
use crate::error::{Failure, Tried};
use crate::row;
use windlass_core::{Actor, Facts, Job, JobId, NewJob, Payload, Timestamp, Who};

impl Tx<'_, '_> {
    /// Writes new jobs in the order given: each its first event, its row and its tags.
    pub(crate) fn create_all(&self, jobs: &[&NewJob], actor: &Actor, now: Timestamp) -> Tried<()> {
        for alike in jobs.chunk_by(|one, next| one.facts == next.facts) {
            if alike.len() > 1 && self.numbers_itself() {
                self.create_alike(alike, actor, now)?;
            } else {
                alike.iter().try_for_each(|job| self.create_one(job, actor, now))?;
            }
            alike.iter().try_for_each(|job| self.tag(job.id, &job.facts))?;
        }
        Ok(())
    }

    fn create_one(&self, job: &NewJob, actor: &Actor, now: Timestamp) -> Tried<()> {
        let event = job.created(actor, now);
        self.append_event(&event)?;
        Job::created(&event).map_or(Ok(()), |row| self.create_job(&row, now))
    }

    /// Jobs with the same facts: their events and rows are those of the first but for id and payload.
    fn create_alike(&self, alike: &[&NewJob], actor: &Actor, now: Timestamp) -> Tried<()> {
        let first = alike[0].created(actor, now);
        let Some(row) = Job::created(&first) else { return Ok(()) };
        let facts = &alike[0].facts;
        let params = (
            array(alike.iter().map(|job| packed(job))),
            now.as_micros(),
            actor.as_str(),
            first.what.detail(),
            facts.kind.as_str(),
            facts.agent_id.as_ref().map(Who::as_str),
            facts.parent_id.as_ref().map(JobId::as_bytes),
        );
        let logged = self.execute(sql!("create_jobs_event"), params)?;
        let ids = array(alike.iter().map(|job| job.id.as_bytes().to_vec()));
        let written = row::create_jobs(&mut *self.statement(sql!("create_jobs"))?, ids, &row)?;
        if logged != alike.len() || written != alike.len() {
            let message = format!("{} new jobs, {logged} logged, {written} written", alike.len());
            return Err(Failure::Unreadable(message));
        }
        self.appended(logged, now);
        self.hint_due(&row, now);
        Ok(())
    }

    /// Makes a job findable by its tags.
    pub(crate) fn tag(&self, job: JobId, facts: &Facts) -> Tried<()> {
        for tag in &facts.tags {
            self.execute(sql!("insert_tag"), (tag.as_str(), job.as_bytes()))?;
        }
        Ok(())
    }
}

/// A new job as `create_jobs_event.sql` reads it.
fn packed(job: &NewJob) -> Vec<u8> {
    let bytes = job.payload.as_ref().map_or(&[][..], Payload::as_bytes);
    let mut out = Vec::with_capacity(17 + bytes.len());
    out.extend_from_slice(job.id.as_bytes());
    out.push(job.payload.as_ref().map_or(2, |payload| u8::from(payload.is_json())));
    out.extend_from_slice(bytes);
    out
}
