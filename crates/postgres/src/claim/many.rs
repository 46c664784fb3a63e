//! Jobs of a queue with rules that a claim hands out: all of them in one statement, as core decided each on its locked row.

use super::number;
use crate::db::{Tx, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, Ts};
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::decide::{Claim, Command, Move, decide};
use windlass_core::{Facts, JobId, Payload};
use windlass_store::Claimed;

/// The facts and the payload of a job, or why they do not read back.
type First = Result<(Facts, Option<Payload>), String>;

impl Tx<'_> {
    /// Writes what a claim decided to hand out, and takes their slots. Those whose first event is gone, or of which something
    /// does not read back, fail by themselves and are left out.
    pub(crate) async fn hand_out_many(&self, steps: Vec<Move>, claim: &Claim) -> Tried<Vec<Claimed>> {
        let mut firsts = self.write_many(&steps, claim).await?;
        let mut claimed = Vec::with_capacity(steps.len());
        for Move { job, .. } in steps {
            let token = claim.secret.token(job.id, job.attempt);
            let held = match firsts.remove(&job.id).flatten() {
                None => Err(Command::LosePayload),
                Some(Err(why)) => Err(Command::Unreadable(why)),
                Some(Ok((facts, payload))) => {
                    match self.claimed_with(job.clone(), claim, token, facts, payload).await {
                        Err(Failure::Corrupt { why, .. }) => Err(Command::Unreadable(why)),
                        held => Ok(held?),
                    }
                }
            };
            match held {
                Ok(held) => claimed.push(held),
                Err(lost) => {
                    if let Ok(step) = decide(&job, lost, job.updated_at) {
                        self.write(&job, &step).await?;
                    }
                }
            }
        }
        Ok(claimed)
    }

    /// Writes rows, events and slots; returns each job's first event, none where that is gone.
    async fn write_many(&self, steps: &[Move], claim: &Claim) -> Tried<HashMap<JobId, Option<First>>> {
        if steps.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs: Vec<Uuid> = steps.iter().map(|step| uuid(step.job.id)).collect();
        let versions: Vec<i64> = steps.iter().map(|step| step.job.version).collect();
        let attempts: Vec<i32> = steps.iter().map(|step| step.job.attempt).collect();
        let crashes: Vec<i32> = steps.iter().map(|step| step.job.crashes).collect();
        let hashes: Vec<Option<&[u8]>> =
            steps.iter().map(|step| step.job.lease_hash.as_ref().map(|hash| hash.0.as_slice())).collect();
        let dues: Vec<Option<Ts>> = steps.iter().map(|step| step.job.due_at.map(Ts)).collect();
        let deadlines: Vec<Option<Ts>> = steps.iter().map(|step| step.job.deadline_at.map(Ts)).collect();
        let ends: Vec<Option<Ts>> = steps.iter().map(|step| step.job.lease_expires_at.map(Ts)).collect();
        let at: Vec<Ts> = steps.iter().map(|step| Ts(step.event.at)).collect();
        let (worker, number) = (claim.worker.as_str(), number(claim));
        let params =
            params![jobs, versions, attempts, crashes, hashes, dues, deadlines, ends, at, worker, number];
        let rows = self.handed_out_rows(params).await?;
        if rows.len() != steps.len() {
            let message = format!("{} jobs were to be handed out, {} were", steps.len(), rows.len());
            return Err(Failure::Unreadable(message));
        }
        self.mark(false);
        rows.iter().map(first).collect()
    }
}

/// A job that was handed out, with its first event.
fn first(row: &tokio_postgres::Row) -> Tried<(JobId, Option<First>)> {
    let mut c = Columns::new(row, 0);
    let id = c.job_id()?;
    let facts = c.get::<Option<&str>>()?;
    let (is_json, payload): (Option<bool>, Option<Vec<u8>>) = (c.get()?, c.get()?);
    let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
    let read = |facts: Facts| (facts, payload);
    Ok((id, facts.map(|facts| Facts::read(Some(facts)).map(read).map_err(|wrong| wrong.to_string()))))
}
