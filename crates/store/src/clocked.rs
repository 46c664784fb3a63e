//! A store under somebody else's clock, so that a test decides what time it is.

use crate::every_verb;
use crate::*;
use std::sync::Arc;
use windlass_core::Timestamp;

/// Wraps a store so that every verb without a moment of its own happens when `clock` says.
pub struct Clocked<C> {
    inner: Arc<dyn Store>,
    clock: C,
}

impl<C: Fn() -> Timestamp + Send + Sync> Clocked<C> {
    /// Lets `clock` say when the verbs of `inner` happen.
    pub fn new(inner: Arc<dyn Store>, clock: C) -> Self {
        Self { inner, clock }
    }
}

impl<C> std::fmt::Debug for Clocked<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clocked").field("inner", &self.inner).finish_non_exhaustive()
    }
}

macro_rules! clocked {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl<C: Fn() -> Timestamp + Send + Sync> $group for Clocked<C> {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        self.inner.$verb(request, now.or_else(|| Some((self.clock)()))).await
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

every_verb!(clocked);
