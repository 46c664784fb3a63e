//! Leases: who may act for a job, and the fence that tells attempts apart.

use crate::ids::JobId;
use crate::limits::{self, Invalid, LEASE_MAX_MS, LEASE_MIN_MS};
use crate::name::Who;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// What a claimer brings to a claim. The same secret again returns the jobs it already holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The token of one attempt of one job. Derived, so one job's token never settles another's, nor an older
    /// attempt's a newer one, even if a claimer uses one secret for ever.
    pub fn token(&self, job: JobId, attempt: i32) -> Token {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(job.as_bytes());
        hash.update(attempt.to_be_bytes());
        Token(first_16(hash))
    }

    /// The token of the nth job of a claim, made before it is known which job that will be. The nonce is new with each
    /// claim, so no token is made twice.
    pub fn nth_token(&self, nonce: i64, nth: u32) -> Token {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(nonce.to_be_bytes());
        hash.update(nth.to_be_bytes());
        Token(first_16(hash))
    }
}

/// What a holder shows with every call for its job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 16]);

impl Token {
    /// What the row keeps: nobody who reads the database can act for a worker.
    pub fn hash(&self) -> LeaseHash {
        let mut hash = Sha256::new();
        hash.update(self.0);
        LeaseHash(first_16(hash))
    }

    /// The text that goes over the wire: 32 hex digits.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// Parses 32 hex digits.
    pub fn parse(value: &str) -> Result<Self, Invalid> {
        let wrong =
            || Invalid::new("lease_token", format!("{} characters", value.len()), "must be 32 hex digits");
        unhex(value).and_then(|b| b.try_into().ok()).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The hash of a token: in the row while it is leased, and in the events written under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseHash(pub [u8; 16]);

impl fmt::Debug for LeaseHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseHash({})", hex(&self.0))
    }
}

/// What a claim hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job it is for.
    pub job: JobId,
    /// Grows with every execution over the job's whole life.
    pub attempt: i32,
    /// What the holder writes beside its own changes elsewhere: the attempt, and the store's incarnation above it
    /// ([`Life::fence`](crate::Life::fence)).
    pub fence: i64,
    /// Proves the lease.
    pub token: Token,
    /// Who holds it.
    pub worker: Who,
    /// When the holder must have stopped by itself.
    pub expires_at: Timestamp,
}

/// How long a lease lasts: 1 s to 24 h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct LeaseMs(i64);

impl TryFrom<i64> for LeaseMs {
    type Error = Invalid;
    fn try_from(ms: i64) -> Result<Self, Invalid> {
        Self::new(ms)
    }
}

impl From<LeaseMs> for i64 {
    fn from(ms: LeaseMs) -> i64 {
        ms.0
    }
}

impl LeaseMs {
    /// Thirty seconds.
    pub const DEFAULT: Self = Self(limits::LEASE_DEFAULT_MS);

    /// Accepts 1 s to 24 h.
    pub fn new(ms: i64) -> Result<Self, Invalid> {
        let wrong = |_| Invalid::new("lease", crate::span::to_text(ms), "must be between 1 s and 24 h");
        limits::within("lease", ms, LEASE_MIN_MS, LEASE_MAX_MS).map(Self).map_err(wrong)
    }

    /// Milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
}

fn first_16(hash: Sha256) -> [u8; 16] {
    let mut out = [0u8; 16];
    out.copy_from_slice(&hash.finalize()[..16]);
    out
}

/// Lower-case hex digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char])
        .collect()
}

/// The bytes that hex digits stand for; none for anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_jobs_and_one_attempts() {
        let (a, b) = (JobId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
        let secret = Secret([9; 32]);
        assert_ne!(secret.token(a, 1), secret.token(b, 1));
        assert_ne!(secret.token(a, 1), secret.token(a, 2));
        assert_eq!(Token::parse(&secret.token(a, 1).to_text()).unwrap(), secret.token(a, 1));
        assert!(Token::parse("zz").is_err() && Token::parse("+1").is_err());
        assert!(!format!("{secret:?} {:?}", secret.token(a, 1)).contains("09"));
    }

    /// Q10
    #[test]
    fn lease_durations_have_limits() {
        assert!(LeaseMs::new(0).is_err() && LeaseMs::new(-1).is_err() && LeaseMs::new(999).is_err());
        assert!(LeaseMs::new(86_400_001).is_err() && LeaseMs::new(i64::MAX).is_err());
        assert!(LeaseMs::new(1_000).is_ok() && LeaseMs::new(86_400_000).is_ok());
    }
}
