//! One request on its way through a handler: who calls, with what; and the answers a handler gives.

use crate::access::Principal;
use crate::app::App;
use crate::body;
use crate::problem::Problem;
use crate::query::Query;
use crate::throttle::Caller;
use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use windlass_core::lease::hex;
use windlass_core::{Actor, ApprovalId, Invalid, JobId, Metadata, Name, Refusal, Token};
use windlass_store::{JobView, Store, StoreError, WriteAudit};

/// What a handler answers.
pub(crate) type Reply = Result<Response<Body>, Problem>;

/// One request.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) who: Principal,
    /// Where it comes from.
    pub(crate) caller: Caller,
    pub(crate) method: Method,
    /// The path as it was called.
    pub(crate) path: String,
    /// The parameters in the path, decoded.
    pub(crate) segments: Vec<(String, String)>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.app.store
    }

    /// Who calls, as the log shows it.
    pub(crate) fn actor(&self) -> Actor {
        self.who.actor()
    }

    /// The body in a known shape.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        body::parse(&self.body)
    }

    /// A parameter of the path.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.segments.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The job that the path names.
    pub(crate) fn job_id(&self) -> Result<JobId, Invalid> {
        JobId::parse(self.segment("id"))
    }

    /// The approval that the path names.
    pub(crate) fn approval_id(&self) -> Result<ApprovalId, Invalid> {
        ApprovalId::parse(self.segment("id"))
    }

    /// The queue that the path names, if the caller may touch it.
    pub(crate) fn queue(&self) -> Result<Name, Problem> {
        let queue = Name::parse("queue", self.segment("queue"))?;
        self.who.check_queue(&queue)?;
        Ok(queue)
    }

    /// The lease token: the body's, or the one that was shown as bearer. Two that differ are refused.
    pub(crate) fn token(&self, body: Option<&str>) -> Result<Token, Problem> {
        let given = body.map(lease_token).transpose()?;
        match (given, self.who.lease()) {
            (Some(given), Some(bearer)) if given != bearer => Err(Refusal::Mismatch.into()),
            (Some(token), _) | (None, Some(token)) => Ok(token),
            (None, None) => Err(Invalid::new("lease_token", "missing", "is required").into()),
        }
    }

    /// The job that the path names, as the caller may see it.
    pub(crate) async fn job(&self) -> Result<JobView, Problem> {
        self.view(self.job_id()?).await
    }

    /// A job as the caller may see it.
    pub(crate) async fn view(&self, id: JobId) -> Result<JobView, Problem> {
        match self.seen(id).await? {
            Some(view) => Ok(view),
            None => Err(self.missing(id).await?.into()),
        }
    }

    /// A job as the caller may see it; none if it is not in the store.
    pub(crate) async fn seen(&self, id: JobId) -> Result<Option<JobView>, Problem> {
        let view = self.store().job(id, None).await?;
        view.iter().try_for_each(|view| self.who.check_sees(&view.job.queue))?;
        Ok(view)
    }

    /// Why a job is not there: it was removed and its unique key is left, or it was never known. A key for some queues
    /// learns nothing of removed jobs, whose queue is not known any more.
    pub(crate) async fn missing(&self, id: JobId) -> Result<Refusal, Problem> {
        if self.who.is_for_some_queues() {
            return Ok(Refusal::NotFound);
        }
        Ok(self.store().purged(id, None).await?.map_or(Refusal::NotFound, Refusal::Purged))
    }

    /// A holder was refused. Whoever shows a lease that is over has deadlines looked at, so that a timeout is on record as
    /// soon as its worker knows of it.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.app.metrics.refused(refusal);
        if matches!(refusal, Refusal::Expired) {
            self.app.overdue.notify_one();
        }
    }

    /// Puts an operator's action on record. It has happened: that it could not be put on record is for the log, where the
    /// job's own history still names the actor.
    pub(crate) async fn audit(&self, actor: Actor, action: &str, target: String, detail: Metadata) {
        let written = match Name::parse("action", action) {
            Ok(action) => self.store().write_audit(WriteAudit { actor, action, target, detail }, None).await,
            Err(invalid) => Err(StoreError::Unavailable(invalid.to_string())),
        };
        if let Err(error) = written {
            tracing::error!(%error, action, "an action could not be put on record");
        }
    }

    /// Refuses a job of a queue that is not the caller's. Only keys for some queues cost a look.
    pub(crate) async fn check_job(&self, id: JobId) -> Result<(), Problem> {
        if self.who.is_for_some_queues() {
            self.view(id).await?;
        }
        Ok(())
    }
}

/// A lease token. A text that cannot be one becomes a token that no lease has: it is as wrong as any other, and which
/// refusal comes first is for the store to say.
pub(crate) fn lease_token(text: &str) -> Result<Token, Invalid> {
    Token::parse(text).or_else(|_| Token::parse(&hex(&Sha256::digest(text.as_bytes())[..16])))
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer does not become JSON; this is a bug");
        Problem::new(crate::codes::INTERNAL, "the answer could not be written; it is in the log")
    })?;
    Ok(json_bytes(status, body))
}

/// An answer in JSON that is written already.
pub(crate) fn json_bytes(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 200 with JSON.
pub(crate) fn ok(value: &impl Serialize) -> Reply {
    json(StatusCode::OK, value)
}
