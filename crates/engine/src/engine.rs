//! The engine room: one thread per worker, where everything but the handlers runs, and what its parts share.

use crate::cancels::{self, Watcher};
use crate::claim::{self, Claimer};
use crate::consume::{self, Consumer};
use crate::control::Standing;
use crate::due_timers::DueTimers;
use crate::handler::BoxError;
use crate::holdings::{Ended, Holdings};
use crate::lanes::Lines;
use crate::offer::Offers;
use crate::policy::LivePolicies;
use crate::profile::Profile;
use crate::reach::Reach;
use crate::register::{self, Registrar};
use crate::repeat::Pause;
use crate::run::at;
use crate::service::{Leader, LedServices, LiveSettings, Sweeper};
use crate::settle::{self, Settler};
use crate::shutdown::{Ending, Level, Shutdown};
use crate::task::{inside, keep, panic_message};
use crate::{health, heartbeat};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout};
use windlass_store::Store;

/// How long handlers have to be dropped, and what they held to be given back, when a worker ends at once.
const LAST: Duration = Duration::from_secs(2);

/// The parts of a worker. Each of its tasks is given those that it needs.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) reach: Arc<Reach>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) policies: Arc<LivePolicies>,
    pub(crate) offers: Offers,
    /// What messages of a broker name, if it consumes.
    pub(crate) consumer: Option<Arc<Consumer>>,
    pub(crate) ending: Ending,
    /// How long what runs may go on after the worker was asked to end.
    pub(crate) shutdown_deadline: Duration,
    /// Whether it leads when it can.
    pub(crate) schedules: bool,
}

/// Opens a store on the engine's own thread.
pub(crate) type Opener = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Store>, BoxError>> + Send>;

/// Runs a worker until it is to end, and then ends it.
pub(crate) async fn run(parts: Parts, mut ended: UnboundedReceiver<Ended>, renewal_store: Option<Opener>) {
    let Parts { reach, holdings, profile, lines, policies, offers, consumer, ending, .. } = parts.clone();
    let (soon, sweep_soon) = (Arc::new(DueTimers::default()), Arc::new(Notify::new()));
    let claimer = Arc::new(Claimer {
        reach: Arc::clone(&reach),
        holdings: Arc::clone(&holdings),
        profile: Arc::clone(&profile),
        lines: Arc::clone(&lines),
        policies: Arc::clone(&policies),
        offers,
        consumer,
        soon: Arc::clone(&soon),
        recall: Arc::default(),
        ending,
    });
    let settler = Arc::new(Settler {
        reach: Arc::clone(&reach),
        holdings: Arc::clone(&holdings),
        soon,
        sweep: Arc::clone(&sweep_soon),
    });
    let watcher = Arc::new(Watcher {
        reach: Arc::clone(&reach),
        holdings: Arc::clone(&holdings),
        lines: Arc::clone(&lines),
        identity: profile.identity.clone(),
    });
    let registrar = Arc::new(Registrar {
        reach: Arc::clone(&reach),
        profile: Arc::clone(&profile),
        lines,
        policies,
        holdings: Arc::clone(&holdings),
    });
    tokio::select! {
        // All of these end with the worker and not before; the order says who goes first when several are ready.
        biased;
        () = keep("heartbeat", || heartbeat::renew(Arc::clone(&reach), Arc::clone(&holdings))) => {}
        () = keep("watch", || heartbeat::watch(Arc::clone(&holdings))) => {}
        // Who led resigns before the worker is gone.
        _ = async { tokio::join!(work_and_end(&parts, &claimer), lead_until_the_end(&parts)) } => {}
        () = settle_all(&settler, &mut ended) => {}
        () = open_apart(&reach, renewal_store) => {}
        () = keep("cancels", || cancels::watch(Arc::clone(&watcher))) => {}
        () = keep("register", || register::run(Arc::clone(&registrar))) => {}
        () = keep("sweeper", || sweep(Arc::clone(&reach), Arc::clone(&sweep_soon))) => {}
        () = keep("consume", || consume(parts.clone())) => {}
    }
    let forgotten = reach.ask(reach.source.remove_worker(profile.identity.clone()));
    if !matches!(timeout(LAST, forgotten).await, Ok(Ok(()))) {
        tracing::debug!(worker = %profile.identity, "the worker could not take its name off the list; it expires there");
    }
    reach.health.stopped();
}

/// Takes in what messages of a broker name, if it should.
async fn consume(parts: Parts) {
    let Parts { reach, holdings, consumer, ending, .. } = parts;
    if let Some(consumer) = consumer {
        inside(&reach.runtime, consume::run(&consumer, &reach, &holdings, &ending)).await;
    }
    std::future::pending().await
}

/// Looks at deadlines as long as the worker lives.
async fn sweep(reach: Arc<Reach>, soon: Arc<Notify>) {
    let Some(store) = reach.store.clone() else { return std::future::pending().await };
    let sweeper = Sweeper::new(store).overdue(soon).asks_on(reach.runtime.clone());
    let sweeper = sweeper.heard(move |looked| match looked {
        Ok(()) => reach.health.answered(health::Line::Work),
        Err(error) => reach.health.failed(health::Line::Work, &error),
    });
    sweeper.run(Shutdown::new()).await;
}

/// Does what one process does for all while this worker leads, if it should. It leads only while no server waits to.
async fn lead_until_the_end(parts: &Parts) {
    let Some(store) = parts.reach.store.as_ref().filter(|_| parts.schedules) else { return };
    let shutdown = Shutdown::new();
    let lead = || {
        let leader = Leader::new(Arc::clone(store), parts.profile.identity.clone()).yields();
        let services = LedServices::new(Arc::clone(store), leader, LiveSettings::new(Arc::clone(store)));
        inside(&parts.reach.runtime, services.run(shutdown.clone()))
    };
    let end = async {
        parts.ending.reached(Level::Graceful).await;
        shutdown.graceful();
    };
    tokio::join!(keep("leader", lead), end);
}

/// Opens the heart's own store, again until it works.
async fn open_apart(reach: &Reach, open: Option<Opener>) {
    let Some(open) = open else { return std::future::pending().await };
    let mut pause = Pause::default();
    let mut said = false;
    while reach.renewal_store.get().is_none() {
        let opened = AssertUnwindSafe(open()).catch_unwind().await;
        match opened.unwrap_or_else(|panic| Err(panic_message(&*panic).into())) {
            Ok(store) => _ = reach.renewal_store.set(store),
            Err(error) => {
                if !said {
                    tracing::warn!(%error, "the store for renewals does not open; it is tried again until it does");
                    said = true;
                }
                tokio::time::sleep(pause.next()).await;
            }
        }
    }
    std::future::pending().await
}

async fn settle_all(settler: &Arc<Settler>, ended: &mut UnboundedReceiver<Ended>) {
    // What a panic takes with it is taken up when its lease is over.
    let ended = tokio::sync::Mutex::new(ended);
    keep("settle", || async { settle::run(Arc::clone(settler), *ended.lock().await).await }).await;
}

/// Claims; when it is time to end, lets finish what runs, and gives back what does not finish in time.
async fn work_and_end(parts: &Parts, claimer: &Arc<Claimer>) {
    let Parts { reach, holdings, ending, .. } = parts;
    let deadline = async {
        ending.reached(Level::Graceful).await;
        Instant::now().checked_add(parts.shutdown_deadline)
    };
    let ((), deadline) = tokio::join!(claim_until_the_end(parts, claimer), deadline);
    reach.health.stop();
    holdings.give_back(parts.lines.take_back(None));
    for attempt in holdings.leases.running() {
        attempt.control().stop();
    }
    tokio::select! {
        () = holdings.leases.emptied() => return answered(parts).await,
        () = at(deadline) => {}
        () = ending.reached(Level::Now) => {}
    }
    let running = holdings.leases.running();
    let worker = &parts.profile.identity;
    tracing::info!(%worker, running = running.len(), "ending: what still runs is given back");
    for attempt in running {
        // The runner drops the handler and only then gives the job back.
        attempt.control().move_to(Standing::GivenBack);
    }
    if timeout(LAST, holdings.leases.emptied()).await.is_err() {
        let held = holdings.leases.len();
        tracing::warn!(
            held,
            "some jobs could not be given back; they are taken up when their leases are over"
        );
    }
    answered(parts).await;
}

/// The broker hears what became of its messages. What it does not hear of comes again, and meets a job that has ended.
async fn answered(parts: &Parts) {
    if let Some(consumer) = &parts.consumer
        && timeout(LAST, consumer.emptied()).await.is_err()
    {
        tracing::debug!("the broker did not hear of all messages; it sends them again");
    }
}

/// A claim under way is heard to its end, because it may bring jobs, but it does not keep a worker for ever.
async fn claim_until_the_end(parts: &Parts, claimer: &Arc<Claimer>) {
    let enough = async {
        parts.ending.reached(Level::Graceful).await;
        tokio::select! {
            () = tokio::time::sleep(parts.shutdown_deadline) => {}
            () = parts.ending.reached(Level::Now) => {}
        }
        tokio::time::sleep(LAST).await;
    };
    tokio::select! {
        () = keep("claim", || claim::run(Arc::clone(claimer))) => {}
        () = enough => tracing::warn!("a claim was not answered; what it may have brought is taken up by others"),
    }
}
