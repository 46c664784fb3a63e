//! Routes of what people keep beside the jobs (operations, views, alerts, marks), and of what is ahead: the calendar, and a
//! schedule that is only tried.

use super::{CURSOR, LIMIT, O, V, VO, delete, get, post, put};
use crate::route::{Is, Route, param};
use crate::wire::alert::{AlertBody, AlertShape, AlertsPage};
use crate::wire::operate::{BulkBody, BulkDone};
use crate::wire::operation::OperationShape;
use crate::wire::paper::{MarkBody, MarkShape, MarksPage, ViewBody, ViewShape, ViewsPage};
use crate::wire::schedule::ScheduleBody;
use crate::{alerts, bulk, calendar, operations, papers, schedules};

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/bulk", "cancel or redrive everything that a filter matches", bulk::bulk)
            .may(O)
            .takes::<BulkBody>()
            .gives::<BulkDone>(200)
            .gives::<OperationShape>(202)
            .creates()
            .refuses(&["not_found"]),
        get("/v1/operations", "what is done to many jobs, the latest first", operations::operations)
            .may(VO)
            .asks([LIMIT, CURSOR])
            .gives::<crate::wire::operation::OperationsPage>(200),
        get("/v1/operations/{id}", "one operation, and how far it is", operations::operation)
            .may(VO)
            .gives::<OperationShape>(200)
            .refuses(&["not_found"]),
        post("/v1/operations/{id}/stop", "stop an operation; what is over stays as it is", operations::stop)
            .may(O)
            .gives::<OperationShape>(200)
            .refuses(&["not_found"]),
        post(
            "/v1/schedules/{name}/preview",
            "when a schedule would fire if it were put so; nothing is written",
            schedules::preview,
        )
        .may(O)
        .asks([param("n", Is::Number, "so many, up to 1000; 10")])
        .takes::<ScheduleBody>()
        .gives::<schedules::NextSlots>(200)
        .refuses(&["version_mismatch"]),
        get("/v1/calendar", "what fires in a stretch of time, over all schedules", calendar::calendar)
            .may(V)
            .asks([param("from", Is::Time, "at or after; now"), param("to", Is::Time, "before; a day later")])
            .gives::<calendar::CalendarShape>(200),
        get("/v1/views", "saved filters, by name", papers::views).may(V).gives::<ViewsPage>(200),
        put("/v1/views/{name}", "save a filter for everybody", papers::put_view)
            .may(O)
            .takes::<ViewBody>()
            .gives::<ViewShape>(200)
            .refuses(&["version_mismatch"]),
        delete("/v1/views/{name}", "remove a saved filter", papers::remove_view)
            .may(O)
            .gives::<papers::Removed>(200)
            .refuses(&["not_found"]),
        get("/v1/alerts", "what should not last, and whether it does", alerts::alerts)
            .may(V)
            .gives::<AlertsPage>(200),
        put("/v1/alerts/{name}", "watch something", alerts::put)
            .may(O)
            .takes::<AlertBody>()
            .gives::<AlertShape>(200)
            .refuses(&["version_mismatch", "subscription_not_found"]),
        delete("/v1/alerts/{name}", "watch something no more", alerts::remove_alert)
            .may(O)
            .gives::<papers::Removed>(200)
            .refuses(&["not_found"]),
        get("/v1/marks", "what happened outside, such as deploys, the latest first", papers::marks)
            .may(V)
            .asks([param("from", Is::Time, "at or after"), param("to", Is::Time, "before"), LIMIT])
            .gives::<MarksPage>(200),
        post("/v1/marks", "mark a moment, as a deploy does", papers::put_mark)
            .may(O)
            .takes::<MarkBody>()
            .gives::<MarkShape>(201),
        delete("/v1/marks/{id}", "remove a mark", papers::remove_mark)
            .may(O)
            .gives::<papers::Removed>(200)
            .refuses(&["not_found"]),
    ]
}
