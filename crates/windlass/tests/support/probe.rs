//! A store that notes what it was asked.

use async_trait::async_trait;
use std::sync::{Arc, Mutex};
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Fingerprint, Job, JobId, Life, LogLine,
    LogPart, Name, Queue, Refusal, Term, Timestamp, TriggerEventId, Who, Worker,
};
use windlass_store::*;

/// Notes every request in its `Debug` form.
#[derive(Debug)]
pub struct Probe {
    inner: Arc<dyn Store>,
    asked: Mutex<Vec<(&'static str, String)>>,
}

impl Probe {
    /// Around the store of a client, and a client to it.
    pub fn around(client: &windlass::Client) -> (Arc<Self>, windlass::Client) {
        let probe = Arc::new(Self { inner: Arc::clone(client.store()), asked: Mutex::default() });
        let client = windlass::Client::new(Arc::clone(&probe) as Arc<dyn Store>);
        (probe, client)
    }

    /// The requests of this verb so far.
    pub fn asked(&self, verb: &str) -> Vec<String> {
        let asked = self.asked.lock().expect("no panic under it");
        asked.iter().filter(|(of, _)| *of == verb).map(|(_, request)| request.clone()).collect()
    }
}

macro_rules! noted {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Probe {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        let asked = (stringify!($verb), format!("{request:?}"));
                        self.asked.lock().expect("no panic under it").push(asked);
                        self.inner.$verb(request, now).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

windlass_store::every_verb!(noted);
