//! What people keep beside the jobs: saved views, and marks in time. For keys of every queue.

use crate::call::{Call, Reply, json, ok};
use crate::problem::Problem;
use crate::wire::paper::{MarkBody, MarkShape, MarksPage, ViewBody, ViewShape, ViewsPage};
use crate::wire::time::Time;
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json as value;
use utoipa::ToSchema;
use windlass_core::limits::{Invalid, is_hidden, within};
use windlass_core::paper::KIND_MAX;
use windlass_core::{JobId, Name, Timestamp};
use windlass_store::{ListPapers, Paper, PaperKind, PutPaper, RemovePaper, fresh};

/// The most characters of a mark.
const MARK_MAX: i64 = 200;
/// Marks of a page when nothing is said.
const PAGE: usize = 100;

/// That it is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaperRemoved)]
pub(crate) struct Removed {
    removed: String,
}

pub(crate) async fn all(call: &Call, kind: PaperKind, limit: usize) -> Result<Vec<Paper>, Problem> {
    call.who.check_all_queues()?;
    Ok(call.store().papers(ListPapers { kind, before: None, limit }, None).await?)
}

pub(crate) async fn remove(call: &Call, kind: PaperKind, action: &'static str, name: &str) -> Reply {
    call.who.check_all_queues()?;
    let name = Name::parse("name", name)?;
    let request =
        RemovePaper { kind, name: name.clone(), term: None, action: Some(action), actor: call.actor() };
    call.store().remove_paper(request, None).await??;
    ok(&Removed { removed: name.to_string() })
}

fn view(paper: &Paper) -> ViewShape {
    ViewShape {
        name: paper.name.to_string(),
        filter: serde_json::from_value(paper.body["filter"].clone()).unwrap_or_default(),
        version: paper.version,
        by: paper.by.to_string(),
        updated_at: Time(paper.updated_at),
    }
}

/// `GET /v1/views`
pub(crate) async fn views(call: Call) -> Reply {
    let papers = all(&call, PaperKind::View, KIND_MAX).await?;
    ok(&ViewsPage { views: papers.iter().rev().map(view).collect() })
}

/// `PUT /v1/views/{name}`
pub(crate) async fn put_view(call: Call) -> Reply {
    let body: ViewBody = call.body()?;
    let name = Name::parse("name", call.segment("name"))?;
    let kept = all(&call, PaperKind::View, KIND_MAX).await?;
    if kept.len() >= KIND_MAX && !kept.iter().any(|paper| paper.name == name) {
        let limit = format!("there are {KIND_MAX} views; remove one first");
        return Err(Invalid::new("name", &name, limit).into());
    }
    let request = PutPaper {
        kind: PaperKind::View,
        name,
        body: value!({ "filter": body.filter }),
        expected_version: body.expected_version,
        term: None,
        action: Some("view.put"),
        actor: call.actor(),
    };
    ok(&view(&call.store().put_paper(request, None).await??))
}

/// `DELETE /v1/views/{name}`
pub(crate) async fn remove_view(call: Call) -> Reply {
    remove(&call, PaperKind::View, "view.remove", call.segment("name")).await
}

fn mark(paper: &Paper) -> MarkShape {
    let at = paper.body["at"].as_i64().map_or(paper.created_at, Timestamp::from_micros);
    MarkShape {
        id: paper.name.to_string(),
        at: Time(at),
        text: paper.body["text"].as_str().unwrap_or_default().to_owned(),
        by: paper.by.to_string(),
    }
}

/// `GET /v1/marks`
pub(crate) async fn marks(call: Call) -> Reply {
    let limit = call.query.limit(PAGE)?;
    let (from, to) = (call.query.time("from")?, call.query.time("to")?);
    let papers = all(&call, PaperKind::Mark, KIND_MAX).await?;
    let fits =
        |mark: &MarkShape| from.is_none_or(|from| mark.at.0 >= from) && to.is_none_or(|to| mark.at.0 < to);
    ok(&MarksPage { marks: papers.iter().map(mark).filter(fits).take(limit).collect() })
}

/// `POST /v1/marks`
pub(crate) async fn put_mark(call: Call) -> Reply {
    let body: MarkBody = call.body()?;
    call.who.check_all_queues()?;
    within("text", body.text.chars().count() as i64, 1, MARK_MAX)?;
    if body.text.chars().any(is_hidden) {
        return Err(Invalid::new("text", &body.text, "must be one line of visible characters").into());
    }
    let at = body.at.map_or_else(fresh::wall_clock, |at| at.0);
    let id = JobId::from_parts(at, fresh::random::<8>());
    let request = PutPaper {
        kind: PaperKind::Mark,
        name: Name::parse("id", id.to_string())?,
        body: value!({ "at": at.as_micros(), "text": body.text }),
        expected_version: None,
        term: None,
        action: Some("mark.put"),
        actor: call.actor(),
    };
    json(StatusCode::CREATED, &mark(&call.store().put_paper(request, None).await??))
}

/// `DELETE /v1/marks/{id}`
pub(crate) async fn remove_mark(call: Call) -> Reply {
    remove(&call, PaperKind::Mark, "mark.remove", call.segment("id")).await
}
