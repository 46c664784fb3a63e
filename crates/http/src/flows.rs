//! Flows: jobs that wait for each other, made in one request; how they grow, are sealed, and are looked at.

use crate::app::known;
use crate::append::check_reader;
use crate::call::{Call, Reply, json, ok};
use crate::enqueue::{check_node, send, trace};
use crate::problem::Problem;
use crate::wire::flow::{
    FlowBody, GraphEdge, GraphShape, MadeFlow, NodeShape, NodesBody, UpstreamPage, UpstreamShape,
};
use crate::wire::job::JobShape;
use crate::wire::new_job::NewJobShape;
use crate::wire::operate::OneJob;
use crate::wire::raw::Shown;
use axum::http::StatusCode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use windlass_core::flow::{FLOW_KIND, Flow, Graph, Node, arrange};
use windlass_core::limits::{ENQUEUE_MAX, PAGE_MAX, count};
use windlass_core::{EventKind, Facts, Filter, Invalid, Job, JobId, Name, NewJob, Refusal, Status, WaitFor};
use windlass_store::{Enqueued, JobView, List, ReadEvents, Seal, fresh};

/// Jobs of a graph that are shown.
const GRAPH_MAX: usize = ENQUEUE_MAX;
/// Jobs of a graph without a flow that are followed: each costs a look.
const FOLLOWED_MAX: usize = 200;

/// `POST /v1/flows`
pub(crate) async fn create(call: Call) -> Reply {
    let body: FlowBody = call.body()?;
    let mut parent = match body.callback {
        Some(callback) => {
            if callback.after.is_some() {
                return Err(Invalid::new(
                    "callback.after",
                    "given",
                    "must be left out: it runs after the flow",
                )
                .into());
            }
            callback.resolve(&*call.app.policies().await?)?
        }
        None => NewJob {
            id: fresh::job_id(),
            facts: Facts::new(Name::parse("kind", FLOW_KIND)?, Name::parse("queue", "default")?),
            payload: None,
            parent_token: None,
        },
    };
    let flow = Flow { join: body.join.unwrap_or_default().into(), open: body.open.unwrap_or_default() };
    parent.facts.graph = Some(Box::new(Graph { flow: Some(flow), ..Graph::default() }));
    let nodes = laid_out(&call, parent.id, body.nodes).await?;
    let names = names(&nodes);
    let mut jobs = vec![parent];
    jobs.extend(nodes);
    for job in &mut jobs {
        trace(&call, job);
        check_node(&call, job).await?;
    }
    let answers = send(&call, jobs).await??;
    let Some((parent, nodes)) = answers.split_first() else {
        return Err(windlass_store::StoreError::Indeterminate("the store answered for no job".into()).into());
    };
    made(parent.id, &names, nodes)
}

/// `POST /v1/jobs/{id}/children`
pub(crate) async fn children(call: Call) -> Reply {
    let body: NodesBody = call.body()?;
    let parent = call.job().await?;
    let is_open = parent.facts.flow().is_some_and(|flow| flow.open)
        && parent.job.waiting_for == Some(WaitFor::Flow)
        && parent.job.children > 0;
    if !is_open {
        return Err(Refusal::FlowNotOpen.into());
    }
    let mut jobs = laid_out(&call, parent.job.id, body.nodes).await?;
    let names = names(&jobs);
    for job in &mut jobs {
        trace(&call, job);
        check_node(&call, job).await?;
    }
    let answers = send(&call, jobs).await??;
    made(parent.job.id, &names, &answers)
}

/// `POST /v1/jobs/{id}/seal`
pub(crate) async fn seal(call: Call) -> Reply {
    let job = call.job_id()?;
    call.check_job(job).await?;
    let request = Seal { job, actor: call.actor() };
    known(|| call.app.store.seal(request.clone(), None)).await??;
    ok(&OneJob { job: JobShape::view(call.view(job).await?) })
}

/// The jobs of a request in an order in which they can be written.
async fn laid_out(
    call: &Call,
    parent: JobId,
    shapes: BTreeMap<String, NewJobShape>,
) -> Result<Vec<NewJob>, Problem> {
    count("nodes", shapes.len(), ENQUEUE_MAX)?;
    let policies = call.app.policies().await?;
    let (mut nodes, mut own) = (Vec::with_capacity(shapes.len()), BTreeSet::new());
    for (name, mut shape) in shapes {
        if shape.parent_id.is_some() || shape.lease_token.is_some() {
            return Err(Invalid::new("parent_id", "given", "must be left out: it is the flow").into());
        }
        let named = |problem: Problem| problem.with("node", name.clone());
        let after = shape.after.take().map(|after| after.before()).transpose();
        let after = after.map_err(|invalid| named(invalid.into()))?.unwrap_or_default();
        let has_id = shape.id.is_some();
        let job = shape.resolve(&policies).map_err(|invalid| named(invalid.into()))?;
        if has_id {
            own.insert(job.id);
        }
        nodes.push(Node { name: Name::parse("nodes", &name)?, job, after });
    }
    Ok(arrange(parent, nodes, &own, fresh::job_id)?)
}

fn names(jobs: &[NewJob]) -> Vec<String> {
    let name = |job: &NewJob| job.facts.graph.as_ref()?.name.as_ref().map(ToString::to_string);
    jobs.iter().map(|job| name(job).unwrap_or_default()).collect()
}

fn made(flow: JobId, names: &[String], answers: &[Enqueued]) -> Reply {
    let nodes = names.iter().cloned().zip(answers.iter().map(|answer| answer.id.to_string())).collect();
    json(StatusCode::CREATED, &MadeFlow { id: flow.to_string(), nodes })
}

/// `GET /v1/jobs/{id}/graph`
pub(crate) async fn graph(call: Call) -> Reply {
    let view = call.job().await?;
    let parent = match view.job.parent_id {
        Some(id) if view.facts.flow().is_none() => call.store().job(id, None).await?,
        _ => None,
    };
    let flow = match parent {
        Some(parent) if parent.facts.flow().is_some() => parent.job.id,
        _ if view.facts.flow().is_some() => view.job.id,
        _ => return ok(&followed(&call, view).await?),
    };
    let (mut shape, mut cursor) = (GraphShape::default(), None);
    loop {
        let filter = Filter { parent_id: Some(flow), ..Filter::default() };
        let page = call.store().jobs(List { filter, cursor, limit: PAGE_MAX }, None).await??;
        for listed in page.items.iter().filter(|listed| call.who.sees(&listed.job.queue)) {
            shape.add(&listed.job, &listed.facts);
        }
        cursor = page.next;
        shape.truncated = cursor.is_some() && shape.nodes.len() >= GRAPH_MAX;
        if cursor.is_none() || shape.truncated {
            break;
        }
    }
    // Lists begin with the newest.
    shape.nodes.reverse();
    shape.edges.reverse();
    ok(&shape)
}

/// A job that belongs to no flow, with what it waits for and who waits for it, from one to the next.
async fn followed(call: &Call, first: JobView) -> Result<GraphShape, Problem> {
    let mut shape = GraphShape::default();
    let (mut seen, mut todo) = (BTreeSet::from([first.job.id]), VecDeque::from([first.job.id]));
    while let Some(id) = todo.pop_front() {
        if shape.nodes.len() == FOLLOWED_MAX {
            shape.truncated = true;
            break;
        }
        let view = call.store().job(id, None).await?.filter(|view| call.who.sees(&view.job.queue));
        let Some(view) = view else { continue };
        shape.add(&view.job, &view.facts);
        let mut next: Vec<JobId> = view.facts.after().iter().map(|edge| edge.job).collect();
        if view.job.dependents > 0 {
            let request = ReadEvents { job: id, after: 0, limit: PAGE_MAX, newest_first: false };
            for event in call.store().events(request, None).await? {
                if let EventKind::JobDependentsAdded(added) = event.what {
                    next.extend(added.dependents.iter().map(|dependent| dependent.job));
                }
            }
        }
        todo.extend(next.into_iter().filter(|id| seen.insert(*id)));
    }
    shape.nodes.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(shape)
}

impl GraphShape {
    fn add(&mut self, job: &Job, facts: &Facts) {
        self.nodes.push(NodeShape {
            id: job.id.to_string(),
            name: facts.graph.as_ref().and_then(|graph| graph.name.as_ref()).map(ToString::to_string),
            kind: job.kind.to_string(),
            queue: job.queue.to_string(),
            status: job.status,
            error_code: job.error_code.as_ref().map(ToString::to_string),
        });
        self.edges.extend(facts.after().iter().map(|edge| GraphEdge {
            from: edge.job.to_string(),
            to: job.id.to_string(),
            on: edge.on.into(),
        }));
    }
}

/// `GET /v1/jobs/{id}/upstream`
pub(crate) async fn upstream(call: Call) -> Reply {
    let view = call.job().await?;
    if let Some(token) = call.who.lease() {
        check_reader(&call, token).await?;
    }
    let mut found = Vec::new();
    for edge in view.facts.after().iter().take(PAGE_MAX) {
        // The holder of the job may read what it waited for, whatever queue that was in; others what their keys are for.
        let may_see = |view: &JobView| call.who.lease().is_some() || call.who.sees(&view.job.queue);
        let job = call.store().job(edge.job, None).await?.filter(may_see);
        let is_done = |view: &&JobView| view.job.status == Status::Completed;
        let result = job.as_ref().filter(is_done).and_then(|view| view.result.as_ref());
        let (result, result_base64) = Shown::of(result).or_absent();
        found.push(UpstreamShape {
            id: edge.job.to_string(),
            name: edge.name.as_ref().map(ToString::to_string),
            on: edge.on.into(),
            status: job.as_ref().map(|view| view.job.status),
            result,
            result_base64,
        });
    }
    ok(&UpstreamPage { upstream: found })
}
