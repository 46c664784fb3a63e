//! Renewal, apart from handlers: at a third of the lease, one statement for all; and the clock that ends what was not
//! renewed in time.

use crate::attempt::is_loss;
use crate::control::Standing;
use crate::health;
use crate::holdings::Holdings;
use crate::leases::Held;
use crate::reach::Reach;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::limits::BATCH_MAX;
use windlass_core::{LeaseMs, Refusal, Status};
use windlass_store::{Extend, Extended, StoreError};

/// How soon a lease whose row was locked is asked for again, at most.
const BUSY_AGAIN: Duration = Duration::from_millis(500);

/// Renews until the worker has ended. Renewals run beside each other: a slow one delays no other.
pub(crate) async fn renew(reach: Arc<Reach>, holdings: Arc<Holdings>) {
    let mut sent = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = holdings.leases.renewal() => {}
            Some(()) = sent.next() => continue,
        }
        // Leases of different lengths are renewed each for its own.
        let mut lengths: BTreeMap<LeaseMs, Vec<Held>> = BTreeMap::new();
        for lease in holdings.leases.due(Instant::now()) {
            lengths.entry(lease.lease_ms).or_default().push(lease);
        }
        for (lease_ms, leases) in lengths {
            // Its answer moves this; without one the next renewal is due when this one is given up.
            holdings.leases.again_at(&leases, Instant::now() + patience(lease_ms));
            for chunk in leases.chunks(BATCH_MAX) {
                sent.push(extend(&reach, &holdings, lease_ms, chunk.to_vec()));
            }
        }
    }
}

/// How long a lease lasts.
fn full(lease_ms: LeaseMs) -> Duration {
    Duration::from_millis(lease_ms.get().unsigned_abs())
}

/// How long an answer is waited for: a call that hangs must not take the next one's time.
fn patience(lease_ms: LeaseMs) -> Duration {
    full(lease_ms) / 3
}

async fn extend(reach: &Reach, holdings: &Holdings, lease_ms: LeaseMs, leases: Vec<Held>) {
    let request = Extend {
        leases: leases.iter().map(|l| (l.attempt.job_id(), l.attempt.lease_token())).collect(),
        extend_ms: lease_ms,
    };
    let sent = Instant::now();
    // A renewal may be sent twice.
    let call = async {
        match reach.renewal_store.get() {
            Some(renewal_store) => renewal_store.extend(request, None).await,
            None => reach.ask(reach.source.extend(request)).await,
        }
    };
    let answer = tokio::time::timeout(patience(lease_ms), call).await;
    match answer.unwrap_or_else(|_| Err(StoreError::Unavailable("a renewal took too long".into()))) {
        Ok(answers) => {
            reach.health.answered(health::Line::Beat);
            for (lease, answer) in leases.iter().zip(answers) {
                heard(holdings, lease, answer, sent);
            }
        }
        Err(error) => {
            reach.health.failed(health::Line::Beat, &error);
            holdings
                .leases
                .again_at(&leases, Instant::now() + (full(lease_ms) / 12).min(Duration::from_secs(2)));
        }
    }
}

fn heard(holdings: &Holdings, lease: &Held, answer: Result<Extended, Refusal>, sent: Instant) {
    let control = lease.attempt.control();
    match answer {
        Ok(extended) => {
            holdings.leases.renewed(&lease.attempt, sent);
            if extended.cancel_requested {
                control.cancel();
            }
        }
        // Another transaction holds its row: this one is asked for again by itself, soon.
        Err(Refusal::Busy) => {
            let soon = (full(lease.lease_ms) / 12).min(BUSY_AGAIN);
            holdings.leases.again_at(std::slice::from_ref(lease), Instant::now() + soon);
        }
        // Its runner settles it just now, or has: that answer counts.
        Err(_) if control.standing() != Standing::Running => {
            holdings.leases.again_at(std::slice::from_ref(lease), Instant::now() + Duration::from_secs(1));
        }
        // Completed in the handler's own transaction: what is left of the handler is no matter of the lease.
        Err(Refusal::Finished(Status::Completed)) => holdings.leases.remove([&lease.attempt]),
        Err(refusal) if is_loss(&refusal) => lose(holdings, lease, &refusal.to_string()),
        Err(refusal) => {
            tracing::error!(job = %lease.attempt.job_id(), %refusal, "a renewal was refused");
            holdings.leases.again_at(std::slice::from_ref(lease), Instant::now() + Duration::from_secs(1));
        }
    }
}

fn lose(holdings: &Holdings, lease: &Held, why: &str) {
    if lease.attempt.control().move_to(Standing::Lost) {
        let (job, attempt) = (lease.attempt.job_id(), lease.attempt.number());
        tracing::warn!(%job, attempt, why, "the lease is lost; the handler is dropped and its result discarded");
    }
    holdings.leases.remove([&lease.attempt]);
}

/// Ends attempts whose lease was not renewed in time, by this process's own clock: until the worker has ended.
pub(crate) async fn watch(holdings: Arc<Holdings>) {
    loop {
        holdings.leases.expiry().await;
        for (attempt, in_grace) in holdings.leases.expired(Instant::now()) {
            // Within the grace only this worker may act: it gives the job back as soon as the handler is gone.
            let to = if in_grace { Standing::GivenBack } else { Standing::Lost };
            if attempt.control().move_to(to) {
                let (job, number) = (attempt.job_id(), attempt.number());
                tracing::warn!(%job, attempt = number, "the lease ran out before it was renewed; the handler is dropped");
            }
            if in_grace {
                holdings.metrics.lease_lost.increment(1);
            } else {
                holdings.leases.remove([&attempt]);
            }
        }
    }
}
