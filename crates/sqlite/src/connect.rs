//! Opening the file: pragmas, functions the guard asks for, file systems that cannot carry the locks.

use crate::error::OpenError;
use rusqlite::config::DbConfig;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::Path;
use std::time::Duration;
use windlass_core::{JobId, Secret};

/// Another process keeps the file for 50 ms at most; a foreign program may be slower. Then we give up and say so.
const BUSY_POLL: Duration = Duration::from_micros(500);
const BUSY_POLLS: i32 = 60_000;
/// Statements kept compiled per connection: more than there are files in `sql/`.
const STATEMENTS: usize = 128;
const PAGE_BYTES: u32 = 8_192;
/// Write-ahead pages before they go into the file: 32 MiB.
const CHECKPOINT_PAGES: u32 = 4_000;

/// File systems whose locks or shared memory do not work between machines.
const NETWORK: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "fuse.glusterfs",
    "lustre",
    "fuse.sshfs",
    "ncpfs",
    "ocfs2",
    "gfs2",
    "davfs",
    "fuse.s3fs",
    "fuse.rclone",
];

/// Makes a folder that only its owner may enter. One that is there stays as it is.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes an empty file that only its owner may read; SQLite gives those beside it the same rights. One that is there stays
/// as it is. Where none can be made, SQLite says so when it opens it, and what to do.
pub(crate) fn create_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// The connection that writes. It has changed nothing yet.
pub(crate) fn writer(path: &Path, create: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    open(path, if create { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags })
}

/// Makes the writer's connection durable and limits its file.
pub(crate) fn settle_in(conn: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    // Before the file is made. A batch of 500 moves writes whole pages by the dozen: half as many, twice as large,
    // cost a seventh less.
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    write_ahead(conn)?;
    // FULL: a commit is on the disk before anybody hears of it.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // A log that grew while somebody read is cut back to that size once its pages are in the file: SQLite itself would
    // keep it as it is.
    conn.pragma_update(None, "journal_size_limit", CHECKPOINT_PAGES * PAGE_BYTES)?;
    // The engine's own statements carry the law in their WHERE; triggers guard against everybody else.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    if let Some(pages) = max_pages {
        conn.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// Switches the file to the write-ahead log. While another process does the same to a new file, SQLite says that
/// it is busy without asking the handler, lest both wait for each other; so we ask again ourselves.
fn write_ahead(conn: &Connection) -> rusqlite::Result<()> {
    let mut polls = 0;
    loop {
        let switched = conn.pragma_update(None, "journal_mode", "WAL");
        let busy = matches!(&switched, Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        if !busy || polls == BUSY_POLLS {
            return switched;
        }
        polls += 1;
        std::thread::sleep(BUSY_POLL);
    }
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let mut conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_handler(Some(|polls| {
        std::thread::sleep(BUSY_POLL);
        polls < BUSY_POLLS
    }))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // A plan does not depend on the values bound: else SQLite compiles a statement anew for each, 50 µs a time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // 16 MiB hold what a batch touches in a store of any size. SQLite goes through all of it at a commit that has split
    // pages: with 64 MiB that was a thirteenth of a drained job's time.
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // How the guard knows us: any other program has this function too, and is told no.
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    conn.create_scalar_function("sqlite_compileoption_used", 1, flags, |_| Ok(true))?;
    rusqlite::vtab::array::load_module(&conn)?;
    conn.create_scalar_function("windlass_lease", 3, flags, lease_hash)?;
    Ok(conn)
}

/// `windlass_lease(secret, job, attempt)`: what the row keeps of a token.
fn lease_hash(call: &Context<'_>) -> rusqlite::Result<Vec<u8>> {
    let hash = Secret(call.get(0)?).token(JobId::from_bytes(call.get(1)?), call.get(2)?).hash();
    Ok(hash.0.to_vec())
}

/// Refuses a path on a network file system, where SQLite's locks corrupt files.
pub(crate) fn refuse_network(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    let Ok(mounts) = std::fs::read_to_string("/proc/mounts") else { return Ok(()) };
    match network_mount(&mounts, &folder) {
        None => Ok(()),
        Some(kind) => Err(OpenError::NetworkFileSystem { path: path.display().to_string(), kind }),
    }
}

/// The kind of network file system that `folder` is on, by the table of mounts.
fn network_mount(mounts: &str, folder: &Path) -> Option<String> {
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?.replace("\\040", " ");
        let kind = words.next()?.to_owned();
        folder.starts_with(&at).then_some((at.len(), kind))
    };
    let (_, kind) = mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len)?;
    NETWORK.contains(&kind.as_str()).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognised_by_the_nearest_mount() {
        let mounts = "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/far nfs4 rw 0 0\n/dev/sdb /mnt/far/near xfs rw 0 0\n\
                      //s/y /mnt/with\\040space cifs rw 0 0\n";
        let found = |p: &str| network_mount(mounts, Path::new(p));
        assert_eq!(found("/home/me"), None);
        assert_eq!(found("/mnt/far/jobs").as_deref(), Some("nfs4"));
        assert_eq!(found("/mnt/far/near/jobs"), None);
        assert_eq!(found("/mnt/with space/jobs").as_deref(), Some("cifs"));
    }
}
