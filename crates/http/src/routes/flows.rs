//! Routes of flows.

use super::{P, V, get, post};
use crate::route::Route;
use crate::{flows, wire};
use windlass_core::Role;

const VW: &[Role] = &[Role::Viewer, Role::Worker];

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/flows", "make jobs that wait for each other, all or none", flows::create)
            .may(P)
            .takes::<wire::flow::FlowBody>()
            .gives::<wire::flow::MadeFlow>(201)
            .creates()
            .refuses(&["job_exists", "upstream_not_found", "lane_full", "idempotency_key_reused"]),
        post("/v1/jobs/{id}/children", "add jobs to an open flow, all or none", flows::children)
            .may(P)
            .takes::<wire::flow::NodesBody>()
            .gives::<wire::flow::MadeFlow>(201)
            .creates()
            .refuses(&[
                "not_found",
                "flow_not_open",
                "job_exists",
                "upstream_not_found",
                "idempotency_key_reused",
            ]),
        post("/v1/jobs/{id}/seal", "let an open flow take no more jobs", flows::seal)
            .may(P)
            .gives::<wire::operate::OneJob>(200)
            .refuses(&["not_found", "flow_not_open", "job_finished"]),
        get("/v1/jobs/{id}/graph", "the jobs of a flow and who waits for whom", flows::graph)
            .may(V)
            .gives::<wire::flow::GraphShape>(200)
            .refuses(&["not_found", "job_purged"]),
        get("/v1/jobs/{id}/upstream", "what a job waited for, with the results", flows::upstream)
            .may(VW)
            .or_lease()
            .gives::<wire::flow::UpstreamPage>(200)
            .refuses(&["not_found", "job_purged"]),
    ]
}
