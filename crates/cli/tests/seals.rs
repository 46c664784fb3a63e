//! Seals: what is changed past the engine is named by `windlass verify`, what the engine itself removed or erased is not.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use wire::tamper::{Words, problems, tampers, until_sealed, verify, words};
use wire::{Client, Place, Served};

/// A job that was cancelled: two events.
fn ended(client: &mut Client) -> String {
    let job = client.post("/v1/jobs", &json!({ "kind": "old", "payload": [1] })).unwrap().is(201);
    let id = job["job"]["id"].as_str().unwrap().to_owned();
    client.post(&format!("/v1/jobs/{id}/cancel"), &json!({ "reason": "ann says so" })).unwrap().is(200);
    id
}

/// Adds a note to a finished job.
fn noted(client: &mut Client, id: &str) {
    client.post(&format!("/v1/jobs/{id}/events"), &json!({ "type": "seen" })).unwrap().is(201);
}

fn everything_is_named(place: &Place) {
    let served = place.serve();
    let mut client = served.client();
    let ids: Vec<String> = (0..4).map(|_| ended(&mut client)).collect();
    let [changed, removed, inserted, gone] = ids.as_slice() else { unreachable!() };
    noted(&mut client, removed);
    let fine = &ended(&mut client);
    until_sealed(place, 11);
    drop(served);
    let Words { schema, id, bytes, .. } = words(place);
    let (events, jobs) = (format!("{schema}job_events"), format!("{schema}jobs"));
    let of = |job: &str, version: i64| format!("job_id = {} AND version = {version}", id(job));
    let stands = |job: &str, version: i64| {
        let at = format!("(SELECT at FROM {events} WHERE {})", of(job, version));
        format!("UPDATE {jobs} SET version = {version}, updated_at = {at} WHERE id = {}", id(job))
    };
    tampers(
        place,
        &[
            format!("UPDATE {events} SET payload = {} WHERE {}", bytes("[2]"), of(changed, 1)),
            format!("DELETE FROM {events} WHERE {}", of(removed, 3)),
            stands(removed, 2),
            format!(
                "INSERT INTO {events} (seq, job_id, version, at, type, actor, attempt, generation) \
                 SELECT -1, job_id, 3, at, 'seen', 'api', 0, 0 FROM {events} WHERE {}",
                of(inserted, 2)
            ),
            stands(inserted, 3),
            format!("DELETE FROM {events} WHERE job_id = {}", id(gone)),
            format!("DELETE FROM {jobs} WHERE id = {}", id(gone)),
        ],
    );
    // Newer than the last seal: nothing is wrong with it.
    let enqueued = place.command(&["enqueue", "new", "--json"]).output().unwrap();
    assert!(enqueued.status.success());
    let (code, said) = verify(place, &[]);
    let found = problems(&said);
    assert_eq!((code, said["jobs"].as_u64()), (1, Some(5)), "{said}");
    let expected = [
        (changed, "version 1 of its log is not what was sealed"),
        (removed, "version 3 of its log was removed"),
        (inserted, "version 3 of its log is in no seal"),
        (gone, "the whole job is gone"),
    ];
    for (job, part) in expected {
        let of_job: Vec<_> = found.iter().filter(|one| one.0 == *job).collect();
        assert!(of_job.len() == 1 && of_job[0].1.contains(part), "{part}: {said}");
    }
    assert!(found.len() == 4 && !found.iter().any(|one| one.0 == *fine), "{said}");
}

/// (seals): one byte changed, one entry removed, one inserted, a whole job gone, in a file.
#[test]
fn what_is_changed_in_a_file_is_named() {
    everything_is_named(&Place::sqlite());
}

/// (seals): the same in PostgreSQL.
#[test]
fn what_is_changed_in_postgresql_is_named() {
    everything_is_named(&Place::postgres());
}

fn the_chain_is_checked(place: &Place) {
    let mut served = place.serve();
    let mut client = served.client();
    for events in [2, 4] {
        ended(&mut client);
        until_sealed(place, events);
    }
    served.kill();
    let (_, said) = verify(place, &["--write-heads", "heads.jsonl"]);
    let seals = said["seals"]["seals"].as_u64().unwrap();
    assert!(seals >= 2, "{said}");
    assert_eq!(verify(place, &["--heads", "heads.jsonl", "--write-heads", "heads.jsonl"]).0, 0);
    let kept = std::fs::read_to_string(place.folder().join("heads.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    let Words { schema, later, .. } = words(place);
    let seal = format!("{schema}seals");
    tampers(place, &[format!("UPDATE {seal} SET at = {later} WHERE number = 2")]);
    let (code, wrong) = verify(place, &["--write-heads", "heads.jsonl"]);
    let found = problems(&wrong);
    assert!(code == 1 && found.len() == 1 && found[0].1.contains("seal 2 was changed"), "{wrong}");
    let doctor = place.command(&["doctor"]).output().unwrap();
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("do not follow each other"), "{doctor:?}");
    let again = std::fs::read_to_string(place.folder().join("heads.jsonl")).unwrap();
    assert_eq!(again, kept, "no head is written of what is wrong");
    tampers(place, &[format!("DELETE FROM {seal} WHERE number = 1")]);
    assert!(problems(&verify(place, &[]).1)[0].1.contains("seals 1 to 1 are gone"));
    // Cut off, so that everything fits: only heads that were kept elsewhere show it.
    tampers(
        place,
        &[format!("DELETE FROM {seal}"), format!("DELETE FROM {schema}readers WHERE name = 'seals'")],
    );
    assert_eq!(verify(place, &[]).0, 0);
    let (code, cut) = verify(place, &["--heads", "heads.jsonl"]);
    assert!(code == 1 && problems(&cut)[0].1.contains("the chain ends at 0"), "{cut}");
    let remade = place.serve();
    until_sealed(place, 4);
    drop(remade);
    let (code, made_anew) = verify(place, &["--heads", "heads.jsonl"]);
    assert!(code == 1 && !problems(&made_anew).is_empty(), "{made_anew}");
    let mut other: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    other["store"] = json!("0123456789abcdef");
    std::fs::write(place.folder().join("other.jsonl"), other.to_string()).unwrap();
    let (code, foreign) = verify(place, &["--heads", "other.jsonl"]);
    assert!(code == 1 && problems(&foreign)[0].1.contains("another store"), "{foreign}");
    std::fs::write(place.folder().join("none.jsonl"), "{}").unwrap();
    let usage = place.command(&["verify", "--heads", "none.jsonl"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2), "{usage:?}");
}

/// (seals): a seal that was changed, one that is gone, and the end cut off, in a file.
#[test]
fn the_chain_of_a_file_is_checked() {
    the_chain_is_checked(&Place::sqlite());
}

/// (seals): the same in PostgreSQL.
#[test]
fn the_chain_of_postgresql_is_checked() {
    the_chain_is_checked(&Place::postgres());
}

fn run(place: &Place, words: &[&str]) -> Value {
    let ran = place.command(&[words, &["--json"]].concat()).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap_or_default()
}

fn serve(place: &Place) -> Served {
    let address = wire::free_address();
    let archive = place.folder().join("archive").display().to_string();
    let words = ["serve", "--unsafe", "--listen", &address, "--archive", &archive];
    Served::start(place.command(&words), place.folder(), &address)
}

fn what_the_engine_does_is_on_record(place: &Place) {
    let mut served = serve(place);
    let mut client = served.client();
    let mut ids: Vec<String> = (0..3).map(|_| ended(&mut client)).collect();
    if place.name == "postgres" {
        // Its detail is written by the database, in words of its own.
        place.on_database("SELECT windlass.enqueue('byhand', '{\"b\": 1}', queue => 'sql')");
        let jobs = client.get("/v1/jobs?kind=byhand").unwrap().is(200);
        let id = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
        client.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).unwrap().is(200);
        ids.push(id);
    }
    let (erased, archived, purged) = (&ids[0], &ids[1], &ids[2]);
    let events = 2 * ids.len() as u64;
    until_sealed(place, events);
    let archive = place.folder().join("archive").display().to_string();
    for id in ids.iter().filter(|id| *id != archived && *id != purged) {
        client.send("DELETE", &format!("/v1/jobs/{id}/payload"), "", "{}").unwrap().is(200);
    }
    noted(&mut client, erased);
    until_sealed(place, events + 2);
    served.kill();
    run(place, &["prune", "--older-than", "0s", "--kind", "old", "--archive", &archive]);
    let (code, said) = verify(place, &[]);
    assert_eq!((code, problems(&said)), (0, vec![]), "{said}");
    assert!(said["seals"]["removed"].as_u64().unwrap() >= 6, "{said}");
    run(place, &["restore", archived, erased, "--archive", &archive]);
    let (code, said) = verify(place, &[]);
    assert_eq!((code, problems(&said)), (0, vec![]), "{said}");
    let again = serve(place);
    until_sealed(place, said["seals"]["events"].as_u64().unwrap() + 8);
    drop(again);
    // What was left of an erased job, and what came back, is sealed like anything else.
    let Words { schema, id, .. } = words(place);
    let change = |job: &str| {
        format!("UPDATE {schema}job_events SET actor = 'eve' WHERE job_id = {} AND version = 1", id(job))
    };
    tampers(place, &[change(erased), change(archived)]);
    let (code, said) = verify(place, &[]);
    let mut named: Vec<_> = problems(&said).into_iter().filter(|one| one.1.contains("version 1")).collect();
    named.dedup();
    let mut jobs: Vec<String> = named.into_iter().map(|one| one.0).collect();
    jobs.sort();
    let mut expected = vec![erased.clone(), archived.clone()];
    expected.sort();
    assert_eq!((code, jobs), (1, expected), "{said}");
}

/// T9: an erased job, one that was archived and removed, one that came back, in a file.
#[test]
fn what_the_engine_does_to_a_file_is_on_record() {
    what_the_engine_does_is_on_record(&Place::sqlite());
}

/// T9: the same in PostgreSQL, also for a job that was enqueued in SQL.
#[test]
fn what_the_engine_does_to_postgresql_is_on_record() {
    what_the_engine_does_is_on_record(&Place::postgres());
}
