//! Many schedules at once, as a file declares them: all of them or none.

use super::{PutSchedule, RemoveSchedule, Schedule, ScheduleState};
use crate::limits::{self, Invalid};
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Most schedules that are applied at once.
pub const APPLY_MAX: usize = 10_000;

/// Schedules as they are to be.
#[derive(Debug, Clone)]
pub struct ApplySchedules {
    /// By name.
    pub schedules: Vec<(Name, Schedule)>,
    /// Whether every other schedule is removed.
    pub prune: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Who.
    pub actor: Actor,
}

/// What becomes of one schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Which.
    pub name: Name,
    /// How it stood; none if it is new.
    pub before: Option<ScheduleState>,
    /// How it stands afterwards; none if it is removed.
    pub after: Option<ScheduleState>,
    /// What goes to the audit; none if nothing changes.
    pub audit: Option<WriteAudit>,
}

impl ApplySchedules {
    /// What becomes of each, by name. One that is refused names itself, and nothing is written.
    pub fn decide(
        &self,
        before: &BTreeMap<Name, ScheduleState>,
        now: Timestamp,
    ) -> Result<Vec<Applied>, Refusal> {
        limits::count("schedules", self.schedules.len(), APPLY_MAX)?;
        let mut named = BTreeSet::new();
        let mut all = Vec::new();
        for (name, schedule) in &self.schedules {
            if !named.insert(name) {
                return Err(Invalid::new("schedules", name, "is named twice; name each once").into());
            }
            let before = before.get(name);
            let put = PutSchedule {
                name: name.clone(),
                schedule: schedule.clone(),
                expected_version: None,
                actor: self.actor.clone(),
            };
            let changed = put.decide(before, now).map_err(|refusal| match refusal {
                Refusal::Invalid(invalid) => {
                    Invalid { field: format!("{name}: {}", invalid.field), ..invalid }.into()
                }
                other => other,
            })?;
            let (after, audit) =
                changed.map_or((before.cloned(), None), |(after, audit)| (Some(after), Some(audit)));
            all.push(Applied { name: name.clone(), before: before.cloned(), after, audit });
        }
        if self.prune {
            for (name, state) in before.iter().filter(|(name, _)| !named.contains(name)) {
                let remove = RemoveSchedule { name: name.clone(), actor: self.actor.clone() };
                let audit = Some(remove.decide(Some(state))?);
                all.push(Applied { name: name.clone(), before: Some(state.clone()), after: None, audit });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
}
