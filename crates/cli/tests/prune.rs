//! Old jobs go, kept as lines of JSON first; whatever dies in between, nothing is lost and nothing archived twice.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::Bed;
use ruzstd::decoding::StreamingDecoder;
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Jobs of a kind that have ended.
fn ended(bed: &Bed, kind: &str, n: usize) -> Vec<String> {
    let made =
        (0..n).map(|n| bed.enqueue(&[kind, "--payload", &format!("{{\"n\": {n}}}")])).collect::<Vec<_>>();
    for id in &made {
        bed.run(&["jobs", "cancel", id]).ok();
    }
    made
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|e| e == ending)).collect()
}

/// Every line of an archive.
fn archived(folder: &Path) -> Vec<Value> {
    let read = |path: PathBuf| {
        let mut text = String::new();
        let file = std::fs::File::open(path).unwrap();
        StreamingDecoder::new(file).unwrap().read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    files(folder, "zst").into_iter().flat_map(read).collect()
}

fn ids(lines: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// T9: what is old, of this kind and ended so is archived whole and removed; the rest stays; a dry run removes nothing.
#[test]
fn old_jobs_are_archived_whole_and_removed() {
    let bed = Bed::new();
    let (mut old, other) = (ended(&bed, "old", 3), ended(&bed, "other", 1));
    let alive = bed.enqueue(&["old"]);
    let folder = bed.path("archive");
    let folder_text = folder.display().to_string();
    let prune = ["prune", "--older-than", "0s", "--kind", "old"];
    assert_eq!(bed.json(&[&prune[..], &["--dry-run"]].concat())["matched"], 3);
    assert!(!folder.exists(), "a dry run writes nothing");
    assert_eq!(bed.run(&prune).code, 2, "it asks where to");
    let none = bed.json(&["prune", "--older-than", "1h", "--archive", &folder_text]);
    assert_eq!(none["matched"], 0, "younger ones stay: {none}");
    let done = bed.json(&[&prune[..], &["--archive", &folder_text]].concat());
    assert_eq!((&done["removed"], &done["archived"], &done["stayed"]), (&json!(3), &json!(3), &json!([])));
    let mode = std::fs::metadata(&files(&folder, "zst")[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "payloads are for the owner alone");
    let lines = archived(&folder);
    old.sort();
    assert_eq!(ids(&lines), old);
    assert_eq!((&lines[0]["status"], &lines[0]["kind"]), (&json!("cancelled"), &json!("old")));
    let types: Vec<&str> =
        lines[0]["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["job_created", "job_cancelled"]);
    assert!(
        lines[0]["events"][0]["payload"]["n"].is_i64() && lines[0]["events"][0]["detail"]["kind"] == "old"
    );
    assert_eq!(bed.run(&["jobs", "show", &old[0]]).code, 3, "it is gone");
    assert_eq!(bed.job(&other[0])["status"], "cancelled");
    assert_eq!(bed.job(&alive)["status"], "pending", "never from a live one");
    assert_eq!(files(&folder, "pending"), Vec::<PathBuf>::new());
    let wrong = bed.run(&["prune", "--status", "pending", "--dry-run"]);
    assert!(wrong.code != 0 && wrong.err.contains("must be completed"), "{}", wrong.err);
    let done = bed.json(&["prune", "--older-than", "0s", "--no-archive"]);
    assert_eq!((&done["removed"], &done["archived"]), (&json!(1), &json!(0)));
}

/// T9: while the place is away nothing is removed.
#[test]
fn nothing_is_removed_while_the_archive_is_away() {
    let bed = Bed::new();
    let old = ended(&bed, "old", 2);
    std::fs::write(bed.path("file"), "no folder").unwrap();
    let away = bed.path("file").join("archive").display().to_string();
    let refused = bed.run(&["prune", "--older-than", "0s", "--archive", &away]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("stays in the store"), "{}", refused.err);
    for id in &old {
        assert_eq!(bed.job(id)["status"], "cancelled");
    }
}

/// T9: a run that was killed between its file and the removal is gone on with: nothing lost, nothing archived twice.
#[test]
fn an_interrupted_run_is_gone_on_with() {
    let bed = Bed::new();
    let mut old = ended(&bed, "old", 3);
    // The same jobs in a store of before: what a run leaves that dies before it removes anything.
    std::fs::copy(bed.path("jobs.db"), bed.path("before.db")).unwrap();
    let folder = bed.path("archive");
    let folder_text = folder.display().to_string();
    bed.json(&["prune", "--older-than", "0s", "--archive", &folder_text]);
    let file = files(&folder, "zst").remove(0);
    let note: String = old.iter().map(|id| format!("{id} 2\n")).collect();
    std::fs::write(file.with_extension("pending"), note).unwrap();
    std::fs::write(folder.join("jobs-x.jsonl.part"), "half").unwrap();
    std::fs::write(folder.join("jobs-y.jsonl.pending"), "").unwrap();
    for ending in ["", "-wal", "-shm"] {
        let _gone = std::fs::remove_file(bed.path(&format!("jobs.db{ending}")));
    }
    std::fs::rename(bed.path("before.db"), bed.path("jobs.db")).unwrap();
    assert_eq!(bed.job(&old[0])["status"], "cancelled", "they are back");
    bed.run(&["jobs", "redrive", &old[2]]).ok();
    bed.run(&["jobs", "cancel", &old[2]]).ok();
    let done = bed.json(&["prune", "--older-than", "0s", "--archive", &folder_text]);
    assert_eq!((&done["resumed"], &done["archived"]), (&json!(2), &json!(1)), "{done}");
    assert_eq!(done["stayed"][0]["id"], json!(old[2]), "that one came back is said: {done}");
    let lines = archived(&folder);
    let twice = lines.iter().filter(|line| line["id"] == json!(old[2])).count();
    assert_eq!((lines.len(), twice), (4, 2), "the one that changed since is archived as it is now");
    old.sort();
    let mut found = ids(&lines);
    found.dedup();
    assert_eq!(found, old);
    for ending in ["part", "pending"] {
        assert_eq!(files(&folder, ending), Vec::<PathBuf>::new(), "{ending}");
    }
}
