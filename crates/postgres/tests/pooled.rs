//! The law of a store, on PostgreSQL behind a pgbouncer that hands every transaction another server connection.
//!
//! `TEST_POOLER_URL` names a pooler before the server of `TEST_PG_URL`: `scripts/test` starts one for all tests. Without
//! it every test process starts its own, which ends with the process, however that ends.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use windlass_conformance::Made;
use windlass_postgres::{Options, PostgresStore};
use windlass_store::Feed;

async fn store() -> (PostgresStore, support::Database) {
    let (direct, database) = support::database().await;
    let name = direct.rsplit('/').next().expect("a database");
    let name = name.split('?').next().expect("a name");
    let (server, _) = pooler(&direct).rsplit_once('/').expect("a server");
    let store = Options::new(&format!("{server}/{name}")).pool(8).open().await.expect("a store");
    (store, database)
}

async fn make() -> Made {
    let (store, database) = store().await;
    Made { store: Arc::new(store), keep: Box::new(database) }
}

windlass_conformance::suite!(crate::make);

/// (operations): notifications get lost here, and a store knows it, also while nobody but itself uses the pooler: it would be
/// handed the same server connection each time, and hear itself.
#[test]
fn nobody_takes_a_pooler_for_a_listener() {
    support::wait_for(async {
        let (store, _database) = store().await;
        let mut hints = store.hints();
        // Once it was tried, everybody looks.
        if *hints.due.borrow_and_update() == 0 {
            support::soon("the end of the trial", hints.due.changed()).await.expect("a store");
        }
        assert!(!store.listening());
    });
}

/// Where the pooler is, which stands before the server of `direct`.
fn pooler(direct: &str) -> &'static str {
    static POOLER: OnceLock<(String, Option<Child>)> = OnceLock::new();
    let (url, _keeper) = POOLER.get_or_init(|| match std::env::var("TEST_POOLER_URL") {
        Ok(url) if !url.is_empty() => (url, None),
        _ => start(direct),
    });
    url
}

/// Starts one in a folder of its own. The shell reads until this process is gone, then ends it and tidies up.
fn start(direct: &str) -> (String, Option<Child>) {
    let folder = tempfile::Builder::new().prefix("windlass-pooler-").tempdir().expect("a folder").keep();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/pgbouncer");
    let keep = r#""$1" start "$0/run" "$2" >"$0/url" 2>"$0/said" || rm "$0/url"; read -r _; "$1" stop "$0/run"; rm -rf "$0""#;
    let mut keeper = Command::new("/bin/sh");
    keeper.arg("-c").arg(keep).arg(&folder).arg(script).arg(direct);
    // A group of its own: what interrupts the tests must not end the tidying.
    let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    // Its standard input stays open as long as this process lives, and it goes on for a moment after that.
    #[expect(clippy::zombie_processes, reason = "it outlives this process, which cannot wait for it")]
    let keeper = keeper.spawn().expect("a pooler");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("its user can enter");
    for _ in 0..2_400 {
        let url = std::fs::read_to_string(folder.join("url")).unwrap_or_default();
        if url.ends_with('\n') {
            return (url.trim().to_owned(), Some(keeper));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = std::fs::read_to_string(folder.join("said")).unwrap_or_default();
    panic!("pgbouncer did not start within two minutes: {said}");
}
