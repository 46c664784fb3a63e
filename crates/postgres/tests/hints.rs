//! Wake-ups: from process to process, from SQL, after restarts, and without notifications.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use support::cluster::Cluster;
use support::proxy::Proxy;
use support::{database, empty_database, hand, soon, until, wait_for};
use tokio_postgres::Client;
use windlass_conformance::{Bed, completes};
use windlass_postgres::{Options, PostgresStore};
use windlass_store::{Feed, Hints};

async fn store(url: &str) -> Arc<PostgresStore> {
    let store = Arc::new(Options::new(url).pool(4).open().await.expect("a store"));
    until("notifications arrive", async || store.listening()).await;
    // It hints once when they begin to.
    let mut hints = store.hints();
    if *hints.due.borrow_and_update() == 0 {
        soon("the first hint", hints.due.changed()).await.expect("a store");
    }
    store
}

async fn notify(hand: &Client, channel: &str, message: &str) {
    hand.execute("SELECT pg_notify($1, $2)", &[&channel, &message]).await.expect("a notification");
}

async fn changed(what: &str, hints: &mut Hints) {
    soon(what, hints.due.changed()).await.expect("a store");
}

/// J9: what one process commits another hears of, without asking.
#[test]
fn a_commit_wakes_other_processes() {
    wait_for(async {
        let cluster = Cluster::start_on_port(&["fsync=off"]);
        let proxy = Proxy::before(cluster.port()).await;
        let (here, there) = (store(&cluster.url()).await, store(&proxy.url()).await);
        let (bed, mut hints) = (Bed::new(here), there.hints());
        let asked = proxy.tricks.statements.load(Ordering::Relaxed);
        for _ in 0..50 {
            hints.due.mark_unchanged();
            hints.feed.mark_unchanged();
            bed.a_job(None).await;
            changed("a due job", &mut hints).await;
            soon("events", hints.feed.changed()).await.expect("a store");
        }
        // Events that make nothing due are told too.
        for held in bed.claims("w", 50, None).await {
            hints.feed.mark_unchanged();
            bed.settles(&held, completes(), None).await.expect("it completes");
            soon("events", hints.feed.changed()).await.expect("a store");
        }
        // It did look now and then, but not a hundred times.
        let asked = proxy.tricks.statements.load(Ordering::Relaxed) - asked;
        assert!(asked < 10, "it asked {asked} times");
        drop((bed, there));
    });
}

/// M3: `notify => true` wakes; and the channel is the schema's own, so that stores in one database sleep in peace.
#[test]
fn sql_wakes_the_stores_of_its_own_schema() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        let mine = store(&url).await;
        let other = Arc::new(Options::new(&url).schema("other").open().await.expect("a store"));
        until("notifications arrive", async || other.listening()).await;
        let hand = hand(&url).await;
        let (mut at_mine, mut at_other) = (mine.hints(), other.hints());
        // Both have hinted since they began to listen.
        notify(&hand, "windlass", "default").await;
        changed("a word to mine", &mut at_mine).await;
        notify(&hand, "other", "default").await;
        changed("a word to the other", &mut at_other).await;
        let before = (*at_mine.due.borrow_and_update(), *at_other.due.borrow_and_update());
        notify(&hand, "windlass", "default").await;
        notify(&hand, "other", "default").await;
        changed("the second word", &mut at_other).await;
        changed("the second word", &mut at_mine).await;
        let after = (*at_mine.due.borrow_and_update(), *at_other.due.borrow_and_update());
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1), "each hears its own");
        hand.execute("SELECT other.enqueue('work', notify => true)", &[]).await.expect("a job");
        changed("a job from SQL", &mut at_other).await;
        hand.execute("SELECT windlass.enqueue('work', notify => true)", &[]).await.expect("a job");
        changed("a job from SQL", &mut at_mine).await;
        let second = Arc::new(Options::new(&url).schema("other").open().await.expect("a store"));
        until("notifications arrive", async || second.listening()).await;
        at_other.due.mark_unchanged();
        second.nudge();
        changed("a nudge of another process", &mut at_other).await;
    });
}

/// J9, (operations): a listener whose connection is ended subscribes again by itself and hints once, for what it missed.
#[test]
fn a_lost_listener_comes_back() {
    wait_for(async {
        let (url, _database) = database().await;
        let store = store(&url).await;
        let hand = hand(&url).await;
        for _ in 0..2 {
            let mut hints = store.hints();
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name = 'windlass notify'";
            assert_eq!(hand.execute(end, &[]).await.expect("an end"), 1);
            // Nothing was written: this is the hint of a fresh subscription.
            changed("the hint for what was missed", &mut hints).await;
            until("notifications arrive again", async || store.listening()).await;
            hints.due.mark_unchanged();
            notify(&hand, "windlass", "default").await;
            changed("a word", &mut hints).await;
        }
    });
}

/// (operations): a server that was killed and came back is heard again.
#[test]
fn a_restarted_server_is_heard_again() {
    wait_for(async {
        let mut cluster = Cluster::start(&["fsync=off"]);
        let url = cluster.url();
        let store = store(&url).await;
        cluster.kill();
        until("it is noticed", async || !store.listening()).await;
        cluster.restart();
        until("notifications arrive again", async || store.listening()).await;
        let (hand, mut hints) = (hand(&url).await, store.hints());
        notify(&hand, "windlass", "default").await;
        changed("a word", &mut hints).await;
        drop((store, hand));
    });
}

/// Counts warnings.
#[derive(Default)]
struct Warnings(AtomicU32);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target().starts_with("windlass")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        tracing::Id::from_u64(1)
    }
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

/// (operations): where notifications get lost silently, as behind a transaction-mode pooler, the store says so once, and
/// looks about once a second instead. A direct URL beside the pooler's mends it.
#[test]
fn a_deaf_store_says_so_once_and_looks_for_itself() {
    let warnings = Arc::new(Warnings::default());
    tracing::dispatcher::set_global_default(tracing::Dispatch::new(Arc::clone(&warnings)))
        .expect("a listener");
    wait_for(async {
        let cluster = Cluster::start_on_port(&["fsync=off"]);
        let proxy = Proxy::before(cluster.port()).await;
        proxy.tricks.deafen.store(true, Ordering::Relaxed);
        let store = Options::new(&proxy.url()).pool(4).open().await.expect("a store");
        let mut hints = store.hints();
        until("it says so", async || warnings.0.load(Ordering::Relaxed) > 0).await;
        assert!(!store.listening());
        let hand = hand(&cluster.url()).await;
        let asked = proxy.tricks.statements.load(Ordering::Relaxed);
        for _ in 0..2 {
            hints.due.mark_unchanged();
            hand.execute("SELECT windlass.enqueue('work')", &[]).await.expect("a job");
            changed("a look", &mut hints).await;
        }
        let asked = proxy.tricks.statements.load(Ordering::Relaxed) - asked;
        assert!(asked < 15, "one look finds it, not {asked} and a new subscription");
        // Idle: at most one look a second, once those that follow a find have grown rarer. Slower is no harm, so time
        // only has a lower bound.
        let look = async || {
            let before = proxy.tricks.statements.load(Ordering::Relaxed);
            let looked = async || proxy.tricks.statements.load(Ordering::Relaxed) > before;
            until("a look", looked).await;
        };
        for _ in 0..6 {
            look().await;
        }
        #[expect(clippy::disallowed_methods, reason = "it measures a pause")]
        let begun = Instant::now();
        for _ in 0..3 {
            look().await;
        }
        assert!(begun.elapsed().as_millis() >= 2_500, "three looks in {:?}", begun.elapsed());
        assert_eq!(warnings.0.load(Ordering::Relaxed), 1, "it is said once");
        drop(store);
        let store = Options::new(&proxy.url()).notify_url(&cluster.url()).open().await.expect("a store");
        until("notifications arrive by the direct way", async || store.listening()).await;
        drop((store, hand));
    });
}

/// (operations): a store that is dropped leaves no connection behind.
#[test]
fn a_dropped_store_leaves_nothing_running() {
    wait_for(async {
        let (url, _database) = database().await;
        let store = store(&url).await;
        let hand = hand(&url).await;
        let count = async || {
            let mine = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name LIKE 'windlass%'";
            hand.query_one(mine, &[]).await.expect("a count").get::<_, i64>(0)
        };
        assert!(count().await >= 2, "a pool and a listener");
        drop(store);
        until("its connections end", async || count().await == 0).await;
    });
}
