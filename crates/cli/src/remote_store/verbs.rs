//! The verbs of a store, by the table: those that a worker needs, and for all others that they are not here.

use super::RemoteStore;
use async_trait::async_trait;
use windlass_core::step::Recorded;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Answer, ApprovalId, AuditEntry, Event, FeedCursor, Job, JobId, Life, LogLine, Name, Refusal,
    Status, Term, Who, Worker,
};
use windlass_store::*;

fn absent<T>(verb: &str) -> StoreResult<T> {
    Err(StoreError::Unavailable(format!("a worker that goes through a server cannot {verb}")))
}

macro_rules! answer {
    (claim, $store:ident, $request:ident) => {
        $store.claim($request).await
    };
    (extend, $store:ident, $request:ident) => {
        $store.renew($request).await
    };
    (settle, $store:ident, $request:ident) => {
        $store.settle($request).await
    };
    (write_logs, $store:ident, $request:ident) => {
        $store.write_logs($request).await
    };
    (put_worker, $store:ident, $request:ident) => {
        $store.put_worker($request).await
    };
    (remove_worker, $store:ident, $request:ident) => {{
        let _ = $request;
        $store.remove_worker().await
    }};
    (queues, $store:ident, $request:ident) => {{
        let _ = $request;
        Ok(Vec::new())
    }};
    (sweep, $store:ident, $request:ident) => {{
        let _ = $request;
        Ok(Vec::new())
    }};
    ($verb:ident, $store:ident, $request:ident) => {{
        let _ = $request;
        absent(stringify!($verb))
    }};
}

macro_rules! through {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for RemoteStore {
                $(
                    async fn $verb(&self, request: $request, _now: Now) -> StoreResult<$answer> {
                        let store: &RemoteStore = self;
                        let _ = store;
                        answer!($verb, store, request)
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

windlass_store::every_verb!(through);
