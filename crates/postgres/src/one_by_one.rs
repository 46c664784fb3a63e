//! What is left of a batch, item by item. One item's trouble is no other's: a row that another transaction holds is
//! waited for last, and all such rows of a batch together no longer than one would be.

use crate::db::Boxed;
use crate::error::{Failure, Tried};
use crate::pool::Waits;
use std::time::Duration;
use windlass_core::Refusal;

/// An item of a batch.
pub(crate) enum One<I, T> {
    /// It has its answer.
    Answered(Result<T, Refusal>),
    /// It is still to be looked at.
    Left(I),
}

/// Answers all items. First whatever is not locked, without waiting; then the others, until one of them stays locked for
/// longer than `patience`. What is left then is answered [`Refusal::Busy`].
pub(crate) async fn one_by_one<I: Clone, T>(
    mut items: Vec<One<I, T>>,
    patience: Duration,
    answer: impl Fn(I, Waits) -> Boxed<'static, Tried<Result<T, Refusal>>>,
) -> Tried<Vec<Result<T, Refusal>>> {
    let mut trouble = None;
    'all: for waits in [Waits::Never, Waits::For(patience)] {
        for one in &mut items {
            let One::Left(item) = one else { continue };
            match answer(item.clone(), waits).await {
                Ok(answered) => *one = One::Answered(answered),
                Err(Failure::Corrupt { why, .. }) => *one = One::Answered(Err(Refusal::Unreadable(why))),
                // Patience is over, for the others too.
                Err(failure) if failure.is_locked() && matches!(waits, Waits::For(_)) => break 'all,
                Err(failure) if failure.is_locked() => {}
                Err(failure) => {
                    // A failure of the store's own would be the others' too.
                    let over = !failure.may_be_one_items();
                    trouble = trouble.or(Some(failure));
                    if over {
                        break 'all;
                    }
                }
            }
        }
        if trouble.is_some() {
            break;
        }
    }
    match trouble {
        Some(failure) => Err(partly(&items, failure)),
        None => Ok(items.into_iter().map(One::answer).collect()),
    }
}

/// A failure after which some items may be done already: nobody may say that nothing happened.
pub(crate) fn partly<I, T>(items: &[One<I, T>], failure: Failure) -> Failure {
    let is_done = |one: &One<I, T>| matches!(one, One::Answered(Ok(_)));
    if items.iter().any(is_done) { Failure::Partly(Box::new(failure)) } else { failure }
}

impl<I, T> One<I, T> {
    fn answer(self) -> Result<T, Refusal> {
        match self {
            Self::Answered(answer) => answer,
            Self::Left(_) => Err(Refusal::Busy),
        }
    }
}
