//! Signed webhooks: whoever signs with the secret of a trigger may send it events, without a key.

use crate::app::known;
use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::triggers;
use crate::wire::raw::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::PAYLOAD_DEFAULT_BYTES;
use windlass_core::trigger::webhook::Signed;
use windlass_core::{Actor, Key, Metadata, Name, Payload, Refusal};
use windlass_store::{Ingest, fresh};

/// The largest webhook, in bytes.
pub(crate) const MAX_BYTES: usize = PAYLOAD_DEFAULT_BYTES;

/// A webhook: any JSON.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(as = Webhook)]
#[allow(
    dead_code,
    reason = "the shape for the document; the body is kept as it came, because that is what is signed"
)]
pub(crate) struct WebhookBody(Json);

/// That a webhook is kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WebhookTaken)]
pub(crate) struct Taken {
    /// The event that it became.
    #[schema(format = "uuid")]
    event: String,
    /// Whether a webhook with its id came before.
    deduped: bool,
}

/// `POST /v1/webhooks/{name}`
pub(crate) async fn take(call: Call) -> Reply {
    let trigger = Name::parse("name", call.segment("name"))?;
    let header = |name: &str| {
        let text = call.headers.get(name).and_then(|value| value.to_str().ok());
        let missing = || Refusal::SignatureRefused(format!("the header {name} is missing or not text"));
        text.ok_or_else(missing)
    };
    let settings = call.app.settings.now().await;
    let verified = async {
        let signed =
            Signed { id: header("webhook-id")?, timestamp: header("webhook-timestamp")?, body: &call.body };
        let signatures = header("webhook-signature")?;
        let secrets = call.store().trigger_secrets(trigger.clone(), None).await?;
        signed.verify(signatures, &secrets, settings.webhook_tolerance_ms, fresh::wall_clock())?;
        Ok::<_, Problem>(Key::parse("webhook-id", signed.id)?)
    };
    // Who signs right is never kept out by those who do not.
    let key = match verified.await {
        Ok(key) => key,
        Err(problem) => return Err(refused(&call, &trigger, problem).await),
    };
    call.app.throttle.webhook(&trigger, settings.webhooks_per_minute)?;
    let request = Ingest {
        dedupe_key: Some(key),
        payload: Some(Payload::json("the body", call.body.to_vec(), MAX_BYTES)?),
        actor: Actor::parse("actor", format!("webhook:{trigger}"))?,
        ..triggers::event(&call, trigger)
    };
    let taken = known(|| call.app.store.ingest(request.clone(), None)).await??;
    ok(&Taken { event: taken.event.id.to_string(), deduped: taken.deduped })
}

/// What a stranger with a wrong signature is answered. The first few are put on record; one that tries too often waits.
async fn refused(call: &Call, trigger: &Name, problem: Problem) -> Problem {
    if problem.code().status != 401 {
        return problem;
    }
    if let Err(too_many) = call.app.throttle.check_wrong(&call.caller) {
        return too_many;
    }
    call.app.throttle.wrong(&call.caller);
    if call.app.throttle.may_record()
        && let Ok(actor) = Actor::parse("actor", "webhook")
    {
        let detail = Metadata::from_iter([("why".to_owned(), problem.detail().into())]);
        call.audit(actor, "webhook.refused", trigger.to_string(), detail).await;
    }
    problem
}
