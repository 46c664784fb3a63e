//! The table of routes. The router, the roles and the document are made from it; `docs/api.md` is compared with it.

mod finished;
mod flows;
mod lanes;
mod outside;
mod papers;

use crate::feed::FeedPageShape;
use crate::route::{Access, Is, Param, Route, param};
use crate::wire;
use crate::{
    append, approve, claim, enqueue, feed, health, keys, lease, list, now, openapi, operate, pages, problems,
    queues, schedules, schedules_bulk, settle, stats, workers,
};
use axum::http::Method;
use windlass_core::Role;
use wire::filter::{DATED, STANDING};

const V: &[Role] = &[Role::Viewer];
const P: &[Role] = &[Role::Producer];
const W: &[Role] = &[Role::Worker];
const A: &[Role] = &[Role::Approver];
const O: &[Role] = &[Role::Operator];
const PW: &[Role] = &[Role::Producer, Role::Worker];
const PO: &[Role] = &[Role::Producer, Role::Operator];
const VO: &[Role] = &[Role::Viewer, Role::Operator];
const WO: &[Role] = &[Role::Worker, Role::Operator];

/// What every verb of a holder is refused with, in the order that is law.
const HELD: &[&str] = &["not_found", "job_finished", "not_leased", "lease_expired", "lease_mismatch"];

const LIMIT: Param = param("limit", Is::Number, "at most so many, up to 1000");
const CURSOR: Param = param("cursor", Is::Text, "where the last page ended");
const UNIQUE_KEY: Param = param(
    "unique_key",
    Is::Text,
    "the job that holds this key, in the queue or of the kind that is named too",
);
const PROBLEM: Param = param("problem", Is::Text, "whose last error is of this problem");
const AFTER: Param = param("after", Is::Text, "resumes after this cursor; without it the feed starts now");
const WAIT: Param = param("wait", Is::Span, "how long to wait for something new, at most 60 s; JSON only");
const PAYLOAD: Param = param("payload", Is::Flag, "false leaves payloads out");
const EVERY: Param = param(
    "every",
    Is::Span,
    "tell at most so often, at most 10 s, and of each job only the newest event; `skipped` says how many were left out; streams only",
);
const TYPE: Param =
    Param { name: "type", is_a: Is::Text, about: "only events of these types", is_many: true };

fn get<F>(path: &'static str, about: &'static str, handler: fn(crate::call::Call) -> F) -> Route
where
    F: Future<Output = crate::call::Reply> + Send + 'static,
{
    Route::new(Method::GET, path, about, handler)
}

fn post<F>(path: &'static str, about: &'static str, handler: fn(crate::call::Call) -> F) -> Route
where
    F: Future<Output = crate::call::Reply> + Send + 'static,
{
    Route::new(Method::POST, path, about, handler)
}

fn put<F>(path: &'static str, about: &'static str, handler: fn(crate::call::Call) -> F) -> Route
where
    F: Future<Output = crate::call::Reply> + Send + 'static,
{
    Route::new(Method::PUT, path, about, handler)
}

fn delete<F>(path: &'static str, about: &'static str, handler: fn(crate::call::Call) -> F) -> Route
where
    F: Future<Output = crate::call::Reply> + Send + 'static,
{
    Route::new(Method::DELETE, path, about, handler)
}

/// Every route, in the order of a job's life.
pub fn table() -> Vec<Route> {
    let mut routes = jobs();
    routes.extend(flows::routes().into_iter().chain(lanes::routes()).chain(operators()));
    routes.extend(holders());
    routes.extend(approvals());
    routes.extend(surroundings());
    routes.extend(outside::routes().into_iter().chain(papers::routes()));
    routes.extend(watchers());
    routes
}

fn jobs() -> Vec<Route> {
    vec![
        post("/v1/jobs", "enqueue a job", enqueue::enqueue)
            .may(P)
            .takes::<wire::new_job::NewJobShape>()
            .gives::<wire::enqueue::EnqueuedShape>(201)
            .gives::<wire::enqueue::EnqueuedShape>(200)
            .creates()
            .refuses(&[
                "job_exists",
                "parent_not_found",
                "upstream_not_found",
                "lane_full",
                "idempotency_key_reused",
            ]),
        post("/v1/jobs/batch", "enqueue many jobs, all or none", enqueue::batch)
            .may(P)
            .takes::<wire::enqueue::Batch>()
            .gives::<enqueue::BatchAnswer>(201)
            .creates()
            .refuses(&[
                "job_exists",
                "parent_not_found",
                "upstream_not_found",
                "lane_full",
                "idempotency_key_reused",
            ]),
        get("/v1/jobs", "list jobs", list::jobs)
            .may(V)
            .asks(STANDING)
            .asks(DATED)
            .asks([UNIQUE_KEY, PROBLEM, LIMIT, CURSOR])
            .gives::<wire::job::JobsPage>(200)
            .refuses(&["problem_not_found"]),
        get("/v1/jobs/{id}", "one job, now or as it stood", list::job)
            .may(V)
            .asks([param("at_version", Is::Number, "as it stood at this version")])
            .gives::<wire::job::JobShape>(200)
            .refuses(&["not_found", "job_purged"]),
        get("/v1/jobs/{id}/events", "the log of a job", list::events)
            .may(V)
            .asks([
                param("after", Is::Number, "after this version; before it when newest first"),
                LIMIT,
                param("order", Is::Text, "asc or desc"),
            ])
            .gives::<wire::event::EventsPage>(200)
            .refuses(&["not_found", "job_purged"]),
        post("/v1/jobs/{id}/events", "append to the log of a job", append::append)
            .may(PW)
            .or_lease()
            .takes::<wire::append::Note>()
            .gives::<append::Written>(201)
            .gives::<append::Written>(200)
            .creates()
            .refuses(&[
                "version_mismatch",
                "event_type_reserved",
                "lease_required",
                "lease_expired",
                "lease_mismatch",
            ]),
        get("/v1/jobs/{id}/logs", "the log lines of a job", append::logs)
            .may(V)
            .asks([param("after", Is::Number, "after this line"), LIMIT])
            .gives::<wire::event::LogsPage>(200)
            .refuses(&["not_found", "job_purged", "archive_unavailable"]),
        get("/v1/jobs/{id}/feed", "the events of a job as they come", feed::job_feed)
            .may(V)
            .asks([
                param("after", Is::Number, "resumes after this version; without it the feed starts now"),
                LIMIT,
                WAIT,
            ])
            .gives_other(200, "text/event-stream")
            .gives::<FeedPageShape>(200)
            .refuses(&["not_found"]),
    ]
}

fn operators() -> Vec<Route> {
    vec![
        post("/v1/jobs/{id}/cancel", "cancel a job", operate::cancel)
            .may(PO)
            .takes::<wire::operate::CancelBody>()
            .gives::<wire::operate::OneJob>(200)
            .gives::<wire::operate::OneJob>(202)
            .refuses(&["not_found", "job_finished", "version_mismatch"]),
        finished::redrive(),
        post("/v1/jobs/{id}/fork", "a new job with the log of another up to a version", operate::fork)
            .may(O)
            .takes::<wire::operate::ForkBody>()
            .gives::<wire::operate::OneJob>(201)
            .creates()
            .refuses(&["not_found", "version_mismatch", "job_erased"]),
        finished::erase(),
        post("/v1/jobs/{id}/signal", "signal a job", operate::signal)
            .may(P)
            .takes::<wire::operate::SignalBody>()
            .gives::<wire::operate::Signalled>(200)
            .creates()
            .refuses(&["not_found", "job_finished", "key_reused"]),
    ]
}

fn holders() -> Vec<Route> {
    vec![
        post("/v1/claim", "take due jobs", claim::claim)
            .may(W)
            .takes::<wire::claim::ClaimBody>()
            .gives::<wire::claim::ClaimedJobs>(200),
        post("/v1/jobs/{id}/claim", "take one job by its id", claim::claim_one)
            .may(W)
            .takes::<wire::claim::ClaimOneBody>()
            .gives::<wire::operate::OneJob>(200)
            .refuses(&["not_found", "job_finished", "not_claimable"]),
        post("/v1/jobs/{id}/start", "start a job that was assigned to this worker", claim::start)
            .may(W)
            .takes::<wire::claim::StartBody>()
            .gives::<wire::operate::OneJob>(200)
            .refuses(&["not_found", "job_finished", "not_assigned"]),
        post("/v1/heartbeat", "renew leases", lease::heartbeat)
            .may(W)
            .or_lease()
            .takes::<wire::claim::Heartbeat>()
            .gives::<wire::claim::Renewed>(200),
        post("/v1/settle", "end attempts, each for itself", settle::settle)
            .may(W)
            .takes::<wire::settle::SettleBody>()
            .gives::<wire::settle::SettledMany>(200),
        post("/v1/jobs/{id}/complete", "end an attempt: done", settle::complete)
            .may(W)
            .or_lease()
            .takes::<wire::settle::CompleteBody>()
            .gives::<wire::settle::Settled>(200)
            .refuses(HELD),
        post("/v1/jobs/{id}/fail", "end an attempt: failed", settle::fail)
            .may(W)
            .or_lease()
            .takes::<wire::settle::FailBody>()
            .gives::<wire::settle::Settled>(200)
            .refuses(HELD),
        post("/v1/jobs/{id}/release", "give a job back without using a retry", settle::release)
            .may(W)
            .or_lease()
            .takes::<wire::settle::ReleaseBody>()
            .gives::<wire::settle::Settled>(200)
            .refuses(HELD),
        post("/v1/jobs/{id}/wait", "let a job wait, holding no worker", settle::wait)
            .may(W)
            .or_lease()
            .takes::<wire::settle::WaitBody>()
            .gives::<wire::settle::Settled>(200)
            .refuses(&[
                "job_finished",
                "not_leased",
                "lease_expired",
                "lease_mismatch",
                "approval_not_found",
            ]),
        post("/v1/jobs/{id}/progress", "report progress, stage, metadata and checkpoint", lease::progress)
            .may(W)
            .or_lease()
            .takes::<wire::append::ProgressBody>()
            .gives::<append::Written>(200)
            .refuses(HELD),
        post("/v1/jobs/{id}/logs", "write log lines", append::write_logs)
            .may(W)
            .or_lease()
            .takes::<wire::claim::LogsBody>()
            .gives::<append::LogsWritten>(201)
            .refuses(HELD),
        get("/v1/jobs/{id}/steps", "what a resumed run must not do again", append::steps)
            .may(W)
            .or_lease()
            .gives::<append::RecordedShape>(200)
            .refuses(&["not_found", "lease_mismatch"]),
        put("/v1/jobs/{id}/steps/{name}", "record that a step began or ended", append::put_step)
            .may(W)
            .or_lease()
            .takes::<wire::append::StepBody>()
            .gives::<append::Written>(200)
            .refuses(&[
                "step_recorded",
                "not_found",
                "job_finished",
                "not_leased",
                "lease_expired",
                "lease_mismatch",
            ]),
    ]
}

fn approvals() -> Vec<Route> {
    vec![
        post("/v1/jobs/{id}/approvals", "ask for an approval", approve::ask)
            .may(W)
            .or_lease()
            .takes::<wire::approval::AskBody>()
            .gives::<wire::approval::AskedShape>(201)
            .creates()
            .refuses(HELD),
        get("/v1/approvals", "list approvals, newest first", approve::approvals)
            .may(V)
            .asks([
                param("status", Is::Text, "standing here now"),
                param("job_id", Is::Id, "of this job"),
                LIMIT,
                CURSOR,
            ])
            .gives::<wire::approval::ApprovalsPage>(200),
        get("/v1/approvals/{id}", "one approval", approve::approval)
            .may(V)
            .gives::<wire::approval::ApprovalShape>(200)
            .refuses(&["approval_not_found"]),
        post("/v1/approvals/by-token", "the question of an approval link", approve::by_token)
            .open_to(Access::Everybody)
            .takes::<wire::approval::ByToken>()
            .gives::<approve::Question>(200)
            .refuses(&["approval_not_found", "approval_forbidden", "token_malformed", "too_many_requests"]),
        post("/v1/approvals/{id}/decide", "vote on an approval", approve::decide)
            .may(A)
            .or_link()
            .takes::<wire::control::DecideBody>()
            .gives::<approve::Decided>(200)
            .refuses(&[
                "approval_not_found",
                "approval_decided",
                "approval_expired",
                "approval_forbidden",
                "token_malformed",
                "too_many_requests",
            ]),
    ]
}

fn surroundings() -> Vec<Route> {
    vec![
        get("/v1/queues", "queues: what is due, since when, rates, defaults", queues::queues)
            .may(V)
            .gives::<wire::registry::QueuesPage>(200),
        put("/v1/queues/{queue}", "set what a queue's jobs fall back to", queues::put)
            .may(O)
            .takes::<wire::control::QueueBody>()
            .gives::<wire::registry::OneQueue>(200),
        post("/v1/queues/{queue}/pause", "pause a queue", queues::pause)
            .may(O)
            .gives::<wire::registry::OneQueue>(200),
        post("/v1/queues/{queue}/resume", "resume a queue", queues::resume)
            .may(O)
            .gives::<wire::registry::OneQueue>(200),
        get("/v1/schedules", "schedules, by name", schedules::schedules)
            .may(V)
            .gives::<wire::schedule::SchedulesPage>(200),
        get("/v1/schedules/{name}", "one schedule", schedules::schedule)
            .may(V)
            .gives::<wire::schedule::ScheduleShape>(200)
            .refuses(&["schedule_not_found"]),
        put("/v1/schedules/{name}", "make or change a schedule", schedules::put)
            .may(O)
            .takes::<wire::schedule::ScheduleBody>()
            .gives::<wire::schedule::ScheduleShape>(200)
            .refuses(&["version_mismatch"]),
        delete("/v1/schedules/{name}", "remove a schedule; its jobs stay", schedules::remove)
            .may(O)
            .gives::<schedules::Removed>(200)
            .refuses(&["schedule_not_found"]),
        get("/v1/schedules/{name}/next", "the slots ahead", schedules::next)
            .may(V)
            .asks([param("n", Is::Number, "so many, up to 1000; 10")])
            .gives::<schedules::NextSlots>(200)
            .refuses(&["schedule_not_found"]),
        post("/v1/schedules/{name}/trigger", "enqueue its job now, beside its slots", schedules::trigger)
            .may(O)
            .gives::<schedules::Triggered>(201)
            .creates()
            .refuses(&["schedule_not_found"]),
        post("/v1/schedules/{name}/pause", "pause a schedule", schedules::pause)
            .may(O)
            .gives::<wire::schedule::ScheduleShape>(200)
            .refuses(&["schedule_not_found"]),
        post("/v1/schedules/{name}/resume", "resume a schedule, from its next slot on", schedules::resume)
            .may(O)
            .gives::<wire::schedule::ScheduleShape>(200)
            .refuses(&["schedule_not_found"]),
        post("/v1/schedules/{name}/backfill", "enqueue slots of the past", schedules_bulk::backfill)
            .may(O)
            .takes::<wire::schedule::BackfillBody>()
            .gives::<schedules_bulk::Backfilled>(200)
            .gives::<schedules_bulk::Backfilled>(201)
            .creates()
            .refuses(&["schedule_not_found"]),
        put("/v1/schedules", "make the schedules what a file says, all or none", schedules_bulk::apply)
            .may(O)
            .takes::<wire::schedule::ApplyBody>()
            .gives::<schedules_bulk::AppliedPage>(200),
        get("/v1/leader", "who leads", schedules::leader).may(V).gives::<schedules::LeaderShape>(200),
        get("/v1/workers", "workers that reported themselves", workers::workers)
            .may(V)
            .gives::<wire::registry::WorkersPage>(200),
        put("/v1/workers/{id}", "report oneself, or tell a worker to take no more", workers::put)
            .may(WO)
            .takes::<wire::control::WorkerBody>()
            .gives::<wire::registry::OneWorker>(200)
            .refuses(&["not_found"]),
        get("/v1/audit", "what operators did, newest first", workers::audit)
            .may(V)
            .asks([
                param("actor", Is::Text, "by this actor"),
                param("action", Is::Text, "only this action"),
                param("target", Is::Text, "done to this"),
                param("since", Is::Time, "at or after"),
                param("until", Is::Time, "before"),
                LIMIT,
                CURSOR,
            ])
            .gives::<wire::registry::AuditPage>(200),
        get("/v1/keys", "access keys", keys::keys).gives::<wire::registry::KeysPage>(200),
        post("/v1/keys", "make an access key", keys::make)
            .takes::<wire::control::NewKey>()
            .gives::<wire::registry::MadeKey>(201)
            .refuses(&["forbidden", "key_exists"]),
        delete("/v1/keys/{name}", "take an access key back", keys::revoke)
            .gives::<wire::registry::OneKey>(200)
            .refuses(&["not_found"]),
        get("/v1/session", "who is signed in", keys::session)
            .open_to(Access::AnyKey)
            .gives::<keys::Session>(200),
        post("/v1/session", "sign in a browser with a key", keys::sign_in)
            .open_to(Access::Everybody)
            .takes::<wire::control::SignIn>()
            .gives::<keys::Session>(201)
            .refuses(&["unauthorized", "origin_refused", "https_required", "too_many_requests"]),
        delete("/v1/session", "sign out", keys::sign_out).open_to(Access::Everybody).gives_other(204, ""),
    ]
}

fn watchers() -> Vec<Route> {
    let open = |route: Route| route.open_to(Access::Everybody);
    vec![
        get("/v1/now", "how everything stands at this moment", now::now).may(V).gives::<now::NowShape>(200),
        get("/v1/stats", "how much happened over time, and how long it took", stats::stats)
            .may(V)
            .asks([
                param("from", Is::Time, "from this moment on; an hour before `to`"),
                param("to", Is::Time, "up to this moment; now"),
                param("step", Is::Span, "in steps of whole minutes, at most 360; about 60 of them"),
                Param {
                    name: "by",
                    is_a: Is::Text,
                    about: "a series for each queue, kind or outcome, or several behind commas",
                    is_many: true,
                },
                param("queue", Is::Text, "in this queue"),
                param("kind", Is::Text, "of this kind"),
            ])
            .gives::<stats::StatsShape>(200),
        post("/v1/stats/rebuild", "count what is in the log again", stats::rebuild)
            .may(O)
            .takes::<wire::stats::RebuildBody>()
            .gives::<stats::Rebuilding>(202),
        get("/v1/problems", "errors grouped by what they are, last seen first", problems::problems)
            .may(V)
            .asks([
                param("state", Is::Text, "open, resolved or muted"),
                param("kind", Is::Text, "of this kind"),
                LIMIT,
                CURSOR,
            ])
            .gives::<problems::ProblemsPage>(200),
        get("/v1/problems/{fingerprint}", "one problem", problems::problem)
            .may(V)
            .gives::<problems::ProblemShape>(200)
            .refuses(&["problem_not_found"]),
        put("/v1/problems/{fingerprint}", "open, resolve or mute a problem", problems::put)
            .may(O)
            .takes::<wire::stats::ProblemBody>()
            .gives::<problems::ProblemShape>(200)
            .refuses(&["problem_not_found"]),
        get("/v1/feed", "every event of every job as it comes", feed::feed)
            .may(V)
            .asks(STANDING)
            .asks([TYPE, AFTER, LIMIT, WAIT, PAYLOAD, EVERY])
            .gives_other(200, "text/event-stream")
            .gives::<FeedPageShape>(200)
            .refuses(&["cursor_expired"]),
        open(get("/healthz", "whether the process is alive", health::healthz)).gives::<health::Health>(200),
        open(get("/readyz", "whether the store answers and takes writes", health::readyz))
            .gives::<health::Health>(200),
        get("/metrics", "what is measured, for Prometheus", health::metrics)
            .may(V)
            .gives_other(200, "text/plain"),
        open(get("/openapi.json", "this document", openapi::openapi)).gives_other(200, "application/json"),
        open(get("/errors/{code}", "what a code means and what to do", pages::error_page))
            .gives_other(200, "text/markdown")
            .refuses(&["not_found"]),
        open(get("/", "the page", pages::index)).gives_other(200, "text/html"),
        open(get("/approve", "the page of an approval link", pages::approve)).gives_other(200, "text/html"),
        open(get("/static/{build}/{name}", "a file of the page", pages::file))
            .gives_other(200, "*/*")
            .refuses(&["route_not_found"]),
    ]
}
