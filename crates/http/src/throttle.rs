//! How much one caller may ask of the server: wrong keys and tokens per minute, streams and connections at once. Whoever
//! asks for more is answered 429 with the seconds to wait, and costs neither a look into the store nor a line on record.

use crate::codes;
use crate::problem::Problem;
use axum::http::header;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use windlass_core::settings::WEBHOOKS_PER_MINUTE;
use windlass_core::{Name, Who};

/// The most callers that are kept apart.
const MOST: usize = 10_000;
/// Refusals of strangers that are put on record, per minute, whoever asks.
const RECORDED: u32 = 5;
/// Refusals of access that are logged, per minute.
const LOGGED: u32 = 120;

/// Limits of one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Wrong keys and tokens per minute.
    pub(crate) wrong: u32,
    /// Streams of events at once; for callers of this machine only if it is set.
    pub(crate) streams: Option<usize>,
    /// Connections at once; for callers of this machine only if it is set.
    pub(crate) connections: Option<usize>,
}

impl Limits {
    /// Streams and connections of a caller elsewhere when nothing is set.
    const ELSEWHERE: usize = 1_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self { wrong: 100, streams: None, connections: None }
    }
}

/// Who is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// An address; of IPv6, the network of one customer.
    Address(IpAddr),
    /// A key, by its name.
    Key(Who),
    /// Whoever calls in this process, or through another server's routes.
    Here,
}

impl Caller {
    /// The caller behind an address.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                if v6.is_loopback() { v6.into() } else { Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into() }
            }
            v4 => v4,
        })
    }

    /// Whether it is this machine, where a proxy may speak for everybody.
    fn is_here(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Key(_) => false,
            Self::Here => true,
        }
    }

    fn limit(&self, set: Option<usize>) -> usize {
        set.unwrap_or(if self.is_here() { usize::MAX } else { Limits::ELSEWHERE })
    }
}

/// The address that a connection came from, as an extension of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// So many per minute for each, refilled evenly.
#[derive(Debug)]
struct Budget<K> {
    /// May be set anew while it is spent.
    per_minute: AtomicU32,
    /// What is left, and when that was. A blocking lock: it is held for a look.
    left: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq + Clone> Budget<K> {
    fn new(per_minute: u32) -> Self {
        Self { per_minute: AtomicU32::new(per_minute), left: Mutex::default() }
    }

    fn left(&self) -> MutexGuard<'_, HashMap<K, (f64, Instant)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn full(&self) -> f64 {
        f64::from(self.per_minute.load(Ordering::Relaxed).max(1))
    }

    fn refilled(&self, (left, at): (f64, Instant)) -> f64 {
        let full = self.full();
        (left + at.elapsed().as_secs_f64() * full / 60.0).min(full)
    }

    /// In how many seconds there is something left again; none if there is now.
    fn wait(&self, who: &K) -> Option<u64> {
        let left = self.left().get(who).map_or(self.full(), |left| self.refilled(*left));
        let seconds = (1.0 - left) * 60.0 / self.full();
        (left < 1.0).then(|| seconds.ceil().max(1.0) as u64)
    }

    fn spend(&self, who: &K) {
        let mut all = self.left();
        if all.len() >= MOST && !all.contains_key(who) {
            all.retain(|_, left| self.refilled(*left) < self.full());
            if all.len() >= MOST {
                all.clear();
            }
        }
        let left = all.get(who).map_or(self.full(), |left| self.refilled(*left));
        all.insert(who.clone(), ((left - 1.0).max(0.0), Instant::now()));
    }

    /// Spends one if there is one.
    fn take(&self, who: &K) -> bool {
        let is_left = self.wait(who).is_none();
        if is_left {
            self.spend(who);
        }
        is_left
    }
}

/// Counts of callers, and what each may do.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: Limits,
    wrong: Budget<Caller>,
    recorded: Budget<()>,
    logged: Budget<()>,
    webhooks: Budget<Name>,
    streams: Arc<Open>,
    connections: Arc<Open>,
}

/// How much each caller has open.
type Open = Mutex<HashMap<Caller, usize>>;

/// Counts one thing that is open, for as long as it is held.
#[derive(Debug)]
pub(crate) struct Counted {
    open: Arc<Open>,
    caller: Caller,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.caller);
            }
        }
    }
}

fn count(open: &Arc<Open>, caller: &Caller, limit: usize) -> Option<Counted> {
    let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.get(caller).copied().unwrap_or_default();
    (known < limit).then(|| {
        all.insert(caller.clone(), known + 1);
        Counted { open: Arc::clone(open), caller: caller.clone() }
    })
}

impl Throttle {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            wrong: Budget::new(limits.wrong),
            recorded: Budget::new(RECORDED),
            logged: Budget::new(LOGGED),
            webhooks: Budget::new(WEBHOOKS_PER_MINUTE),
            streams: Arc::default(),
            connections: Arc::default(),
        }
    }

    /// Refuses a caller that showed too many wrong keys or tokens within a minute.
    pub(crate) fn check_wrong(&self, caller: &Caller) -> Result<(), Problem> {
        match self.wrong.wait(caller) {
            None => Ok(()),
            Some(seconds) => {
                let detail = format!(
                    "too many wrong keys or tokens came from here; wait {seconds} s, then use the right one"
                );
                Err(too_many(detail, seconds))
            }
        }
    }

    /// A caller showed a wrong key or token.
    pub(crate) fn wrong(&self, caller: &Caller) {
        self.wrong.spend(caller);
    }

    /// Whether one more refusal of a stranger goes on record.
    pub(crate) fn may_record(&self) -> bool {
        self.recorded.take(&())
    }

    /// Whether one more refusal of access is logged.
    pub(crate) fn may_log(&self) -> bool {
        self.logged.take(&())
    }

    /// Counts a webhook of a trigger, or refuses one too many.
    pub(crate) fn webhook(&self, trigger: &Name, per_minute: u32) -> Result<(), Problem> {
        self.webhooks.per_minute.store(per_minute, Ordering::Relaxed);
        if let Some(seconds) = self.webhooks.wait(trigger) {
            let detail = format!(
                "{trigger} takes {per_minute} webhooks a minute; send it again in {seconds} s, or raise webhooks_per_minute in \
                 the settings"
            );
            return Err(too_many(detail, seconds));
        }
        self.webhooks.spend(trigger);
        Ok(())
    }

    /// Counts a stream of events, or refuses one too many.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<Counted, Problem> {
        let limit = caller.limit(self.limits.streams);
        count(&self.streams, caller, limit).ok_or_else(|| {
            let detail =
                format!("{limit} streams are open already, which is the most for one caller; close some");
            too_many(detail, 5)
        })
    }

    /// Counts a connection; none if it is one too many.
    pub(crate) fn connection(&self, caller: &Caller) -> Option<Counted> {
        count(&self.connections, caller, caller.limit(self.limits.connections))
    }
}

fn too_many(detail: String, seconds: u64) -> Problem {
    Problem::new(codes::TOO_MANY_REQUESTS, detail).header(header::RETRY_AFTER, &seconds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_budget_is_spent_and_refilled() {
        let budget = Budget::new(6);
        for _ in 0..6 {
            assert!(budget.take(&"a"));
        }
        assert!(!budget.take(&"a") && budget.take(&"b"));
        assert_eq!(budget.wait(&"a"), Some(10));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(budget.take(&"a") && !budget.take(&"a"));
    }

    #[test]
    fn an_address_is_one_caller() {
        let at = |text: &str| Caller::at(text.parse().unwrap());
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert!(at("::1").is_here() && at("127.0.0.9").is_here() && !at("10.0.0.1").is_here());
    }

    #[test]
    fn what_is_open_is_counted_while_it_is_held() {
        let throttle = Throttle::new(Limits { streams: Some(1), ..Limits::default() });
        let one = throttle.stream(&Caller::Here).unwrap();
        assert_eq!(throttle.stream(&Caller::Here).unwrap_err().code().status, 429);
        drop(one);
        assert!(throttle.stream(&Caller::Here).is_ok());
    }
}
