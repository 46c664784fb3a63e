//! A file: whether it is whole, how large its log is, and what it stands on.

use super::{Finding, SKEW_MS, of_closing, ok, problem, warning};
use crate::fail::{Failure, Outcome};
use crate::settings::Settings;
use std::path::Path;
use windlass_sqlite::{Condition, Options};

/// A write-ahead log that grew past this is kept from the file by a reader that does not end.
const WAL_LARGE: u64 = 256 << 20;
/// Below this it is a matter of minutes.
const DISK_FULL: u64 = 64 << 20;

/// Looks at the file of the store. With less room than `low_bytes` it is a matter of hours.
pub async fn look(settings: &Settings, low_bytes: u64) -> Outcome<Vec<Finding>> {
    let url = &settings.store.value;
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path).to_owned();
    let opening = path.clone();
    let opened = tokio::task::spawn_blocking(move || Options::new(opening).create(false).open()).await;
    let store = opened.map_err(|e| Failure::failed(e.to_string()))?;
    let store = store.map_err(|e| Failure::unavailable(e.to_string()))?;
    let condition = store.condition().await?;
    let size = |ending: &str| std::fs::metadata(format!("{path}{ending}")).map_or(0, |file| file.len());
    let mut findings = of_file(&path, &condition);
    findings.extend(of_closing(&store).await?);
    findings.push(of_last(condition.ahead_ms));
    findings.push(of_log(size("-wal")));
    findings.push(of_file_system(Path::new(&path)));
    findings.extend(of_disk(Path::new(&path), low_bytes));
    Ok(findings)
}

fn of_file(path: &str, condition: &Condition) -> Vec<Finding> {
    let Condition { version, quick_check, journal_mode, bytes, free_bytes, .. } = condition;
    let store = format!(
        "SQLite {version}, {path}, {} MiB of which {} MiB hold nothing",
        bytes >> 20,
        free_bytes >> 20
    );
    let restore =
        "stop everything, restore the last back-up, and look at the disk; `windlass verify` says which jobs";
    let integrity = if quick_check == "ok" {
        ok("integrity", "SQLite's quick check finds nothing; `windlass verify` looks at everything")
    } else {
        problem("integrity", format!("the file is damaged: {quick_check}"), restore)
    };
    // Every process of ours asks for this itself; one that could not is told by the mode of the file.
    let durable = if journal_mode == "wal" {
        ok(
            "durability",
            "write-ahead log, synchronous=FULL: a commit is on the disk before anybody hears of it",
        )
    } else {
        let fix = "end whatever else has the file open, then start windlass: it sets journal_mode=wal";
        problem("durability", format!("journal_mode is {journal_mode}"), fix)
    };
    vec![ok("store", store), integrity, durable]
}

/// One change that was written while a clock was ahead.
fn of_last(ahead_ms: i64) -> Finding {
    if ahead_ms <= SKEW_MS {
        return ok("clock", "the last change is not dated ahead of this machine's clock");
    }
    let found = format!(
        "the last change is dated {} s ahead of this machine's clock: what is to run at a time of day runs that much early",
        ahead_ms / 1_000
    );
    let fix = "set this machine's clock by NTP; if it is right, wait: the store's clock goes on at nine tenths of its speed \
               until both agree, leases and delays take a ninth longer meanwhile";
    warning("clock", found, fix)
}

fn of_log(bytes: u64) -> Finding {
    let mib = bytes >> 20;
    if bytes <= WAL_LARGE {
        return ok("wal", format!("the write-ahead log has {mib} MiB"));
    }
    let fix =
        "find who reads without end (fuser FILE-wal) and end it: the log shrinks at the next checkpoint";
    warning("wal", format!("the write-ahead log has {mib} MiB and cannot be put into the file"), fix)
}

fn of_file_system(path: &Path) -> Finding {
    let kind = std::fs::read_to_string("/proc/mounts").ok().and_then(|mounts| mounted(&mounts, path));
    match kind.as_deref() {
        None => ok("file system", "unknown; one of the network would have been refused"),
        Some("tmpfs" | "ramfs") => {
            let fix = "keep the file on a disk; --store names another path";
            warning("file system", "the file is in memory and ends with this machine's uptime", fix)
        }
        Some(kind) => ok("file system", kind),
    }
}

/// The kind of the file system that a path is on.
fn mounted(mounts: &str, path: &Path) -> Option<String> {
    let folder = path.canonicalize().ok()?;
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?.replace("\\040", " "), words.next()?);
        folder.starts_with(&at).then(|| (at.len(), kind.to_owned()))
    };
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

fn of_disk(path: &Path, low_bytes: u64) -> Option<Finding> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(of_free(disk.f_bavail.saturating_mul(disk.f_frsize), low_bytes))
}

fn of_free(free: u64, low_bytes: u64) -> Finding {
    let found = format!("{} MiB are free", free >> 20);
    let fix =
        "free some, or move the file; when it is full, nothing is taken or finished, and nothing is lost";
    match free {
        0..DISK_FULL => problem("disk", found, fix),
        free if free < low_bytes => warning("disk", found, fix),
        _ => ok("disk", found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_disk_is_low_before_it_is_full() {
        let level = |free: u64| of_free(free, 1 << 30).level;
        assert_eq!([1 << 20, 500 << 20, 50 << 30].map(level), [Level::Problem, Level::Warning, Level::Ok]);
        assert_eq!((of_log(1 << 20).level, of_log(1 << 30).level), (Level::Ok, Level::Warning));
    }

    #[test]
    fn a_change_dated_ahead_is_said() {
        assert_eq!((of_last(0).level, of_last(3_600_000).level), (Level::Ok, Level::Warning));
        assert!(of_last(3_600_000).found.contains("3600 s ahead"));
    }

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "disk / ext4 rw 0 0\ntmpfs /proc tmpfs rw 0 0\n";
        assert_eq!(mounted(mounts, Path::new("/proc/self/..")).as_deref(), Some("tmpfs"));
        assert_eq!(mounted(mounts, Path::new("/")).as_deref(), Some("ext4"));
    }
}
