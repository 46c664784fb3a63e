//! What is right and what is wrong about a sealed event that is not found as it was sealed.

use crate::erase::KeptHashes;
use crate::ids::JobId;
use crate::job::Version;
use crate::seal::{EventHash, SealedEvent};
use crate::time::Timestamp;

/// A finished job that the engine removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// Which.
    pub job: JobId,
    /// Its last version.
    pub version: Version,
    /// When it was removed.
    pub at: Timestamp,
}

/// Why a sealed event is not what was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is there, and says something else.
    Changed,
    /// It is gone, and its job is there.
    Removed,
    /// Its whole job is gone, and no removal is on record.
    JobGone,
}

/// What there is to know about a sealed event whose hash is not the one that was sealed.
#[derive(Debug, Clone, Copy)]
pub struct Differing<'a> {
    /// When it was sealed.
    pub sealed_at: Timestamp,
    /// Its hash now; none if it is gone.
    pub found: Option<EventHash>,
    /// What erasures of its job kept.
    pub erasures: &'a [KeptHashes],
    /// When its job was removed.
    pub removals: &'a [Removal],
    /// Whether its job is there.
    pub job_is_here: bool,
}

impl Differing<'_> {
    /// Accepts what was erased or removed by the engine, which is on record.
    ///
    /// A job that came back from the archive is written anew, maybe with other words for the same detail, and sealed again:
    /// of the seals before its removal only the later ones can be compared.
    pub fn judge(&self, sealed: &SealedEvent) -> Result<(), Wrong> {
        let mut removals = self.removals.iter().filter(|removal| removal.version >= sealed.version);
        let Some(found) = self.found else {
            let gone = if self.job_is_here { Wrong::Removed } else { Wrong::JobGone };
            return removals.next().map(|_| ()).ok_or(gone);
        };
        let is_erased = |kept: &KeptHashes| {
            kept.of(sealed.version)
                .is_some_and(|(before, left)| before.mark() == sealed.mark && left == found)
        };
        if found.mark() == sealed.mark
            || self.erasures.iter().any(is_erased)
            || removals.any(|removal| removal.at >= self.sealed_at)
        {
            return Ok(());
        }
        Err(Wrong::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    fn at(n: i64) -> Timestamp {
        Timestamp::from_micros(n)
    }

    #[test]
    fn only_what_is_on_record_is_accepted() {
        let (was, is, other) = (EventHash([1; 32]), EventHash([2; 32]), EventHash([3; 32]));
        let one = SealedEvent::of(job(1), 3, &was);
        let kept = [KeptHashes::from_iter([(3, was, is)])];
        let removed = |version, micros| [Removal { job: job(1), version, at: at(micros) }];
        let differing =
            Differing { sealed_at: at(10), found: None, erasures: &[], removals: &[], job_is_here: true };
        assert_eq!(Differing { found: Some(was), ..differing }.judge(&one), Ok(()));
        assert_eq!(differing.judge(&one), Err(Wrong::Removed));
        assert_eq!(Differing { job_is_here: false, ..differing }.judge(&one), Err(Wrong::JobGone));
        let gone = |removals: [Removal; 1]| {
            Differing { job_is_here: false, removals: &removals, ..differing }.judge(&one)
        };
        assert_eq!(gone(removed(3, 5)), Ok(()), "it was sealed while it was removed");
        assert_eq!(gone(removed(2, 20)), Err(Wrong::JobGone), "another life of it was removed");
        let changed = Differing { found: Some(is), ..differing };
        assert_eq!(changed.judge(&one), Err(Wrong::Changed));
        assert_eq!(Differing { erasures: &kept, ..changed }.judge(&one), Ok(()));
        let after = Differing { erasures: &kept, found: Some(other), ..changed };
        assert_eq!(after.judge(&one), Err(Wrong::Changed), "what an erasure left is not to be changed");
        assert_eq!(Differing { removals: &removed(3, 10), ..changed }.judge(&one), Ok(()), "it came back");
        let since = Differing { removals: &removed(3, 9), ..changed };
        assert_eq!(since.judge(&one), Err(Wrong::Changed), "it was sealed again since it came back");
    }
}
