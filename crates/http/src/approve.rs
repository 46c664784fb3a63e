//! Approvals: asked by a holder, read by people, decided by a key or a link.

use crate::access::{forbidden, unauthorized};
use crate::app::known;
use crate::call::{self, Call, Reply, ok};
use crate::idempotency::once;
use crate::presence;
use crate::problem::Problem;
use crate::wire::approval::{ApprovalShape, ApprovalsPage, AskBody, AskedShape, ByToken};
use crate::wire::control::{DecideBody, DecisionWord};
use crate::wire::time::{Span, Time};
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use windlass_core::approve::link_votes;
use windlass_core::limits::APPROVAL_EXPIRES_DEFAULT_MS;
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Voter};
use windlass_core::{Actor, Approval, ApprovalId, Invalid, Metadata, Name, Refusal, Role, Who};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals, StoreError, fresh};

/// Approvals of a page when nothing is said.
const PAGE: usize = 50;

/// `POST /v1/jobs/{id}/approvals`
pub(crate) async fn ask(call: Call) -> Reply {
    let body: AskBody = call.body()?;
    let asker = asker(&call).await?;
    let required = body.required.unwrap_or(1);
    let request = |id| -> Result<(Ask, String), Problem> {
        let link = fresh::link_token();
        let ask = Ask {
            job: call.job_id()?,
            token: call.token(body.lease_token.as_deref())?,
            id,
            name: Name::parse("name", &body.name)?,
            prompt: body.prompt.clone(),
            approvers: body.approvers.clone().unwrap_or_default(),
            required,
            expires_ms: body.expires.map_or(APPROVAL_EXPIRES_DEFAULT_MS, Span::ms),
            link_hash: link.hash(),
            asker: asker.clone(),
        };
        Ok((ask, link.to_text()))
    };
    let has_link = link_votes(body.approvers.as_deref().unwrap_or_default(), required);
    let link_of = |asked: &Asked, link: String| {
        (has_link && asked.approval.status == ApprovalStatus::Pending).then_some(link)
    };
    let mut token = None;
    let (asked, is_repeat) = once(&call, async |_| {
        let (ask, link) = request(fresh::approval_id())?;
        let asked = known(|| call.app.store.ask(ask.clone(), None)).await??;
        token = link_of(&asked, link);
        Ok(asked.approval.id.to_string())
    })
    .await?;
    let mut id = ApprovalId::parse(&asked)?;
    if is_repeat {
        // The first answer's token is kept nowhere. Asking again replaces it, which is all that a repeat can do.
        let (ask, link) = request(fresh::approval_id())?;
        let again = known(|| call.app.store.ask(ask.clone(), None)).await??;
        token = link_of(&again, link);
        id = again.approval.id;
    }
    let view = call.store().approval(id, None).await?.ok_or(Refusal::ApprovalNotFound)?;
    let link = token.as_ref().map(|token| format!("/approve#{id}.{token}"));
    let approval = ApprovalShape::of(view, fresh::wall_clock());
    call::json(StatusCode::CREATED, &AskedShape { approval, token, link })
}

/// The key under which a job asks: the caller's, or, where a lease is the bearer, the one that the job's worker was made with.
async fn asker(call: &Call) -> Result<Option<Who>, Problem> {
    if call.who.lease().is_none() {
        return Ok(call.who.key().cloned());
    }
    let view = call.store().job(call.job_id()?, None).await?;
    let Some(holder) = view.and_then(|view| view.job.worker_id) else { return Ok(None) };
    let workers = call.store().workers((), None).await?;
    Ok(workers.iter().find(|worker| worker.id == holder).and_then(presence::made_by))
}

/// `GET /v1/approvals`
pub(crate) async fn approvals(call: Call) -> Reply {
    let query = &call.query;
    let status = query.text("status").map(|word| {
        let all = ApprovalStatus::ALL.map(ApprovalStatus::as_str).join(", ");
        ApprovalStatus::parse(word)
            .ok_or_else(|| Invalid::new("status", word, format!("must be one of {all}")))
    });
    let before = query.text("cursor").map(|text| {
        let wrong = |_| Invalid::new("cursor", text, "must come from a page of the same list");
        ApprovalId::parse(text.strip_prefix("a1").unwrap_or_default()).map_err(wrong)
    });
    let limit = query.limit(PAGE)?;
    let request = ListApprovals {
        job: query.job("job_id")?,
        status: status.transpose()?,
        before: before.transpose()?,
        limit,
    };
    let views = call.store().approvals(request, None).await?;
    let is_full = views.len() == limit;
    let next_cursor = views.last().filter(|_| is_full).map(|view| format!("a1{}", view.approval.id));
    let (mut approvals, now) = (Vec::with_capacity(views.len()), fresh::wall_clock());
    for view in views {
        if is_visible(&call, &view).await? {
            approvals.push(ApprovalShape::of(view, now));
        }
    }
    ok(&ApprovalsPage { approvals, next_cursor })
}

/// Whether its job is in a queue that the caller may see.
async fn is_visible(call: &Call, view: &ApprovalView) -> Result<bool, Problem> {
    if !call.who.is_for_some_queues() {
        return Ok(true);
    }
    let job = call.store().job(view.approval.job, None).await?;
    Ok(job.is_some_and(|job| call.who.sees(&job.job.queue)))
}

/// `GET /v1/approvals/{id}`
pub(crate) async fn approval(call: Call) -> Reply {
    let id = call.approval_id()?;
    let view = call.store().approval(id, None).await?.ok_or(Refusal::ApprovalNotFound)?;
    call.check_job(view.approval.job).await?;
    ok(&ApprovalShape::of(view, fresh::wall_clock()))
}

/// The one question that a link may see, and no more of its job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Question)]
pub(crate) struct Question {
    /// The approval.
    id: String,
    /// What is asked.
    prompt: String,
    /// `pending`, `approved`, `denied`, `expired`, `void`.
    status: &'static str,
    /// Whether this link has voted.
    used: bool,
    /// Votes needed.
    required: i32,
    /// When silence denies.
    expires_at: Time,
}

/// `POST /v1/approvals/by-token`
pub(crate) async fn by_token(call: Call) -> Reply {
    let body: ByToken = call.body()?;
    let caller = call.who.caller(&call.caller);
    call.app.throttle.check_wrong(&caller)?;
    let question = question(&call, &body.token).await;
    if matches!(question, Err(Asking::Refused(_))) {
        call.app.throttle.wrong(&caller);
    }
    ok(&question?)
}

/// Why no question is shown.
enum Asking {
    /// The link is wrong.
    Refused(Refusal),
    /// The store did not say.
    Failed(StoreError),
}

impl From<Asking> for Problem {
    fn from(asking: Asking) -> Self {
        match asking {
            Asking::Refused(refusal) => refusal.into(),
            Asking::Failed(error) => error.into(),
        }
    }
}

async fn question(call: &Call, link: &str) -> Result<Question, Asking> {
    let malformed = || Asking::Refused(Refusal::ApprovalTokenMalformed);
    let (id, token) = link.split_once('.').ok_or_else(malformed)?;
    let (id, token) = (ApprovalId::parse(id).ok(), LinkToken::parse(token));
    let (id, token) = id.zip(token).ok_or_else(malformed)?;
    let view = call.store().approval(id, None).await.map_err(Asking::Failed)?;
    let ApprovalView { approval, prompt, .. } = view.ok_or(Asking::Refused(Refusal::ApprovalNotFound))?;
    if token.hash() != approval.token_hash {
        return Err(Asking::Refused(Refusal::ApprovalTokenWrong));
    }
    Ok(Question {
        id: id.to_string(),
        prompt,
        status: approval.status_at(fresh::wall_clock()).as_str(),
        used: approval.token_used,
        required: approval.required,
        expires_at: Time(approval.expires_at),
    })
}

/// `POST /v1/approvals/{id}/decide`
pub(crate) async fn decide(call: Call) -> Reply {
    let body: DecideBody = call.body()?;
    let approval = call.approval_id()?;
    let caller = call.who.caller(&call.caller);
    let voter = match (body.token, call.who.voter()) {
        (Some(token), _) => Voter::Link { token, key: call.who.key().cloned() },
        (None, Some(_)) if !call.who.has(&[Role::Approver]) => {
            return Err(forbidden("to vote without a link", "approver"));
        }
        (None, Some((name, roles))) => {
            if call.who.is_for_some_queues() {
                let view = call.store().approval(approval, None).await?.ok_or(Refusal::ApprovalNotFound)?;
                call.check_job(view.approval.job).await?;
            }
            Voter::Key { name, roles }
        }
        (None, None) => return Err(unauthorized("send a key, or the token of the link in the body")),
    };
    let decision = match body.decision {
        DecisionWord::Approve => Decision::Approve,
        DecisionWord::Deny => Decision::Deny,
    };
    let by_link = matches!(voter, Voter::Link { .. });
    let before = call.store().approval(approval, None).await?;
    match &voter {
        Voter::Link { token: text, .. } => {
            if let Err(refusal) = check_link(before.as_ref(), text) {
                call.app.throttle.check_wrong(&caller)?;
                if !call.app.throttle.may_record() {
                    // Enough of them are on record: this one is only counted.
                    call.app.throttle.wrong(&caller);
                    call.app.metrics.unrecorded();
                    return Err(refusal.into());
                }
            }
        }
        Voter::Key { .. } => call.app.throttle.check_wrong(&caller)?,
    }
    let actor = if by_link { voter.actor() } else { call.actor() };
    let request = CastVote { approval, decision, voter, reason: body.reason };
    // Not repeated by itself: a vote that was cast is refused when it comes again.
    let voted = call.store().vote(request.clone(), None).await?;
    if voted.is_err() {
        call.app.throttle.wrong(&caller);
    }
    voted?;
    let view = call.store().approval(approval, None).await?.ok_or(Refusal::ApprovalNotFound)?;
    put_on_record(&call, actor, &request, before.as_ref(), &view).await;
    let now = fresh::wall_clock();
    if by_link && !call.who.has(&[Role::Viewer, Role::Approver]) {
        // A link is one vote, not a look at who else voted and why.
        let status = view.approval.status_at(now).as_str();
        return ok(&Decided { status, approval: None });
    }
    ok(&Decided {
        status: view.approval.status_at(now).as_str(),
        approval: Some(ApprovalShape::of(view, now)),
    })
}

/// Whether a link can vote now, as far as a look tells; the store decides. What it would refuse is not worth a line on
/// record each time.
fn check_link(view: Option<&ApprovalView>, text: &str) -> Result<(), Refusal> {
    let approval = &view.ok_or(Refusal::ApprovalNotFound)?.approval;
    let token = LinkToken::parse(text).ok_or(Refusal::ApprovalTokenMalformed)?;
    if token.hash() != approval.token_hash {
        return Err(Refusal::ApprovalTokenWrong);
    }
    match approval.status_at(fresh::wall_clock()) {
        ApprovalStatus::Expired => Err(Refusal::ApprovalExpired),
        ApprovalStatus::Pending if !approval.token_used => Ok(()),
        _ => Err(Refusal::ApprovalDecided),
    }
}

async fn put_on_record(
    call: &Call,
    actor: Actor,
    vote: &CastVote,
    before: Option<&ApprovalView>,
    after: &ApprovalView,
) {
    let standing = |view: &ApprovalView| {
        let Approval { status, approved, required, .. } = &view.approval;
        json!({ "status": status.as_str(), "approved": approved, "required": required })
    };
    let decision = if vote.decision == Decision::Approve { "approve" } else { "deny" };
    let detail = Metadata::from_iter([
        ("decision".to_owned(), decision.into()),
        ("reason".to_owned(), vote.reason.clone().into()),
        ("job_id".to_owned(), after.approval.job.to_string().into()),
        ("before".to_owned(), before.map(standing).unwrap_or_default()),
        ("after".to_owned(), standing(after)),
    ]);
    call.audit(actor, "approval.vote", after.approval.id.to_string(), detail).await;
}

/// Where an approval stands after a vote.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decided)]
pub(crate) struct Decided {
    /// `pending` while votes are missing.
    status: &'static str,
    /// All of it, for who may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalShape>,
}
