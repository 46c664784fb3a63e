//! A store that misbehaves as networks and databases do, by a seeded plan, so that a failure can be replayed.

use crate::every_verb;
use crate::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Fails before anything happens.
    FailBefore,
    /// Happens, and the answer is lost.
    LoseAnswer,
    /// Takes a while.
    Delay,
    /// Happens twice; the second answer is told.
    Duplicate,
}

/// How often each fault strikes, in percent, drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// What the draw starts from.
    pub seed: u64,
    /// Fails before.
    pub fail_before: u8,
    /// Applied, answer lost.
    pub lose_answer: u8,
    /// Delayed by up to two milliseconds.
    pub delay: u8,
    /// Applied twice.
    pub duplicate: u8,
}

/// Wraps a store so that calls fail by plan.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    faults: Faults,
    calls: AtomicU64,
    away: AtomicBool,
    /// The verb whose next call is not answered; a blocking lock, held for a look.
    unanswered: Mutex<Option<&'static str>>,
    hung: AtomicBool,
}

impl Faulty {
    /// Lets `inner` misbehave.
    pub fn new(inner: Arc<dyn Store>, faults: Faults) -> Self {
        let (away, hung) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { inner, faults, calls: AtomicU64::new(0), away, unanswered: Mutex::new(None), hung }
    }

    /// Lets every call fail before anything happens, as when the database is gone, until it is back.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::Release);
    }

    /// Lets the next call of this verb happen and never be answered, as when its caller dies before it hears.
    pub fn never_answer(&self, verb: &'static str) {
        if let Ok(mut unanswered) = self.unanswered.lock() {
            *unanswered = Some(verb);
        }
    }

    /// Whether such a call has happened.
    pub fn is_hung(&self) -> bool {
        self.hung.load(Ordering::Acquire)
    }

    fn hangs(&self, verb: &str) -> bool {
        self.unanswered
            .lock()
            .is_ok_and(|mut unanswered| unanswered.take_if(|named| *named == verb).is_some())
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn draw(&self) -> (Fault, u64) {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.away.load(Ordering::Acquire) {
            return (Fault::FailBefore, 0);
        }
        let mixed = mix(self.faults.seed ^ mix(n));
        let mut percent = (mixed % 100) as u8;
        let plan = [
            (Fault::FailBefore, self.faults.fail_before),
            (Fault::LoseAnswer, self.faults.lose_answer),
            (Fault::Delay, self.faults.delay),
            (Fault::Duplicate, self.faults.duplicate),
        ];
        for (fault, share) in plan {
            if percent < share {
                return (fault, mixed >> 32);
            }
            percent -= share;
        }
        (Fault::None, 0)
    }
}

/// SplitMix64: every bit of the seed reaches every bit of the draw.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

macro_rules! faulty {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Faulty {
                $(
                    #[allow(clippy::clone_on_copy, reason = "one body for requests that are Copy and those that are not")]
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        if self.hangs(stringify!($verb)) {
                            let _unheard = self.inner.$verb(request, now).await;
                            self.hung.store(true, Ordering::Release);
                            return std::future::pending().await;
                        }
                        let (fault, drawn) = self.draw();
                        match fault {
                            Fault::FailBefore => Err(StoreError::Unavailable("injected before".into())),
                            Fault::LoseAnswer => {
                                let _lost = self.inner.$verb(request, now).await?;
                                Err(StoreError::Indeterminate("injected after".into()))
                            }
                            Fault::Duplicate => {
                                let _first = self.inner.$verb(request.clone(), now).await?;
                                self.inner.$verb(request, now).await
                            }
                            Fault::Delay => {
                                tokio::time::sleep(Duration::from_micros(drawn % 2_000)).await;
                                self.inner.$verb(request, now).await
                            }
                            Fault::None => self.inner.$verb(request, now).await,
                        }
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

every_verb!(faulty);
