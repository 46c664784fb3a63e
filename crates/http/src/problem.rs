//! What a refusal looks like: RFC 9457 problem+json with a stable code.

use crate::codes::{self, Code};
use crate::request_id::RequestId;
use crate::writes::Why;
use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass_core::{Invalid, Refusal};
use windlass_engine::logs::ReadLogsError;
use windlass_store::{BatchRefusal, StoreError};

/// Why a request was not carried out. Boxed, because every handler can answer one.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: Code,
    detail: String,
    more: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Set when the store failed and nothing was changed.
    of_store: Option<Why>,
}

/// A problem as it is sent (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
#[allow(dead_code, reason = "the shape for the document; problems are written with more members than these")]
pub(crate) struct ProblemShape {
    /// Where the page of the code is.
    r#type: String,
    /// What the code says, in short.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened here, and what to do.
    detail: String,
    /// The stable code.
    code: String,
    /// The id of the request, to find it in logs.
    request_id: String,
}

impl Problem {
    /// A problem of this code.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let (detail, more, headers) = (detail.into(), Map::new(), Vec::new());
        Self(Box::new(Inner { code, detail, more, headers, of_store: None }))
    }

    /// With one more member.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(member.to_owned(), value.into());
        self
    }

    /// With a header.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers.push((name, value));
        }
        self
    }

    /// Its code.
    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// Why the store failed, if it did.
    pub(crate) fn of_store(&self) -> Option<Why> {
        self.0.of_store
    }

    /// What happened.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The answer.
    pub(crate) fn respond(self, id: &RequestId) -> Response<Body> {
        let Inner { code, detail, more, headers, .. } = *self.0;
        let mut body = Map::new();
        body.insert("type".into(), format!("/errors/{}", code.code).into());
        body.insert("title".into(), code.title.into());
        body.insert("status".into(), code.status.into());
        body.insert("detail".into(), detail.into());
        body.insert("code".into(), code.code.into());
        body.insert("request_id".into(), id.as_str().into());
        body.extend(more);
        let mut response = Response::new(Body::from(Value::Object(body).to_string()));
        *response.status_mut() =
            StatusCode::from_u16(code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = codes::find(refusal.code()).unwrap_or(codes::INTERNAL);
        let problem = Self::new(code, refusal.to_string());
        match refusal {
            Refusal::Finished(status) | Refusal::NotLeased(status) | Refusal::NotClaimable(status) => {
                problem.with("job_status", status.as_str())
            }
            Refusal::NotFinished(status) => problem.with("job_status", status.as_str()),
            Refusal::Purged(tombstone) => {
                let problem = problem.with("job_status", tombstone.status.as_str());
                match tombstone.archive {
                    Some(archive) => problem.with("archive", archive),
                    None => problem,
                }
            }
            Refusal::VersionMismatch(version) | Refusal::SettingsChanged(version) => {
                problem.with("current_version", version)
            }
            Refusal::KeyReused(version) | Refusal::StepRecorded(version) => problem.with("version", version),
            Refusal::UniqueTaken(job) | Refusal::ParentNotFound(job) => {
                problem.with("job_id", job.to_string())
            }
            Refusal::Invalid(Invalid { field, value, limit }) => {
                problem.with("field", field).with("value", value).with("limit", limit)
            }
            Refusal::Busy => problem.header(header::RETRY_AFTER, "1"),
            Refusal::LaneFull { queue, key, waiting } => {
                let problem = problem.with("queue", queue.to_string()).with("key", key.to_string());
                problem.with("waiting", waiting).header(header::RETRY_AFTER, "1")
            }
            _ => problem,
        }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Refusal::Invalid(invalid).into()
    }
}

impl From<BatchRefusal> for Problem {
    fn from(BatchRefusal { index, refusal }: BatchRefusal) -> Self {
        let mut problem = Self::from(refusal).with("index", index);
        problem.0.detail = format!("item {index}: {}; nothing was written", problem.0.detail);
        problem
    }
}

impl From<StoreError> for Problem {
    /// What the store says of itself is for the log, not for whoever asks.
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store failed");
        if let StoreError::Busy(_) = error {
            return Refusal::Busy.into();
        }
        if let StoreError::Corrupt { job: Some(job), why } = &error {
            return Self::from(Refusal::Unreadable(why.clone())).with("job_id", job.to_string());
        }
        let why = Why::of(&error);
        let mut problem = if error.is_unknown() {
            Self::new(
                codes::OUTCOME_UNKNOWN,
                "the change may or may not have happened; send the very same request again to learn which",
            )
        } else {
            Self::new(
                codes::UNAVAILABLE,
                format!("nothing was changed; {}; then send it again", why.advice()),
            )
        };
        // A change that may have happened is no change that was refused: a commit whose standby is stuck ends like this.
        let is_refusal = !error.is_of_one_request() && !error.is_unknown();
        problem.0.of_store = is_refusal.then_some(why);
        problem.header(header::RETRY_AFTER, "1")
    }
}

impl From<ReadLogsError> for Problem {
    fn from(error: ReadLogsError) -> Self {
        let told = error.to_string();
        match error {
            ReadLogsError::Store(error) => error.into(),
            ReadLogsError::Away { part, .. } => Self::new(codes::ARCHIVE_UNAVAILABLE, told)
                .with("archive", part.part)
                .with("first", part.first)
                .with("last", part.last),
            _ => Self::new(codes::INTERNAL, told),
        }
    }
}
