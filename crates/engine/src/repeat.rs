//! Asking again: verbs can be repeated, so a lost answer is no reason to lose work or to do it twice.

use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use windlass_store::{StoreError, StoreResult, fresh};

/// The first pause.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// Calls a verb until the store answers or `patience` is over. `call` must send the very same request each time.
///
/// A refusal is an answer and comes back at once, as does a verb that the place does not have. When patience ends, the last
/// error comes back, and [`StoreError::Indeterminate`] if any of the calls may have been carried out.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_engine::repeat;
/// # use windlass_store::{StoreError, StoreResult};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// let mut tries = 0;
/// let answer: StoreResult<u32> = repeat(Duration::from_secs(10), || {
///     tries += 1;
///     let lost = tries < 3;
///     async move { if lost { Err(StoreError::Indeterminate("cut off".into())) } else { Ok(7) } }
/// })
/// .await;
/// assert_eq!(answer, Ok(7));
/// # });
/// ```
pub async fn repeat<T, Fut>(patience: Duration, call: impl FnMut() -> Fut) -> StoreResult<T>
where
    Fut: Future<Output = StoreResult<T>>,
{
    repeat_unless(patience, |_| false, call).await
}

/// As [`repeat`], except that an error for which `give_up` holds comes back at once.
pub(crate) async fn repeat_unless<T, Fut>(
    patience: Duration,
    give_up: impl Fn(&StoreError) -> bool,
    mut call: impl FnMut() -> Fut,
) -> StoreResult<T>
where
    Fut: Future<Output = StoreResult<T>>,
{
    let deadline = Instant::now().checked_add(patience);
    let (mut pause, mut unknown) = (Pause::default(), None);
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if matches!(error, StoreError::Indeterminate(_)) {
            unknown = Some(error.clone());
        }
        let next = Instant::now() + pause.next();
        let is_final = matches!(error, StoreError::Unsupported(_)) || give_up(&error);
        if is_final || deadline.is_some_and(|deadline| next >= deadline) {
            return Err(unknown.unwrap_or(error));
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Pauses that grow by two up to a limit, each a little longer or shorter by chance, so that many who wait do not come back together.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Self::new(FIRST, LONGEST)
    }
}

impl Pause {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Whether nobody has waited yet.
    pub(crate) fn is_first(&self) -> bool {
        self.next == FIRST
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.longest);
        jittered(full)
    }
}

/// About so long: an eighth more or less.
pub(crate) fn jittered(about: Duration) -> Duration {
    let [byte] = fresh::random::<1>();
    about.mul_f64(0.875 + f64::from(byte) / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> StoreError {
        StoreError::Unavailable("down".into())
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_and_says_what_is_unknown() {
        let mut calls = 0;
        let answer: StoreResult<()> = repeat(Duration::from_secs(60), || {
            calls += 1;
            let lost = calls == 2;
            async move { Err(if lost { StoreError::Indeterminate("cut".into()) } else { unavailable() }) }
        })
        .await;
        assert_eq!(
            answer,
            Err(StoreError::Indeterminate("cut".into())),
            "one of the calls may have happened"
        );
        assert!((25..60).contains(&calls), "pauses grow to two seconds: {calls} calls in a minute");
        let never: StoreResult<()> = repeat(Duration::ZERO, || async { Err(unavailable()) }).await;
        assert_eq!(never, Err(unavailable()));
    }

    /// What a place cannot do is not asked twice.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_is_asked_once() {
        let (mut calls, cannot) = (0, StoreError::Unsupported("no steps here".into()));
        let answer: StoreResult<()> = repeat(Duration::from_secs(60), || {
            calls += 1;
            std::future::ready(Err(cannot.clone()))
        })
        .await;
        assert_eq!((answer, calls), (Err(cannot), 1));
    }
}
