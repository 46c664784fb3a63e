//! One event of the feed, written once for all who listen.

use crate::shape::event::EventShape;
use bytes::Bytes;
use std::sync::Arc;
use windlass_core::{Event, Facts, FeedCursor, JobId, Name, Status, Timestamp, Version, What, Who};
use windlass_store::FeedEvent;

/// An event as it is sent, and what filters ask of it.
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
    pub(crate) worker: Option<Who>,
    pub(crate) error_code: Option<Who>,
    /// What never changes about the job, where this event says it.
    pub(crate) facts: Option<Arc<Facts>>,
    pub(crate) type_name: Box<str>,
    /// The JSON.
    pub(crate) json: Bytes,
    /// The whole frame of a stream: the cursor, then the event.
    frame: Bytes,
    /// Where in the frame the event begins.
    data_at: usize,
}

impl Item {
    pub(crate) fn new(fed: FeedEvent) -> Self {
        let FeedEvent { cursor, event, queue, kind } = fed;
        let mut shape = EventShape::of(&event);
        shape.job_id = Some(event.job.to_string());
        shape.queue = Some(queue.to_string());
        shape.kind = Some(kind.to_string());
        // Texts, numbers and checked JSON always become JSON.
        let json = serde_json::to_vec(&shape).unwrap_or_default();
        let id = format!("id: {}\n", cursor.to_text());
        let mut frame = Vec::with_capacity(id.len() + json.len() + 8);
        frame.extend_from_slice(id.as_bytes());
        data_lines(&json, &mut frame);
        Self {
            cursor: Arc::new(cursor),
            job: event.job,
            version: event.version,
            at: event.at,
            moved: moved_to(&event),
            worker: event.actor.worker_id(),
            error_code: error_code(&event),
            facts: facts_of(&event),
            type_name: event.what.type_name().into(),
            queue,
            kind,
            json: Bytes::from(json),
            frame: Bytes::from(frame),
            data_at: id.len(),
        }
    }

    /// The frame with its cursor.
    pub(crate) fn frame(&self) -> Bytes {
        self.frame.clone()
    }

    /// The frame without its cursor.
    pub(crate) fn data(&self) -> Bytes {
        self.frame.slice(self.data_at..)
    }

    /// How much memory it keeps.
    pub(crate) fn weight(&self) -> usize {
        self.json.len() + self.frame.len() + 512
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
pub(crate) fn facts_of(event: &Event) -> Option<Arc<Facts>> {
    if let What::JobCreated(facts) = &event.what { Some(Arc::new((**facts).clone())) } else { None }
}

/// Where a job came to stand by an event.
fn moved_to(event: &Event) -> Option<Status> {
    Some(match &event.what {
        What::JobCreated(_) | What::JobRedriven(_) | What::JobForked(_) => Status::Pending,
        What::JobAssigned(_) => Status::Assigned,
        What::JobClaimed | What::JobStarted => Status::Running,
        What::JobOrphaned => Status::Orphaned,
        What::JobRetried(_) | What::JobReleased(_) => Status::Retry,
        What::JobWaiting(_) => Status::Waiting,
        What::JobCompleted => Status::Completed,
        What::JobFailed(_) => Status::Failed,
        What::JobTimedOut(detail) if detail.due_at.is_some() => Status::Retry,
        What::JobTimedOut(_) => Status::TimedOut,
        What::JobCancelled(_) => Status::Cancelled,
        _ => return None,
    })
}

fn error_code(event: &Event) -> Option<Who> {
    match &event.what {
        What::JobRetried(detail) => Some(detail.code.clone()),
        What::JobFailed(detail) => Some(detail.code.clone()),
        What::JobTimedOut(_) => Who::parse("error_code", "timed_out").ok(),
        _ => None,
    }
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
