//! The stable codes: one table for statuses, titles and pages. A code is contract and never changes its meaning.

/// A stable code of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The word.
    pub code: &'static str,
    /// The HTTP status it comes with.
    pub status: u16,
    /// What it says, in short.
    pub title: &'static str,
    /// Its page: what it means, why, what to do.
    pub page: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $status:literal $title:literal)*) => {
        $(
            pub(crate) const $name: Code = Code {
                code: $code,
                status: $status,
                title: $title,
                page: include_str!(concat!("../../../docs/errors/", $code, ".md")),
            };
        )*

        /// Every stable code.
        pub const CODES: &[Code] = &[$($name),*];
    };
}

codes! {
    MALFORMED_JSON "malformed_json" 400 "the body is not JSON"
    MALFORMED_REQUEST "malformed_request" 400 "the request cannot be read"
    UNAUTHORIZED "unauthorized" 401 "a valid key is required"
    SIGNATURE_REFUSED "signature_refused" 401 "the webhook is not signed as it must be"
    FORBIDDEN "forbidden" 403 "the key may not do this"
    QUEUE_FORBIDDEN "queue_forbidden" 403 "the key is for other queues"
    HOST_REFUSED "host_refused" 403 "without a key, only local requests are served"
    ORIGIN_REFUSED "origin_refused" 403 "the request comes from another site"
    HTTPS_REQUIRED "https_required" 403 "signing in needs HTTPS"
    APPROVAL_FORBIDDEN "approval_forbidden" 403 "this voter has no vote here, or the link was replaced"
    NOT_FOUND "not_found" 404 "there is no such thing"
    ROUTE_NOT_FOUND "route_not_found" 404 "there is no such route"
    SCHEDULE_NOT_FOUND "schedule_not_found" 404 "there is no such schedule"
    TRIGGER_NOT_FOUND "trigger_not_found" 404 "there is no such trigger"
    SUBSCRIPTION_NOT_FOUND "subscription_not_found" 404 "there is no such subscription"
    PROBLEM_NOT_FOUND "problem_not_found" 404 "there is no such problem"
    APPROVAL_NOT_FOUND "approval_not_found" 404 "there is no such approval"
    METHOD_NOT_ALLOWED "method_not_allowed" 405 "the route has no such method"
    REQUEST_TIMEOUT "request_timeout" 408 "the body came too slowly"
    JOB_FINISHED "job_finished" 409 "the job has finished"
    NOT_LEASED "not_leased" 409 "nobody holds the job"
    LEASE_EXPIRED "lease_expired" 409 "the lease is over"
    LEASE_MISMATCH "lease_mismatch" 409 "the job is held under another lease"
    KEY_REUSED "key_reused" 409 "the event key stands for something else"
    VERSION_MISMATCH "version_mismatch" 409 "what is to be changed has moved on"
    JOB_EXISTS "job_exists" 409 "the id is taken by a job with another body"
    STEP_RECORDED "step_recorded" 409 "the step is on record with another value"
    JOB_NOT_FINISHED "job_not_finished" 409 "the job has not finished"
    JOB_COMPLETED "job_completed" 409 "the job is completed, which is final"
    JOB_ERASED "job_erased" 409 "the payload of the job was erased"
    UNIQUE_TAKEN "unique_taken" 409 "another job has taken the unique key"
    FLOW_NOT_OPEN "flow_not_open" 409 "the job is not an open flow"
    NOT_CLAIMABLE "not_claimable" 409 "the job cannot be taken now"
    NOT_ASSIGNED "not_assigned" 409 "the job is not assigned to this worker"
    STALE_EPOCH "stale_epoch" 409 "the leader's epoch is over"
    APPROVAL_DECIDED "approval_decided" 409 "the approval is decided, or this vote was cast"
    KEY_EXISTS "key_exists" 409 "the key's name is taken"
    APPROVAL_EXPIRED "approval_expired" 410 "the approval has expired"
    JOB_PURGED "job_purged" 410 "the job ended and was removed; it was archived, or its unique key is still taken"
    CURSOR_EXPIRED "cursor_expired" 410 "the cursor is of no use any more"
    REQUEST_TOO_LARGE "request_too_large" 413 "the request is too large"
    UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" 415 "bodies must be application/json"
    INVALID "invalid" 422 "a value is missing, of the wrong type or outside its limits"
    UNKNOWN_FIELD "unknown_field" 422 "there is no such field or parameter"
    UPSTREAM_NOT_FOUND "upstream_not_found" 422 "there is no such job to wait for"
    PARENT_NOT_FOUND "parent_not_found" 422 "there is no such parent"
    IDEMPOTENCY_KEY_REUSED "idempotency_key_reused" 422 "the idempotency key came with another request before"
    EVENT_TYPE_RESERVED "event_type_reserved" 422 "the event type is the engine's own"
    LEASE_REQUIRED "lease_required" 422 "the event type needs the holder's lease token"
    TOKEN_MALFORMED "token_malformed" 422 "the link token cannot be one"
    TOO_MANY_REQUESTS "too_many_requests" 429 "too many wrong attempts, or too much at once"
    LANE_FULL "lane_full" 429 "as many jobs of this key wait as may"
    INTERNAL "internal" 500 "the server made a mistake"
    JOB_UNREADABLE "job_unreadable" 500 "what is stored of the job does not read back"
    ARCHIVE_UNAVAILABLE "archive_unavailable" 503 "what is asked for is in the archive, which cannot be read here"
    JOB_BUSY "job_busy" 503 "another transaction keeps the job locked; send the same request again"
    OUTCOME_UNKNOWN "outcome_unknown" 503 "the answer was lost; send the same request again"
    UNAVAILABLE "unavailable" 503 "the store does not answer"
}

/// The code of this word.
pub(crate) fn find(word: &str) -> Option<Code> {
    CODES.iter().find(|code| code.code == word).copied()
}

/// What a stable code means, why it is told and what to do: the text of its page.
///
/// ```
/// assert!(windlass_http::explain("lease_expired").unwrap().starts_with("# lease_expired"));
/// assert!(windlass_http::explain("no_such_code").is_none());
/// ```
pub fn explain(code: &str) -> Option<&'static str> {
    find(code).map(|code| code.page)
}
