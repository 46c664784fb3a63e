//! How long to wait before the next try.

use crate::ids::JobId;
use crate::limits::{HORIZON_MS, Invalid};
use crate::span::within_ms;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// `min(max, base × multiplier^n)`, with full jitter unless switched off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    /// The first delay, in milliseconds.
    pub base_ms: i64,
    /// The longest delay, in milliseconds.
    pub max_ms: i64,
    /// Growth per retry.
    pub multiplier: f64,
    /// Whether the delay is drawn evenly from zero to the full delay.
    pub jitter: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base_ms: 1_000, max_ms: 300_000, multiplier: 2.0, jitter: true }
    }
}

impl Backoff {
    /// Accepts values that make a schedule.
    pub fn check(self) -> Result<Self, Invalid> {
        within_ms("backoff.base", self.base_ms, 0, HORIZON_MS)?;
        within_ms("backoff.max", self.max_ms, 0, HORIZON_MS)?;
        if !(1.0..=1_000.0).contains(&self.multiplier) {
            return Err(Invalid::new("backoff.multiplier", self.multiplier, "must be between 1 and 1000"));
        }
        Ok(self)
    }

    /// The full delay before retry `n` (from 0), in milliseconds; never negative, never above `max_ms`.
    pub fn full_ms(&self, n: i32) -> i64 {
        let grown = self.base_ms as f64 * self.multiplier.powi(n.max(0));
        let max = self.max_ms.max(0);
        if grown.is_finite() && grown < max as f64 { (grown as i64).max(0) } else { max }
    }

    /// The delay before retry `n` of this attempt of this job. The jitter is drawn from their hash: it spreads
    /// like chance, and every store and every replay draws the same.
    pub fn delay_ms(&self, n: i32, job: JobId, attempt: i32) -> i64 {
        let full = self.full_ms(n);
        if !self.jitter || full == 0 {
            return full;
        }
        let mut hash = Sha256::new();
        hash.update(b"windlass backoff");
        hash.update(job.as_bytes());
        hash.update(attempt.to_be_bytes());
        let digest = hash.finalize();
        let mut first = [0u8; 8];
        first.copy_from_slice(&digest[..8]);
        let drawn = u128::from(u64::from_be_bytes(first)) * (full as u128 + 1);
        (drawn >> 64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    /// M9
    #[test]
    fn defaults_grow_by_two_to_five_minutes() {
        let b = Backoff { jitter: false, ..Backoff::default() };
        let delays: Vec<i64> = (0..10).map(|n| b.full_ms(n)).collect();
        assert_eq!(delays, [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128_000, 256_000, 300_000]);
    }

    /// M9: `min(max, base × multiplier^n)`, in whole numbers, up to and beyond the cap.
    #[test]
    fn a_delay_grows_to_its_cap_and_stays_there() {
        for (base, multiplier, max) in
            [(1_000, 2, 300_000), (7, 3, 10_000), (500, 1, 400), (3, 1_000, HORIZON_MS), (0, 2, 9)]
        {
            let b = Backoff { base_ms: base, max_ms: max, multiplier: multiplier as f64, jitter: true };
            for n in 0..40 {
                let grown = i128::from(base).saturating_mul(i128::from(multiplier).saturating_pow(n));
                let expected = i128::from(max).min(grown) as i64;
                assert_eq!(b.full_ms(n as i32), expected, "{base} × {multiplier}^{n}, at most {max}");
            }
        }
    }

    proptest::proptest! {
        /// M9: no schedule overflows, exceeds its cap or goes negative for any n; most n that happen are small.
        #[test]
        fn no_schedule_overflows(base in 0..=HORIZON_MS, max in 0..=HORIZON_MS, m in 1.0..=1000.0f64, n in proptest::prop_oneof![0..100, 0..i32::MAX], attempt in 0..i32::MAX) {
            let b = Backoff { base_ms: base, max_ms: max, multiplier: m, jitter: true }.check().unwrap();
            let full = b.full_ms(n);
            proptest::prop_assert!((base.min(max)..=max).contains(&full));
            let id = JobId::from_parts(Timestamp::from_micros(i64::from(n)), [7; 8]);
            proptest::prop_assert!((0..=full).contains(&b.delay_ms(n, id, attempt)));
        }
    }

    /// M9: the jitter covers the whole range.
    #[test]
    fn full_jitter_spreads_from_nothing_to_everything() {
        let b = Backoff::default();
        let id = JobId::from_parts(Timestamp::from_micros(0), [1; 8]);
        let mut drawn: Vec<i64> = (0..1000).map(|a| b.delay_ms(3, id, a)).collect();
        drawn.sort_unstable();
        assert!(drawn[0] < 200 && drawn[999] > 7_800, "{} {}", drawn[0], drawn[999]);
        assert!((3_500..4_500).contains(&drawn[500]), "{}", drawn[500]);
    }
}
