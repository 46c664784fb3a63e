//! Operations: what is done to many jobs by the leader, watched and stopped.

use crate::call::{Call, Reply, json, ok};
use crate::problem::Problem;
use crate::wire::operation::{OperationShape, OperationsPage};
use hyper::StatusCode;
use windlass_core::operation::Operation;
use windlass_core::{Actor, Name, Refusal};
use windlass_store::{ListPapers, Paper, PaperKind, PutPaper, fresh};

/// Operations of a page when nothing is said.
const PAGE: usize = 50;

/// Whether the caller may see it: all of it is in queues that are open to the caller.
fn is_seen(call: &Call, one: &Operation) -> bool {
    match one.queue() {
        Some(queue) => call.who.sees(queue),
        None => call.who.check_all_queues().is_ok() || one.by == call.actor(),
    }
}

/// `GET /v1/operations`
pub(crate) async fn operations(call: Call) -> Reply {
    let limit = call.query.limit(PAGE)?;
    let before = call.query.text("cursor").map(|text| Name::parse("cursor", text)).transpose()?;
    let papers = call.store().papers(ListPapers { kind: PaperKind::Operation, before, limit }, None).await?;
    let next_cursor = papers.last().filter(|_| papers.len() == limit).map(|last| last.name.to_string());
    let read = papers.iter().filter_map(|paper| Some((paper, Operation::read(paper).ok()?)));
    let seen = read.filter(|(_, one)| is_seen(&call, one));
    ok(&OperationsPage {
        operations: seen.map(|(paper, one)| OperationShape::of(paper, one)).collect(),
        next_cursor,
    })
}

/// The operation of the path. One that the caller may not see is as if it were not there.
async fn find(call: &Call) -> Result<(Paper, Operation), Problem> {
    let name = Name::parse("id", call.segment("id"))?;
    let missing = || Refusal::PaperNotFound("operation", name.to_string());
    let paper = call.store().paper((PaperKind::Operation, name.clone()), None).await?.ok_or_else(missing)?;
    let one = Operation::read(&paper)?;
    if is_seen(call, &one) { Ok((paper, one)) } else { Err(missing().into()) }
}

/// `GET /v1/operations/{id}`
pub(crate) async fn operation(call: Call) -> Reply {
    let (paper, one) = find(&call).await?;
    ok(&OperationShape::of(&paper, one))
}

/// `POST /v1/operations/{id}/stop`: what is over stays as it is.
pub(crate) async fn stop(call: Call) -> Reply {
    loop {
        let (paper, one) = find(&call).await?;
        if let Some(queue) = one.queue() {
            call.who.check_queue(queue)?;
        }
        let Some(stopped) = one.clone().stop(call.actor(), fresh::wall_clock()) else {
            return ok(&OperationShape::of(&paper, one));
        };
        let put = put(paper.name, &stopped, Some(paper.version), "operation.stop", call.actor());
        match call.store().put_paper(put, None).await? {
            // The leader noted a page meanwhile.
            Err(Refusal::VersionMismatch(_)) => {}
            answer => return ok(&OperationShape::of(&answer?, stopped)),
        }
    }
}

fn put(
    name: Name,
    one: &Operation,
    expected_version: Option<i64>,
    action: &'static str,
    actor: Actor,
) -> PutPaper {
    PutPaper {
        kind: PaperKind::Operation,
        name,
        body: serde_json::to_value(one).unwrap_or_default(),
        expected_version,
        term: None,
        action: Some(action),
        actor,
    }
}

/// Keeps a new operation, and lets the leader know.
pub(crate) async fn begin(call: &Call, one: Operation) -> Result<OperationShape, Problem> {
    // Sorts by time, as ids of jobs do.
    let name = Name::parse("id", fresh::job_id().to_string())?;
    let request = put(name, &one, Some(0), one.action.as_str(), call.actor());
    let paper = crate::app::known(|| call.app.store.put_paper(request.clone(), None)).await??;
    call.app.operations.notify_one();
    Ok(OperationShape::of(&paper, one))
}

/// The answer to one that was begun.
pub(crate) fn begun(shape: &OperationShape) -> Reply {
    json(StatusCode::ACCEPTED, shape)
}
