//! Why a job is not running, followed to its root: from a parent to the child that keeps it, from a wait to the approval that
//! is asked for. The store says the rest.

use crate::call::Call;
use crate::problem::Problem;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Blocked, Filter, JobId, Status, WaitFor};
use windlass_store::{JobView, List, ListApprovals};

/// How many generations are followed.
const GENERATIONS: usize = 16;
/// How many live children of one parent are looked at.
const CHILDREN: usize = 20;

/// Names the root of what keeps a job, as far as the caller may see it.
pub(crate) async fn follow(call: &Call, view: &mut JobView) -> Result<(), Problem> {
    let Some(first) = &view.blocked else { return Ok(()) };
    let (mut by, mut fix) = (first.by.clone(), first.fix.clone());
    let (mut job, mut waits_for) = (view.job.id, waits_for(view));
    for _ in 0..GENERATIONS {
        match waits_for {
            Some(WaitFor::Approval) => {
                if let Some(vote) = vote(call, job).await? {
                    fix = vote;
                }
                break;
            }
            Some(WaitFor::Children | WaitFor::Flow) => {}
            _ => break,
        }
        let Some(child) = kept_by(call, job).await? else { break };
        let name = format!("child {} {}", child.job.kind, child.job.id);
        match &child.blocked {
            None => {
                by = format!("{by}: {name} is {}", child.job.status.as_str());
                fix = format!("wait for it: `windlass jobs watch {}`", child.job.id);
                break;
            }
            Some(why) => {
                by = format!("{by}: {name} is {}, by {}", words(why), why.by);
                fix.clone_from(&why.fix);
            }
        }
        (job, waits_for) = (child.job.id, self::waits_for(&child));
    }
    if let Some(blocked) = &mut view.blocked {
        (blocked.by, blocked.fix) = (by, fix);
    }
    Ok(())
}

fn waits_for(view: &JobView) -> Option<WaitFor> {
    view.job.waiting_for.filter(|_| view.blocked.as_ref().is_some_and(|blocked| blocked.reason == "waiting"))
}

fn words(blocked: &Blocked) -> String {
    match blocked.reason {
        "no_worker" => "without a worker".to_owned(),
        reason => reason.replace('_', " "),
    }
}

/// The command that decides what a job asks for.
async fn vote(call: &Call, job: JobId) -> Result<Option<String>, Problem> {
    let request =
        ListApprovals { job: Some(job), status: Some(ApprovalStatus::Pending), before: None, limit: 1 };
    let asked = call.store().approvals(request, None).await?.pop();
    Ok(asked.map(|asked| {
        let (id, end) = (asked.approval.id, asked.approval.expires_at);
        format!("`windlass approvals approve {id}` or deny; it expires at {end}")
    }))
}

/// The live child that keeps a parent: one that is not running, else any.
async fn kept_by(call: &Call, parent: JobId) -> Result<Option<JobView>, Problem> {
    let statuses = Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
    let filter = Filter { statuses, parent_id: Some(parent), ..Filter::default() };
    let page = call.store().jobs(List { filter, cursor: None, limit: CHILDREN }, None).await??;
    let mut running = None;
    for listed in page.items.iter().filter(|listed| call.who.sees(&listed.job.queue)) {
        let Some(child) = call.store().job(listed.job.id, None).await? else { continue };
        if child.blocked.is_some() {
            return Ok(Some(child));
        }
        running.get_or_insert(child);
    }
    Ok(running)
}
