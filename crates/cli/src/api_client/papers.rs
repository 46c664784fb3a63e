//! Operations, alerts and marks.

use super::ApiClient;
use crate::fail::Outcome;
use crate::shape::Reply;
use crate::wire::encoded;
use serde_json::{Value, json};
use windlass_http::wire::paper::MarkBody;

impl ApiClient {
    /// `{operations, next_cursor}`
    pub async fn operations(&self, limit: u16) -> Outcome<Reply> {
        self.get("/v1/operations", &[("limit", limit.to_string())]).await
    }

    /// The operation.
    pub async fn stop_operation(&self, id: &str) -> Outcome<Reply> {
        self.post(&format!("/v1/operations/{}/stop", encoded(id)), &json!({})).await
    }

    /// `{alerts}`
    pub async fn alerts(&self) -> Outcome<Reply> {
        self.get("/v1/alerts", &[]).await
    }

    /// The alert. What is not said is left out.
    pub async fn put_alert(&self, name: &str, mut body: Value) -> Outcome<Reply> {
        body.as_object_mut().into_iter().for_each(|fields| fields.retain(|_, value| !value.is_null()));
        self.put(&format!("/v1/alerts/{}", encoded(name)), &body).await
    }

    /// `{removed}`
    pub async fn remove_alert(&self, name: &str) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/alerts/{}", encoded(name)), None).await
    }

    /// `{marks}`
    pub async fn marks(&self, limit: u16) -> Outcome<Reply> {
        self.get("/v1/marks", &[("limit", limit.to_string())]).await
    }

    /// The mark.
    pub async fn put_mark(&self, text: &str) -> Outcome<Reply> {
        self.post("/v1/marks", &MarkBody { text: text.to_owned(), at: None }).await
    }

    /// `{removed}`
    pub async fn remove_mark(&self, id: &str) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/marks/{}", encoded(id)), None).await
    }
}
