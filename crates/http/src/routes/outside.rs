//! Routes of events from outside, and of settings.

use super::{LIMIT, O, P, VO, delete, get, post, put};
use crate::route::{Access, Is, Route, param};
use crate::wire::subscription::{PauseBody, SubscriptionBody};
use crate::wire::trigger::{EventBody, TriggerBody};
use crate::{settings, subscriptions, triggers, webhooks};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get("/v1/triggers", "triggers, by name", triggers::triggers)
            .may(VO)
            .gives::<triggers::TriggersPage>(200),
        get("/v1/triggers/{name}", "one trigger", triggers::trigger)
            .may(VO)
            .gives::<triggers::TriggerShape>(200)
            .refuses(&["trigger_not_found"]),
        put("/v1/triggers/{name}", "make or change a trigger", triggers::put)
            .may(O)
            .takes::<TriggerBody>()
            .gives::<triggers::TriggerShape>(200)
            .refuses(&["version_mismatch"]),
        delete("/v1/triggers/{name}", "remove a trigger; its jobs stay", triggers::remove)
            .may(O)
            .gives::<triggers::Removed>(200)
            .refuses(&["trigger_not_found"]),
        post("/v1/triggers/{name}", "send a trigger an event", triggers::fire)
            .may(P)
            .takes::<EventBody>()
            .gives::<triggers::Fired>(200)
            .gives::<triggers::Fired>(201)
            .gives::<triggers::Fired>(202)
            .creates()
            .refuses(&["trigger_not_found", "idempotency_key_reused"]),
        post(
            "/v1/triggers/{name}/secret",
            "make the secret of its webhooks; the last one ends in a day",
            triggers::secret,
        )
        .may(O)
        .gives::<triggers::MadeSecret>(201)
        .refuses(&["trigger_not_found"]),
        get("/v1/triggers/{name}/events", "events of a trigger, newest first", triggers::events)
            .may(VO)
            .asks([
                param("unprocessed", Is::Flag, "only what could not be processed yet, oldest first"),
                LIMIT,
            ])
            .gives::<triggers::EventsPage>(200)
            .refuses(&["trigger_not_found"]),
        post("/v1/webhooks/{name}", "send a trigger a signed webhook", webhooks::take)
            .open_to(Access::Everybody)
            .strangers_send(webhooks::MAX_BYTES)
            .takes::<webhooks::WebhookBody>()
            .gives::<webhooks::Taken>(200)
            .refuses(&["signature_refused", "too_many_requests", "request_too_large"]),
        get("/v1/subscriptions", "subscriptions, by name", subscriptions::subscriptions)
            .may(VO)
            .gives::<subscriptions::SubscriptionsPage>(200),
        get("/v1/subscriptions/{name}", "one subscription", subscriptions::subscription)
            .may(VO)
            .gives::<subscriptions::SubscriptionShape>(200)
            .refuses(&["subscription_not_found"]),
        put("/v1/subscriptions/{name}", "make or change a subscription", subscriptions::put)
            .may(O)
            .takes::<SubscriptionBody>()
            .gives::<subscriptions::SubscriptionShape>(200)
            .refuses(&["version_mismatch"]),
        delete("/v1/subscriptions/{name}", "remove a subscription with its place", subscriptions::remove)
            .may(O)
            .gives::<subscriptions::Removed>(200)
            .refuses(&["subscription_not_found"]),
        post("/v1/subscriptions/{name}/pause", "pause a subscription", subscriptions::pause)
            .may(O)
            .takes::<PauseBody>()
            .gives::<subscriptions::SubscriptionShape>(200)
            .refuses(&["subscription_not_found"]),
        post(
            "/v1/subscriptions/{name}/resume",
            "resume a subscription, from where it stands",
            subscriptions::resume,
        )
        .may(O)
        .gives::<subscriptions::SubscriptionShape>(200)
        .refuses(&["subscription_not_found"]),
        get("/v1/settings", "the settings of the store", settings::settings)
            .may(VO)
            .gives::<settings::SettingsShape>(200),
        put("/v1/settings", "put settings in force", settings::put)
            .may(O)
            .takes::<crate::wire::settings::SettingsBody>()
            .gives::<settings::SettingsShape>(200)
            .refuses(&["version_mismatch"]),
    ]
}
