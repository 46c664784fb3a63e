//! The feed is sealed while somebody leads: once, whoever dies, from its beginning after a restore, and only if it is wished.

mod bed;

use bed::{Bed, DEADLINE, new_job, who};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use windlass_core::decide::Cancel as Wish;
use windlass_core::settings::Settings;
use windlass_core::{Actor, JobId};
use windlass_engine::Shutdown;
use windlass_engine::seal_check::{SealCheck, SealReport};
use windlass_engine::service::{Leader, LiveSettings, SealReader};
use windlass_store::{Adopt, Cancel, Erase, Purge, PutSettings, ReadFeed, Store};

/// A process that leads and seals; it dies with the handle.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) -> AbortHandle {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(4_000);
    let sealing = SealReader::new(Arc::clone(&bed.store), LiveSettings::new(Arc::clone(&bed.store)))
        .follow(leader.leading());
    let sealing = sealing.gather(Duration::from_millis(20)).page(7);
    tasks.spawn(async move {
        let shutdown = Shutdown::new();
        tokio::join!(leader.run(shutdown.clone()), sealing.run(shutdown));
    })
}

async fn events(store: &dyn Store) -> u64 {
    let (mut count, mut after) = (0, None);
    loop {
        let request = ReadFeed { after, limit: 1_000, payloads: false };
        let page = store.feed(request, None).await.expect("the store").expect("a page");
        if page.events.is_empty() {
            return count;
        }
        count += page.events.len() as u64;
        after = Some(page.next);
    }
}

async fn check(bed: &Bed) -> SealReport {
    let check = SealCheck::new(Arc::clone(&bed.store), 10).await.expect("the store");
    let report = check.chain(&[], |_| {}).await.expect("the store");
    assert_eq!(report.problems, []);
    report
}

/// Waits until so many events are sealed, and no more.
async fn until_sealed(bed: &Bed, events: u64) {
    let looked = async {
        loop {
            let report = check(bed).await;
            assert!(report.events <= events, "{report:?}");
            if report.events == events {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(DEADLINE, looked).await.expect("it is sealed");
}

async fn cancelled(bed: &Bed) -> JobId {
    let id = bed.put("mail").await;
    let (actor, reason) = (Actor::engine(), Some("enough".to_owned()));
    let wish = Wish { actor, reason, force: true, force_after_ms: 0 };
    let wish = Cancel { job: id, wish, expected_version: None };
    bed.store.cancel(wish, None).await.expect("the store").expect("cancelled");
    id
}

on_every_store! {
    /// (seals): leaders die between reading and writing; every event is sealed, and none twice.
    #[test]
    async fn sealed_once_whoever_dies(bed: Bed) {
        let mut tasks = JoinSet::new();
        let mut dying = process(&bed, &mut tasks, "leader-0");
        for round in 1..4 {
            bed.put_all((0..40).map(|_| new_job("mail")).collect()).await;
            sleep(Duration::from_millis(40)).await;
            dying.abort();
            dying = process(&bed, &mut tasks, &format!("leader-{round}"));
            cancelled(&bed).await;
        }
        until_sealed(&bed, events(&*bed.store).await).await;
        tasks.shutdown().await;
    }

    /// (seals): the chain goes on in a new life, over the whole log; what is erased and removed then is on record.
    #[test]
    async fn sealed_anew_after_a_restore(bed: Bed) {
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "leader");
        let (erased, removed) = (cancelled(&bed).await, cancelled(&bed).await);
        until_sealed(&bed, 4).await;
        bed.store.adopt(Adopt { actor: Actor::api() }, None).await.expect("the store");
        until_sealed(&bed, 8).await;
        let erase = Erase { job: erased, actor: Actor::api(), expected_version: None };
        bed.store.erase(erase, None).await.expect("the store").expect("erased");
        until_sealed(&bed, 9).await;
        let purge = Purge { jobs: vec![(removed, 2)], archive: None };
        assert_eq!(bed.store.purge(purge, None).await, Ok(vec![Ok(())]));
        let report = check(&bed).await;
        assert_eq!((report.erased, report.removed), (4, 4), "each was sealed twice");
        let last = report.last.expect("a seal");
        assert_eq!(last.life.incarnation, 1);
        tasks.shutdown().await;
    }

    /// (seals): the setting stops the sealing and lets it go on where it stood.
    #[test]
    async fn sealed_only_if_wished(bed: Bed) {
        let set = async |seals, expected_version| {
            let settings = Settings { seals, ..Settings::default() };
            let wish = PutSettings { settings, expected_version, actor: Actor::api() };
            bed.store.put_settings(wish, None).await.expect("the store").expect("the version fits");
        };
        set(false, 0).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "leader");
        cancelled(&bed).await;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(check(&bed).await.seals, 0);
        set(true, 1).await;
        until_sealed(&bed, 2).await;
        tasks.shutdown().await;
    }
}
