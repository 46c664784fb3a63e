//! A client of server-sent events, as the standard has it.

use super::soon;
use serde_json::Value;
use std::time::Duration;

/// An event as it came.
#[derive(Debug, Clone)]
pub struct SseEvent {
    pub id: String,
    pub data: Value,
}

/// A stream of events.
pub struct Events {
    response: reqwest::Response,
    buffer: String,
    /// The last event id, also of blocks without an event.
    pub last_id: String,
    /// How many comments came.
    pub comments: usize,
}

impl Events {
    pub fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: String::new(), last_id: String::new(), comments: 0 }
    }

    /// The next event; none at the end of the stream.
    pub async fn next(&mut self) -> Option<SseEvent> {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(told) = self.dispatch(&block) {
                    return Some(told);
                }
            }
            let chunk = soon("a piece of the stream", self.response.chunk()).await.ok()??;
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    fn dispatch(&mut self, block: &str) -> Option<SseEvent> {
        let mut data: Option<String> = None;
        for line in block.split('\n') {
            if line.starts_with(':') {
                self.comments += 1;
            } else if let Some(id) = line.strip_prefix("id: ") {
                self.last_id = id.to_owned();
            } else if let Some(text) = line.strip_prefix("data: ") {
                let data = data.get_or_insert_default();
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(text);
            } else {
                let is_known = line.is_empty() || line.starts_with("retry: ") || line == "event: skipped";
                assert!(is_known, "{line:?}");
            }
        }
        let data = serde_json::from_str(&data?).expect("JSON");
        Some(SseEvent { id: self.last_id.clone(), data })
    }

    /// Reads until `n` events came.
    pub async fn take(&mut self, n: usize) -> Vec<SseEvent> {
        let mut all = Vec::new();
        while all.len() < n {
            all.push(self.next().await.expect("the stream goes on"));
        }
        all
    }

    /// Waits until the server has said something at all.
    pub async fn opened(&mut self) {
        while self.last_id.is_empty() {
            let chunk =
                soon("the opening", self.response.chunk()).await.expect("a stream").expect("it goes on");
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                assert!(self.dispatch(&block).is_none(), "the opening is no event");
                self.buffer = rest;
            }
        }
    }

    /// What comes within a moment; for what must not come.
    pub async fn within(&mut self, time: Duration) -> Option<SseEvent> {
        tokio::time::timeout(time, self.next()).await.ok().flatten()
    }
}
