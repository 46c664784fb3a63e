//! One event of the feed, written once for all who listen, and only if anybody does.

use crate::wire::event::EventShape;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use windlass_core::{Event, EventKind, Facts, FeedCursor, JobId, Name, Status, Timestamp, Version, Who};
use windlass_store::FeedEvent;

/// An event of the feed, and what filters ask of it.
#[derive(Debug)]
pub(crate) struct Item {
    /// Resumes after it. Apart, so that who remembers where it was holds no event.
    pub(crate) cursor: Arc<FeedCursor>,
    pub(crate) job: JobId,
    pub(crate) version: Version,
    pub(crate) queue: Name,
    pub(crate) kind: Name,
    pub(crate) at: Timestamp,
    /// Where the job came to stand by it, if it moved.
    pub(crate) moved: Option<Status>,
    event: Event,
    /// Written when it is first asked for.
    text: OnceLock<Text>,
    /// The same without its payload.
    lean: OnceLock<Text>,
}

/// An event as it is sent.
#[derive(Debug)]
struct Text {
    json: Bytes,
    /// The whole frame of a stream: the cursor, then the event.
    frame: Bytes,
    /// Where in the frame the event begins.
    data_at: usize,
}

impl Item {
    pub(crate) fn new(fed: FeedEvent) -> Self {
        let FeedEvent { cursor, event, queue, kind } = fed;
        Self {
            cursor: Arc::new(cursor),
            job: event.job,
            version: event.version,
            at: event.at,
            moved: event.moved_to(),
            queue,
            kind,
            event,
            text: OnceLock::new(),
            lean: OnceLock::new(),
        }
    }

    fn text(&self, is_lean: bool) -> &Text {
        let place = if is_lean { &self.lean } else { &self.text };
        place.get_or_init(|| {
            let mut shape = EventShape::of(&self.event);
            if is_lean {
                (shape.payload, shape.payload_base64) = (None, None);
            }
            shape.job_id = Some(self.job.to_string());
            shape.queue = Some(self.queue.to_string());
            shape.kind = Some(self.kind.to_string());
            // Texts, numbers and checked JSON always become JSON.
            let json = serde_json::to_vec(&shape).unwrap_or_default();
            let id = format!("id: {}\n", self.cursor.to_text());
            let mut frame = Vec::with_capacity(id.len() + json.len() + 8);
            frame.extend_from_slice(id.as_bytes());
            data_lines(&json, &mut frame);
            Text { json: Bytes::from(json), frame: Bytes::from(frame), data_at: id.len() }
        })
    }

    /// The JSON; a lean one has no payload.
    pub(crate) fn json(&self, is_lean: bool) -> &Bytes {
        &self.text(is_lean).json
    }

    /// The frame with its cursor.
    pub(crate) fn frame(&self, is_lean: bool) -> Bytes {
        self.text(is_lean).frame.clone()
    }

    /// The frame without its cursor.
    pub(crate) fn data(&self, is_lean: bool) -> Bytes {
        let Text { frame, data_at, .. } = self.text(is_lean);
        frame.slice(*data_at..)
    }

    /// What happened.
    pub(crate) fn type_name(&self) -> &str {
        self.event.what.type_name()
    }

    /// The worker that did it.
    pub(crate) fn worker(&self) -> Option<Who> {
        self.event.actor.worker_id()
    }

    /// What went wrong, if something did.
    pub(crate) fn error_code(&self) -> Option<Who> {
        match &self.event.what {
            EventKind::JobRetried(detail) => Some(detail.code.clone()),
            EventKind::JobFailed(detail) => Some(detail.code.clone()),
            EventKind::JobTimedOut(_) => Who::parse("error_code", "timed_out").ok(),
            _ => None,
        }
    }

    /// What never changes about the job, where this event says it.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        facts_of(&self.event)
    }

    /// How much memory it may keep: its bytes, once as they are and twice as they are sent.
    pub(crate) fn weight(&self) -> usize {
        3 * self.event.payload.as_ref().map_or(0, |payload| payload.as_bytes().len()) + 3_072
    }
}

/// Writes an event's data. A payload may be JSON with line breaks in it, and a line break ends a line of the stream.
pub(crate) fn data_lines(json: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(b"data: ");
    let mut was_return = false;
    for &byte in json {
        match byte {
            b'\n' if was_return => {}
            b'\n' | b'\r' => into.extend_from_slice(b"\ndata: "),
            _ => into.push(byte),
        }
        was_return = byte == b'\r';
    }
    into.extend_from_slice(b"\n\n");
}

/// What never changes about a job, if this is its first event.
pub(crate) fn facts_of(event: &Event) -> Option<&Facts> {
    if let EventKind::JobCreated(facts) = &event.what { Some(facts) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_in_a_payload_do_not_end_an_event() {
        let mut frame = Vec::new();
        data_lines(b"{\"a\":\r\n1,\n\"b\":\r2}", &mut frame);
        assert_eq!(frame, b"data: {\"a\":\ndata: 1,\ndata: \"b\":\ndata: 2}\n\n");
    }
}
