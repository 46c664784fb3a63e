//! Moving house: from SQLite to PostgreSQL and back, whatever lived there, interrupted anywhere.

mod support;

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use tempfile::TempDir;
use windlass_conformance::{
    Bed, Made, completes, differential_moved, fails_for_good, invariants, name, waits_for_signal, who,
};
use windlass_core::registry::PauseQueue;
use windlass_core::{Actor, EventKind, FeedCursor, JobId, LeaseMs, Status};
use windlass_engine::moving::{Move, MoveError, Moved};
use windlass_engine::seal_check::{KeptHead, SealCheck};
use windlass_memory::MemoryStore;
use windlass_postgres::PostgresStore;
use windlass_sqlite::SqliteStore;
use windlass_store::house::{DERIVED, House, STAYS, TABLES};
use windlass_store::{
    AcquireTerm, Advance, Claimed, Enqueue, Findings, Purge, ReadFeed, Settle, SettleItem, Store, StoreError,
    WriteLogs,
};

/// A store somewhere.
#[derive(Debug, Clone)]
enum Place {
    File(PathBuf),
    Server(String),
}

impl Place {
    /// As servers and workers open it.
    async fn open(&self) -> Arc<dyn House> {
        match self {
            Self::File(path) => Arc::new(SqliteStore::open(path).await.expect("a store")),
            Self::Server(url) => Arc::new(PostgresStore::open(url).await.expect("a store")),
        }
    }

    async fn open_to_move(&self) -> Arc<dyn House> {
        match self {
            Self::File(path) => {
                Arc::new(windlass_sqlite::Options::new(path).mover().open().expect("a store"))
            }
            Self::Server(url) => {
                let options = windlass_postgres::Options::new(url).pool(4).mover();
                Arc::new(options.open().await.expect("a store"))
            }
        }
    }
}

/// Two places, and what has to stay for as long as they are used.
struct Houses {
    from: Place,
    to: Place,
    _folder: TempDir,
    _databases: Vec<support::Database>,
}

fn file(folder: &Path, name: &str) -> Place {
    Place::File(folder.join(name))
}

async fn houses(is_from_file: bool) -> Houses {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, database) = support::database().await;
    let (a, b) = (file(folder.path(), "a.db"), Place::Server(url));
    let (from, to) = if is_from_file { (a, b) } else { (b, a) };
    Houses { from, to, _folder: folder, _databases: vec![database] }
}

impl Houses {
    async fn move_of(&self) -> Move {
        Move {
            from: (self.from.open_to_move().await, "the old store".to_owned()),
            to: (self.to.open_to_move().await, "the new store".to_owned()),
            actor: Actor::parse("actor", "cli:mover").expect("an actor"),
        }
    }

    async fn moves(&self) -> Result<Moved, MoveError> {
        self.move_of().await.run(&|_| {}).await
    }
}

/// Rows carried as they are, all of them: nobody is taken a job from.
async fn carried(from: &dyn House, to: &dyn House) {
    for table in TABLES {
        let rows = from.rows(table, None, 100_000).await.expect("rows");
        to.put(table, rows).await.expect("they are taken");
    }
    to.derive().await.expect("it derives");
    to.succeed(from.standing().await.expect("it stands")).await.expect("it succeeds");
}

async fn model() -> Made {
    Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) }
}

#[test]
fn whatever_lived_in_a_file_lives_on_in_a_server() {
    let store = || async {
        let houses = houses(true).await;
        let store = houses.from.open().await;
        (Made { store: store.clone(), keep: Box::new(()) }, (store, houses))
    };
    differential_moved(12, model, store, |(from, houses)| async move {
        let to = houses.to.open_to_move().await;
        carried(&*from, &*to).await;
        Made { store: to, keep: Box::new(houses) }
    });
}

#[test]
fn whatever_lived_in_a_server_lives_on_in_a_file() {
    let store = || async {
        let houses = houses(false).await;
        let store = houses.from.open().await;
        (Made { store: store.clone(), keep: Box::new(()) }, (store, houses))
    };
    differential_moved(12, model, store, |(from, houses)| async move {
        let to = houses.to.open_to_move().await;
        carried(&*from, &*to).await;
        Made { store: to, keep: Box::new(houses) }
    });
}

fn enqueue(job: windlass_core::NewJob) -> Enqueue {
    Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None }
}

/// What a test looks at afterwards.
struct Lived {
    bed: Bed,
    running: Claimed,
    done: JobId,
    waiting: JobId,
    /// The head of its seals, which was kept elsewhere, and a job that was removed after it was sealed.
    head: KeptHead,
    removed: JobId,
    /// Where a reader stands, and what it has not seen.
    unseen: Vec<(JobId, i64)>,
}

async fn all_events(store: &dyn Store, mut after: Option<FeedCursor>) -> Vec<(JobId, i64)> {
    let mut seen = Vec::new();
    loop {
        let request = ReadFeed { after, limit: 1_000, payloads: true };
        let page = store.feed(request, None).await.expect("the store answers").expect("the cursor holds");
        if page.events.is_empty() {
            return seen;
        }
        seen.extend(page.events.iter().map(|e| (e.event.job, e.event.version)));
        after = Some(page.next);
    }
}

/// A little of everything, and a reader in the middle of it.
async fn lives(house: &Arc<dyn House>) -> Lived {
    let store: Arc<dyn Store> = house.clone();
    let bed = Bed::new(store);
    let mut tagged = bed.job("tagged");
    tagged.facts.tags = vec![name("z"), name("a"), name("b-c")];
    bed.enqueue(tagged, None).await;
    for _ in 0..3 {
        bed.a_job(None).await;
    }
    let held = bed.claims("w1", 3, None).await;
    let done = held[0].job.id;
    bed.settles(&held[0], completes(), None).await.expect("it completes");
    bed.settles(&held[1], fails_for_good("broken"), None).await.expect("it fails");
    let lines = vec!["one line".to_owned(), "another".to_owned()];
    let logs = WriteLogs { job: held[2].job.id, token: held[2].lease.token, lines };
    bed.store.write_logs(logs, None).await.expect("the store answers").expect("it is logged");
    bed.seals(done).await;
    let removed = bed.row(held[1].job.id).await;
    let purge = Purge { jobs: vec![(removed.id, removed.version)], archive: Some("a file".to_owned()) };
    let purged = bed.store.purge(purge, None).await.expect("the store answers");
    assert!(purged.iter().all(Result::is_ok), "{purged:?}");
    let seal = bed.store.last_seal((), None).await.expect("the store answers").expect("it is sealed");
    let head = KeptHead { store: seal.life.store, head: seal.head() };
    let removed = removed.id;
    let middle = bed.store.feed_head((), None).await.expect("the end of the feed");
    // The one who sealed still leads.
    let acquire = AcquireTerm { name: name("leader"), holder: who("sealer"), ttl_ms: LeaseMs::DEFAULT };
    let term = bed.store.acquire_term(acquire, None).await.expect("the store answers").expect("it leads");
    for reader in ["early", "late"] {
        let to =
            if reader == "early" { middle.clone() } else { bed.store.feed_head((), None).await.expect("it") };
        let advance = Advance {
            term: name("leader"),
            epoch: term.epoch,
            reader: name(reader),
            from: None,
            to,
            findings: Findings::default(),
        };
        bed.store.advance(advance, None).await.expect("the store answers").expect("it moves");
        bed.a_job(None).await;
    }
    let waiting = bed.enqueue(bed.job_in("asks", "other"), None).await.id;
    let asks = bed.claims_from("w2", &["other"], 1, None).await.remove(0);
    bed.settles(&asks, waits_for_signal("paid"), None).await.expect("it waits");
    let pause = PauseQueue { name: name("other"), pause: true, actor: Actor::api() };
    bed.store.pause_queue(pause, None).await.expect("it is paused");
    let unseen = all_events(&*bed.store, Some(middle)).await;
    let running = held.into_iter().nth(2).expect("three were claimed");
    Lived { bed, running, done, waiting, head, removed, unseen }
}

/// What moved is there, whole, and goes on.
async fn check(houses: &Houses, lived: &Lived) {
    let old = houses.from.open().await;
    let new = houses.to.open().await;
    // The old one says where its jobs are.
    let bed = lived.bed.around(old.clone() as Arc<dyn Store>);
    let refused = bed.store.enqueue(enqueue(bed.job("late")), None).await;
    let why = match refused {
        Err(StoreError::Closed(why)) => why,
        other => panic!("it takes writes: {other:?}"),
    };
    assert!(why.contains("move to the new store"), "{why}");
    let bed = lived.bed.around(new.clone() as Arc<dyn Store>);
    // A job that ran is taken from its holder, and nobody counts that.
    let running = &lived.running;
    let row = bed.row(running.job.id).await;
    assert_eq!((row.status, row.retries, row.crashes), (Status::Retry, 0, 0));
    let log = bed.log(running.job.id).await;
    assert!(matches!(log.last().map(|e| &e.what), Some(EventKind::JobReleased(r)) if !r.lost), "{log:?}");
    let item = SettleItem { job: running.job.id, token: running.lease.token, outcome: completes() };
    let stale =
        bed.store.settle(Settle { items: vec![item] }, None).await.expect("the store answers").remove(0);
    assert!(stale.is_err(), "{stale:?}");
    let again = bed.claims("w3", 10, None).await;
    let again = again.iter().find(|held| held.job.id == running.job.id).expect("it is handed out again");
    assert!(again.lease.fence > running.lease.fence, "{} {}", again.lease.fence, running.lease.fence);
    assert_eq!(bed.row(lived.done).await.status, Status::Completed);
    assert_eq!(bed.row(lived.waiting).await.status, Status::Waiting);
    // Seals fit, and so does the head that was kept of them; what was removed is on record.
    let seals = SealCheck::new(Arc::clone(&bed.store), 10).await.expect("the store answers");
    let report = seals.chain(&[lived.head], |_| {}).await.expect("the store answers");
    assert_eq!((report.problems, report.removed), (vec![], 3));
    let mut other = lived.head;
    other.head.hash[0] ^= 1;
    let report = seals.chain(&[lived.head, other], |_| {}).await.expect("the store answers");
    let [(None, why)] = report.problems.as_slice() else { panic!("{report:?}") };
    assert!(why.contains("the chain was made anew"), "{why}");
    let removals = bed.store.removals(vec![lived.removed], None).await.expect("the store answers");
    assert_eq!(removals.len(), 1);
    // Readers go on where they were.
    let places = bed.store.places((), None).await.expect("the store answers");
    let early = places.iter().find(|place| place.reader == name("early")).expect("it has a place");
    let mut seen = all_events(&*bed.store, early.cursor.clone()).await;
    seen.retain(|event| lived.unseen.contains(event) || event.1 == 1);
    assert_eq!(seen, lived.unseen, "in order, nothing lost, nothing twice");
    // Numbers go on above.
    let before = all_events(&*bed.store, None).await.len();
    bed.a_job(None).await;
    assert_eq!(all_events(&*bed.store, None).await.len(), before + 1);
    invariants::check(&bed).await;
}

async fn moves_whole(is_from_file: bool) {
    let houses = houses(is_from_file).await;
    let lived = {
        let old = houses.from.open().await;
        lives(&old).await
    };
    let moved = houses.moves().await.expect("it moves");
    assert_eq!(moved.let_go, 1);
    check(&houses, &lived).await;
    assert!(matches!(houses.moves().await, Err(MoveError::Done(..))));
    assert!(matches!(houses.move_of().await.give_up().await, Err(MoveError::Done(..))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_moves_to_a_server_whole() {
    moves_whole(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_moves_to_a_file_whole() {
    moves_whole(false).await;
}

/// Runs for so many turns and is then dropped, as a process that is killed; answers if it came to its end.
async fn for_turns<T>(run: impl Future<Output = T>, turns: usize) -> Option<T> {
    let mut run = pin!(run);
    let mut left = turns;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        run.as_mut().poll(cx).map(Some)
    })
    .await
}

async fn interrupted(is_from_file: bool) {
    let houses = houses(is_from_file).await;
    let lived = {
        let old = houses.from.open().await;
        lives(&old).await
    };
    let (mut turns, mut kills) = (1, 0);
    loop {
        let moving = houses.move_of().await;
        match for_turns(moving.run(&|_| {}), turns).await {
            None => (turns, kills) = (turns + 3, kills + 1),
            Some(moved) => {
                break moved.map(drop).or_else(|error| match error {
                    MoveError::Done(..) => Ok(()),
                    other => Err(other),
                });
            }
        }
    }
    .expect("it moves");
    assert!(kills > 10, "it was interrupted {kills} times");
    check(&houses, &lived).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_a_server_goes_on_wherever_it_was_interrupted() {
    interrupted(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_a_file_goes_on_wherever_it_was_interrupted() {
    interrupted(false).await;
}

/// What was acknowledged before the store was closed has moved; what came later was refused. Nothing is between.
async fn raced(is_from_file: bool) {
    let houses = houses(is_from_file).await;
    let old = houses.from.open().await;
    let over = Arc::new(AtomicBool::new(false));
    let bed = Bed::new(old.clone() as Arc<dyn Store>);
    let writers = (0..8).map(|n| {
        let (bed, over) = (bed.clone(), over.clone());
        async move {
            let mut taken = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                let job = bed.job_in("raced", &format!("q{n}"));
                match bed.store.enqueue(enqueue(job), None).await {
                    Ok(Ok(made)) => taken.extend(made.iter().map(|job| job.id)),
                    Ok(Err(refused)) => panic!("refused: {refused:?}"),
                    Err(StoreError::Closed(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            taken
        }
    });
    let moving = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let moved = houses.moves().await;
        over.store(true, Ordering::Relaxed);
        moved
    };
    let (moved, taken) = tokio::join!(moving, futures_util::future::join_all(writers));
    moved.expect("it moves");
    let taken: BTreeSet<_> = taken.into_iter().flatten().collect();
    assert!(!taken.is_empty());
    let new = houses.to.open().await;
    let found = invariants::every_job(&Bed::new(new as Arc<dyn Store>)).await;
    let found: BTreeSet<_> = found.iter().map(|job| job.id).collect();
    assert_eq!(taken, found);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_a_file_lose_nothing_that_was_acknowledged() {
    raced(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_a_server_lose_nothing_that_was_acknowledged() {
    raced(false).await;
}

/// A stranger in the middle of a transaction delays the closing, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_closed_once_a_stranger_lets_go_of_it() {
    let houses = houses(false).await;
    let Place::Server(url) = &houses.from else { panic!("it is a server") };
    let old = houses.from.open().await;
    let bed = Bed::new(old.clone() as Arc<dyn Store>);
    let stranger = support::hand(url).await;
    stranger.batch_execute("BEGIN; SELECT windlass.enqueue('theirs')").await.expect("a job of its own");
    let working = async {
        for _ in 0..20 {
            bed.a_job(None).await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(old.standing().await.expect("it stands").closed, None);
        stranger.batch_execute("COMMIT").await.expect("it lets go");
    };
    let (moved, ()) = tokio::join!(houses.moves(), working);
    moved.expect("it moves");
    let new = houses.to.open().await;
    assert_eq!(invariants::every_job(&Bed::new(new as Arc<dyn Store>)).await.len(), 21);
}

/// Who may not own the store moves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_app_role_closes_nothing() {
    let houses = houses(false).await;
    let Place::Server(url) = &houses.from else { panic!("it is a server") };
    let app = support::as_app(url).await;
    let options = windlass_postgres::Options::new(&app).migrate(false).mover();
    let from: Arc<dyn House> = Arc::new(options.open().await.expect("a store"));
    let moving = Move { from: (from, "the old store".to_owned()), ..houses.move_of().await };
    let refused = moving.run(&|_| {}).await;
    assert!(matches!(refused, Err(MoveError::Store(..))), "{refused:?}");
    let old = houses.from.open().await;
    assert_eq!(old.standing().await.expect("it stands").closed, None);
    Bed::new(old as Arc<dyn Store>).a_job(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_moved_is_refused_and_nothing_changes() {
    let houses = houses(true).await;
    let (old, new) = (houses.from.open().await, houses.to.open().await);
    let (bed, there) = (Bed::new(old.clone() as Arc<dyn Store>), Bed::new(new.clone() as Arc<dyn Store>));
    let job = bed.a_job(None).await;
    there.a_job(None).await;
    assert!(matches!(houses.moves().await, Err(MoveError::NotEmpty(_, "job_events"))));
    assert_eq!(old.standing().await.expect("it stands").closed, None);
    assert_eq!(new.standing().await.expect("it stands").closed, None);
    let itself = Move { to: houses.move_of().await.from, ..houses.move_of().await };
    assert!(matches!(itself.run(&|_| {}).await, Err(MoveError::SameStore)));
    assert!(matches!(houses.move_of().await.give_up().await, Err(MoveError::NotMoving(..))));
    assert_eq!(bed.row(job).await.status, Status::Pending);
    bed.a_job(None).await;
    there.a_job(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_given_up_leaves_the_old_store_as_it_was() {
    for is_from_file in [true, false] {
        let houses = houses(is_from_file).await;
        let old = houses.from.open().await;
        let lived = lives(&old).await;
        let closed = for_turns(houses.move_of().await.run(&|_| {}), 40).await;
        assert!(closed.is_none(), "it was to be interrupted");
        // Whether it had come to closing the old one or not.
        let given_up = houses.move_of().await.give_up().await;
        assert!(matches!(given_up, Ok(()) | Err(MoveError::NotMoving(..))), "{given_up:?}");
        let bed = &lived.bed;
        bed.settles(&lived.running, completes(), None).await.expect("its holder goes on");
        // Another store takes no jobs of the one that was given up.
        let into = Place::open(&houses.to).await.standing().await.expect("it stands").closed;
        assert!(into.is_some_and(|why| !why.away));
    }
}

/// A move that was given up when all had arrived is not taken for done: what the old store did since would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_arrived_before_a_move_was_given_up_is_never_opened() {
    for is_from_file in [true, false] {
        let houses = houses(is_from_file).await;
        let old = houses.from.open().await;
        let lived = lives(&old).await;
        let mut turns = 1;
        while !houses
            .to
            .open()
            .await
            .standing()
            .await
            .expect("it stands")
            .closed
            .is_some_and(|why| why.arrived)
        {
            let moved = for_turns(houses.move_of().await.run(&|_| {}), turns).await;
            assert!(moved.is_none(), "it was to be interrupted: {moved:?}");
            turns += 4;
        }
        houses.move_of().await.give_up().await.expect("it is given up");
        let late = lived.bed.a_job(None).await;
        let again = houses.moves().await;
        assert!(matches!(again, Err(MoveError::NotEmpty(..))), "{again:?}");
        assert_eq!(lived.bed.row(late).await.status, Status::Pending);
        lived.bed.a_job(None).await;
        // Nobody uses what was left behind; but every database of a test is looked at when it is dropped.
        houses.to.open_to_move().await.derive().await.expect("it derives");
    }
}

/// Law: who adds a table or a column says how it moves.
#[tokio::test(flavor = "multi_thread")]
async fn every_table_and_column_moves_or_is_said_to_stay() {
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    for table in TABLES {
        known.extend(table.columns.iter().map(|(column, _)| (table.name.to_owned(), (*column).to_owned())));
    }
    let moves = |table: &String| !STAYS.contains(&table.as_str());
    let (url, _database) = support::database().await;
    let hand = support::hand(&url).await;
    let columns = "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped";
    let found = hand.query(columns, &[]).await.expect("columns");
    let found: BTreeSet<(String, String)> =
        found.iter().map(|row| (row.get(0), row.get(1))).filter(|(table, _)| moves(table)).collect();
    let derived = DERIVED.iter().map(|(table, column)| ((*table).to_owned(), (*column).to_owned()));
    let mut in_server = known.clone();
    in_server.extend(derived);
    assert_eq!(found, in_server);
    // The other database has the same, with tags in a table of their own.
    let schema = windlass_sqlite::migrations_as_sql();
    for table in TABLES {
        let start = schema.find(&format!("CREATE TABLE {} (", table.name)).expect("it has the table");
        let text = &schema[start..start + schema[start..].find("STRICT").expect("an end")];
        let has = |column: &str| text.lines().any(|line| line.trim().starts_with(&format!("{column} ")));
        for (column, _) in table.columns.iter().filter(|(column, _)| *column != "tags") {
            assert!(has(column), "{}.{column}", table.name);
        }
        let lines = text.lines().skip(1).map(str::trim).filter(|line| {
            line.split(' ').nth(1).is_some() && line.starts_with(|c: char| c.is_ascii_lowercase())
        });
        let names: BTreeSet<_> = lines.filter_map(|line| line.split(' ').next()).collect();
        let ours: BTreeSet<_> =
            table.columns.iter().map(|(column, _)| *column).filter(|c| *c != "tags").collect();
        assert_eq!(names, ours, "{}", table.name);
    }
    let tables = schema.lines().filter_map(|line| line.strip_prefix("CREATE TABLE "));
    for table in
        tables.filter_map(|rest| rest.split([' ', '(']).find(|word| !word.is_empty() && *word != "IF"))
    {
        assert!(
            TABLES.iter().any(|t| t.name == table) || !moves(&table.to_owned()) || table == "NOT",
            "{table}"
        );
    }
}
