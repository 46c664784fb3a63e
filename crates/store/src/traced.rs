//! A store that tells what it does: one span per verb, named like the verb, with how long it took and how it ended.

use crate::every_verb;
use crate::*;
use std::sync::Arc;
use tracing::Instrument;

/// Wraps a store so that every verb runs in a `store` span with the field `verb`.
#[derive(Debug, Clone)]
pub struct Traced {
    inner: Arc<dyn Store>,
}

impl Traced {
    /// Traces `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }
}

fn told<T>(answer: StoreResult<T>) -> StoreResult<T> {
    if let Err(error) = &answer {
        tracing::warn!(%error, "the store failed");
    }
    answer
}

macro_rules! traced {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Traced {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        let span = tracing::debug_span!("store", verb = stringify!($verb));
                        async { told(self.inner.$verb(request, now).await) }.instrument(span).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

every_verb!(traced);
