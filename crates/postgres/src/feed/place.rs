//! A place in PostgreSQL's feed, and how it is written into a cursor.

use windlass_core::feed::CURSOR_MAX;

/// The most bytes of a position: with what every cursor names, as hex digits, it stays below [`CURSOR_MAX`].
const POSITION_MAX: usize = CURSOR_MAX / 2 - 40;

/// The server that numbers transactions: ids of another one, or of another timeline, mean nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) system_id: u64,
    pub(super) timeline: u32,
}

/// Which transactions were seen: those before `xmax` but not the open ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) xmax: u64,
    /// Running then, in order.
    pub(super) open: Vec<u64>,
    /// The newest mark that was seen: what began later numbers its events above this.
    pub(super) upto: i64,
    /// The newest mark before the oldest open transaction: none of the open ones has a number up to this.
    pub(super) low: i64,
}

impl Snapshot {
    /// Before everything.
    pub(super) const fn origin() -> Self {
        Self { xmax: 1, open: Vec::new(), upto: 0, low: 0 }
    }

    /// Reads PostgreSQL's `xmin:xmax:xip,xip`.
    pub(super) fn read(text: &str, upto: i64, low: i64) -> Option<Self> {
        let (_, rest) = text.split_once(':')?;
        let (xmax, open) = rest.split_once(':')?;
        let open: Option<Vec<u64>> =
            open.split(',').filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect();
        Some(Self { xmax: xmax.parse().ok()?, open: open?, upto, low })
    }

    /// As PostgreSQL writes it.
    pub(super) fn to_text(&self) -> String {
        let open: Vec<String> = self.open.iter().map(u64::to_string).collect();
        format!("{}:{}:{}", self.open.first().unwrap_or(&self.xmax), self.xmax, open.join(","))
    }

    pub(super) fn sees(&self, tx: u64) -> bool {
        tx < self.xmax && self.open.binary_search(&tx).is_err()
    }
}

/// A difference of snapshots, on the way through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) newer: Snapshot,
    /// The transaction of the newest mark that the newer snapshot sees.
    pub(super) mark_tx: u64,
    /// The last number that was read or looked at.
    pub(super) after: i64,
}

/// A place in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) server: Server,
    /// What was read wholly.
    pub(super) seen: Snapshot,
    /// The youngest transaction of which an event was read: that of the cursor's last event.
    pub(super) last_tx: u64,
    /// What is being read, if that takes more than a page.
    pub(super) reading: Option<Reading>,
}

impl Place {
    /// The place behind a difference that was read to its end.
    ///
    /// A server that crashes forgets the ids of transactions that did not commit, and gives them again. So the snapshot is
    /// clamped to what was really seen, which outlives a crash: the youngest transaction with an event, and the mark. An id
    /// that was given again while the difference was being read is among the open ones of `now`.
    pub(super) fn behind(&self, reading: &Reading, now: &Snapshot) -> Self {
        let xmax = self.seen.xmax.max(self.last_tx + 1).max(reading.mark_tx + 1);
        let mut open = [reading.newer.open.as_slice(), now.open.as_slice()].concat();
        open.retain(|tx| *tx < xmax);
        open.sort_unstable();
        open.dedup();
        let seen = Snapshot { xmax, open, ..reading.newer };
        Self { server: self.server, seen, last_tx: self.last_tx, reading: None }
    }

    /// Whether it fits into a cursor, whatever number it comes to.
    pub(super) fn fits(&self) -> bool {
        self.to_bytes().len() + 10 <= POSITION_MAX
    }

    /// Numbers of seven bits a byte; open transactions by their distance, with the two snapshots that they belong to.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.server.system_id.to_be_bytes().to_vec();
        let reading = self.reading.as_ref();
        let mut put = |n: u64| put_number(&mut out, n);
        put(self.server.timeline.into());
        put(reading.is_some().into());
        for n in [self.seen.xmax, self.seen.upto.cast_unsigned(), self.seen.low.cast_unsigned(), self.last_tx]
        {
            put(n);
        }
        if let Some(Reading { newer, mark_tx, after }) = reading {
            for n in [newer.xmax, newer.upto.cast_unsigned(), newer.low.cast_unsigned(), *mark_tx] {
                put(n);
            }
            put(after.cast_unsigned());
        }
        let newer: &[u64] = reading.map_or(&[], |r| &r.newer.open);
        let mut open = [self.seen.open.as_slice(), newer].concat();
        open.sort_unstable();
        open.dedup();
        let mut before = 0;
        for tx in open {
            let is_seen = self.seen.open.binary_search(&tx).is_ok();
            let is_newer = newer.binary_search(&tx).is_ok();
            put((tx - before) << 2 | u64::from(is_newer) << 1 | u64::from(is_seen));
            before = tx;
        }
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (system_id, mut rest) = bytes.split_first_chunk::<8>()?;
        let mut take = || take_number(&mut rest);
        let timeline = u32::try_from(take()?).ok()?;
        let is_reading = match take()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let number = |n: u64| i64::try_from(n).ok();
        let (xmax, upto, low) = (take()?, number(take()?)?, number(take()?)?);
        let mut seen = Snapshot { xmax, open: Vec::new(), upto, low };
        let last_tx = take()?;
        let mut reading = None;
        if is_reading {
            let (xmax, upto, low) = (take()?, number(take()?)?, number(take()?)?);
            let newer = Snapshot { xmax, open: Vec::new(), upto, low };
            reading = Some(Reading { newer, mark_tx: take()?, after: number(take()?)? });
        }
        let mut tx = 0u64;
        while !rest.is_empty() {
            let entry = take_number(&mut rest)?;
            tx = tx.checked_add(entry >> 2).filter(|next| *next > tx)?;
            match (entry & 1 > 0, entry & 2 > 0, &mut reading) {
                (true, false, _) => seen.open.push(tx),
                (false, true, Some(r)) => r.newer.open.push(tx),
                (true, true, Some(r)) => {
                    seen.open.push(tx);
                    r.newer.open.push(tx);
                }
                _ => return None,
            }
        }
        let is_sound =
            |s: &Snapshot| s.xmax > 0 && s.xmax < 1 << 62 && s.open.last().is_none_or(|tx| *tx < s.xmax);
        let is_sound = is_sound(&seen)
            && last_tx < 1 << 62
            && reading.as_ref().is_none_or(|r| is_sound(&r.newer) && r.mark_tx < 1 << 62);
        let server = Server { system_id: u64::from_be_bytes(*system_id), timeline };
        is_sound.then_some(Self { server, seen, last_tx, reading })
    }
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(open: &[u64], newer: Option<&[u64]>) -> Place {
        let seen = Snapshot { xmax: 9_000_000_000, open: open.to_vec(), upto: 70, low: 3 };
        let reading = newer.map(|open| Reading {
            newer: Snapshot { xmax: 9_000_000_100, open: open.to_vec(), upto: 90, low: 70 },
            mark_tx: 8_999_999_999,
            after: 1 << 40,
        });
        let server = Server { system_id: u64::MAX, timeline: 7 };
        Place { server, seen, last_tx: 8_999_999_990, reading }
    }

    #[test]
    fn places_read_back_and_nonsense_does_not() {
        for place in [
            place(&[], None),
            place(&[5, 6, 8_999_999_998], None),
            place(&[], Some(&[])),
            place(&[5, 6], Some(&[6, 8_999_999_998, 9_000_000_050])),
        ] {
            let bytes = place.to_bytes();
            assert_eq!(Place::parse(&bytes).as_ref(), Some(&place));
            for cut in 0..bytes.len() {
                assert_ne!(Place::parse(&bytes[..cut]).as_ref(), Some(&place), "cut at {cut}");
            }
            assert_eq!(Place::parse(&[bytes.as_slice(), &[0]].concat()), None);
        }
        assert_eq!(Place::parse(&place(&[9_000_000_000], None).to_bytes()), None, "not open, but to come");
        assert!(Place::parse(&[]).is_none() && Place::parse(&[255; 40]).is_none());
    }

    #[test]
    fn hundreds_of_open_transactions_fit_and_thousands_do_not() {
        let open = |n: u64| (0..n).map(|i| 8_000_000_000 + i * 20).collect::<Vec<_>>();
        assert!(place(&open(600), Some(&open(600))).fits());
        assert!(!place(&open(5_000), Some(&open(5_000))).fits());
    }

    /// What was seen is what outlives a crash: no more than the last event's transaction and the mark.
    #[test]
    fn a_place_is_clamped_to_what_was_seen() {
        let mut place = place(&[], Some(&[8_999_999_995, 9_000_000_050]));
        let reading = place.reading.clone().unwrap();
        let now = Snapshot { open: vec![8_999_999_996], ..Snapshot::origin() };
        place.seen.xmax = 10;
        let behind = place.behind(&reading, &now);
        assert_eq!((behind.seen.xmax, behind.seen.upto, behind.seen.low), (9_000_000_000, 90, 70));
        assert_eq!(behind.seen.open, [8_999_999_995, 8_999_999_996]);
        assert!(behind.seen.sees(8_999_999_990) && !behind.seen.sees(9_000_000_000));
    }

    #[test]
    fn snapshots_are_postgresqls() {
        for text in ["1:1:", "10:20:10,14,15"] {
            assert_eq!(Snapshot::read(text, 0, 0).unwrap().to_text(), text);
        }
        assert!(Snapshot::read("x", 0, 0).is_none());
    }
}
