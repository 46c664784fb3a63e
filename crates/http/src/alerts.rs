//! Alerts: made, shown, removed. For keys of every queue.

use crate::call::{Call, Reply, ok};
use crate::papers::{all, remove};
use crate::wire::alert::{AlertBody, AlertShape, AlertsPage};
use windlass_core::alert::AlertState;
use windlass_core::limits::Invalid;
use windlass_core::paper::KIND_MAX;
use windlass_core::{Name, Refusal};
use windlass_store::{PaperKind, PutPaper};

/// `GET /v1/alerts`
pub(crate) async fn alerts(call: Call) -> Reply {
    let papers = all(&call, PaperKind::Alert, KIND_MAX).await?;
    let read = papers.iter().rev().filter_map(|paper| Some((paper, AlertState::read(paper).ok()?)));
    ok(&AlertsPage { alerts: read.map(|(paper, state)| AlertShape::of(paper, state)).collect() })
}

/// `PUT /v1/alerts/{name}`: one that is written anew begins anew.
pub(crate) async fn put(call: Call) -> Reply {
    let body: AlertBody = call.body()?;
    let name = Name::parse("name", call.segment("name"))?;
    let expected_version = body.expected_version;
    let alert = body.resolve()?;
    let kept = all(&call, PaperKind::Alert, KIND_MAX).await?;
    if let Some(through) = &alert.notify
        && call.store().subscription(through.clone(), None).await?.is_none()
    {
        return Err(Refusal::SubscriptionNotFound(through.to_string()).into());
    }
    let before = kept.iter().find(|paper| paper.name == name);
    if before.is_none() && kept.len() >= KIND_MAX {
        let limit = format!("there are {KIND_MAX} alerts; remove one first");
        return Err(Invalid::new("name", &name, limit).into());
    }
    let same = before.and_then(|paper| Some((paper, AlertState::read(paper).ok()?)));
    if let Some((paper, state)) = same.filter(|(_, state)| state.alert == alert) {
        return ok(&AlertShape::of(paper, state));
    }
    let state = AlertState::new(alert);
    let request = PutPaper {
        kind: PaperKind::Alert,
        name,
        body: serde_json::to_value(&state).unwrap_or_default(),
        expected_version,
        term: None,
        action: Some("alert.put"),
        actor: call.actor(),
    };
    ok(&AlertShape::of(&call.store().put_paper(request, None).await??, state))
}

/// `DELETE /v1/alerts/{name}`
pub(crate) async fn remove_alert(call: Call) -> Reply {
    remove(&call, PaperKind::Alert, "alert.remove", call.segment("name")).await
}
