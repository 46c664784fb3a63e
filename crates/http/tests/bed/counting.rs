//! A store that counts how often each of its reading verbs is called, and can be made to answer nothing.

use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Fingerprint, Job, JobId, Life, LogLine,
    LogPart, Name, Queue, Refusal, Term, Timestamp, TriggerEventId, Who, Worker,
};
use windlass_store::*;

/// Counts calls: of the feed, of claims, and of everything.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn Store>,
    pub all: AtomicU64,
    pub feeds: AtomicU64,
    pub claims: AtomicU64,
    /// While it is set, no verb answers.
    pub is_stuck: AtomicBool,
}

impl Counting {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            all: AtomicU64::new(0),
            feeds: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
        }
    }

    pub fn count(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    async fn note(&self, verb: &str) {
        while self.is_stuck.load(Ordering::Relaxed) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        match verb {
            "feed" => self.feeds.fetch_add(1, Ordering::Relaxed),
            "claim" => self.claims.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

macro_rules! counting {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Counting {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        self.note(stringify!($verb)).await;
                        self.inner.$verb(request, now).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

windlass_store::every_verb!(counting);
