//! Lease tokens that are made before it is known which jobs they are for: to derive each from its job, in the server,
//! takes a tenth of a claim.

use std::sync::Arc;
use windlass_core::decide::Claim;
use windlass_core::limits::CLAIM_MAX;
use windlass_core::{Job, Token};
use windlass_store::{ClaimMany, fresh};

/// Claims of so many make theirs ahead.
const AHEAD: usize = 16;

/// The tokens of one claim; the nth job gets the nth.
#[derive(Clone)]
pub(super) struct Fan {
    pub(super) nonce: i64,
    tokens: Arc<[Token]>,
    /// How many of them earlier statements handed out.
    used: usize,
}

impl Fan {
    pub(super) fn of(request: &ClaimMany) -> Option<Self> {
        if request.max < AHEAD {
            return None;
        }
        let nonce = fresh::nonce();
        let tokens = (0..request.max as u32).map(|nth| request.claim.secret.nth_token(nonce, nth));
        Some(Self { nonce, tokens: tokens.collect(), used: 0 })
    }

    /// So many more are handed out.
    pub(super) fn hand_out(&mut self, count: usize) {
        self.used += count;
    }

    /// The nth of those that nobody has, from 1.
    pub(super) fn token(&self, nth: usize) -> Option<Token> {
        self.tokens.get(self.used + nth.checked_sub(1)?).copied()
    }

    /// The hashes of those that nobody has.
    pub(super) fn hashes(&self) -> Vec<u8> {
        let rest = self.tokens.get(self.used..).unwrap_or_default();
        rest.iter().flat_map(|token| token.hash().0).collect()
    }
}

/// The token under which a claim holds a job, if it does: derived from the job, or made ahead with this nonce.
pub(super) fn token_of(job: &Job, claim: &Claim, nonce: Option<i64>) -> Option<Token> {
    let is_its = |token: &Token| job.lease_hash == Some(token.hash());
    let derived = Some(claim.secret.token(job.id, job.attempt)).filter(is_its);
    derived.or_else(|| {
        let nonce = nonce?;
        (0..CLAIM_MAX as u32).map(|nth| claim.secret.nth_token(nonce, nth)).find(is_its)
    })
}
