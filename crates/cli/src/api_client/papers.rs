//! Operations, alerts and marks.

use super::{ApiClient, Pairs};
use crate::fail::Outcome;
use crate::shape::Reply;
use crate::wire::encoded;
use windlass_http::wire::alert::AlertBody;
use windlass_http::wire::paper::MarkBody;

impl ApiClient {
    /// `{operations, next_cursor}`
    pub async fn operations(&self, limit: u16) -> Outcome<Reply> {
        self.get("/v1/operations", &[("limit", limit.to_string())]).await
    }

    /// The operation.
    pub async fn stop_operation(&self, id: &str) -> Outcome<Reply> {
        self.act(&format!("/v1/operations/{}/stop", encoded(id))).await
    }

    /// `{alerts}`
    pub async fn alerts(&self) -> Outcome<Reply> {
        self.get("/v1/alerts", &[]).await
    }

    /// The alert.
    pub async fn put_alert(&self, name: &str, body: &AlertBody) -> Outcome<Reply> {
        self.put(&format!("/v1/alerts/{}", encoded(name)), body).await
    }

    /// `{removed}`
    pub async fn remove_alert(&self, name: &str) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/alerts/{}", encoded(name)), None).await
    }

    /// `{marks}`
    pub async fn marks(&self, within: &Pairs, limit: u16) -> Outcome<Reply> {
        let mut query: Vec<(&str, String)> = within.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        query.push(("limit", limit.to_string()));
        self.get("/v1/marks", &query).await
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
