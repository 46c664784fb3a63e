//! Papers: what people keep beside the jobs, changed under a version.

use crate::unreadable::Planter;
use crate::{Bed, at, is_invalid, name, time, together, who};
use serde_json::{Value, json};
use windlass_core::paper::BODY_MAX;
use windlass_core::{Actor, LeaseMs, Refusal};
use windlass_store::{AcquireTerm, ListPapers, Paper, PaperKind, PutPaper, ReadAudit, RemovePaper};

/// This module's laws, as tests.
#[macro_export]
macro_rules! paper_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            paper: a_paper_is_changed_under_a_version,
            papers_of_a_kind_come_from_the_last_name_down,
            a_paper_that_is_too_large_or_no_object_is_refused,
            a_stale_leader_writes_and_removes_no_paper,
            what_people_do_to_papers_is_in_the_audit,
            of_many_who_change_a_paper_at_once_one_does,
        );
    };
}

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

fn put(which: &str, body: Value) -> PutPaper {
    PutPaper {
        kind: PaperKind::View,
        name: name(which),
        body,
        expected_version: None,
        term: None,
        action: Some("view.put"),
        actor: ann(),
    }
}

fn remove(which: &str) -> RemovePaper {
    RemovePaper {
        kind: PaperKind::View,
        name: name(which),
        term: None,
        action: Some("view.remove"),
        actor: ann(),
    }
}

impl Bed {
    async fn puts_paper(&self, request: PutPaper, ms: i64) -> Result<Paper, Refusal> {
        self.store.put_paper(request, at(ms)).await.expect("the store answers")
    }

    async fn leads_with_papers(&self) -> i64 {
        let wish = AcquireTerm { name: name("leader"), holder: who("node"), ttl_ms: LeaseMs::DEFAULT };
        self.store.acquire_term(wish, at(0)).await.expect("the store answers").expect("its own").epoch
    }

    async fn finds_papers(&self, kind: PaperKind, before: Option<&str>, limit: usize) -> Vec<String> {
        let list = ListPapers { kind, before: before.map(name), limit };
        let found = self.store.papers(list, at(9)).await.expect("the store answers");
        found.into_iter().map(|paper| paper.name.to_string()).collect()
    }
}

/// (papers) Made, shown, changed, removed; a change from another version is refused, and the same again changes nothing.
pub async fn a_paper_is_changed_under_a_version(bed: Bed) {
    let made = bed.puts_paper(put("a", json!({"n": 1})), 1).await.expect("made");
    assert_eq!((made.version, made.created_at, &made.by), (1, time(1), &ann()));
    assert_eq!(bed.puts_paper(put("a", json!({"n": 1})), 2).await.expect("the same"), made);
    let stale = PutPaper { expected_version: Some(0), ..put("a", json!({"n": 2})) };
    assert_eq!(bed.puts_paper(stale, 3).await, Err(Refusal::VersionMismatch(1)));
    let fresh = PutPaper { expected_version: Some(1), ..put("a", json!({"n": 2})) };
    let changed = bed.puts_paper(fresh, 3).await.expect("changed");
    assert_eq!((changed.version, changed.created_at, changed.updated_at), (2, time(1), time(3)));
    let found = bed.store.paper((PaperKind::View, name("a")), at(4)).await.expect("the store answers");
    assert_eq!(found, Some(changed));
    let other = bed.store.paper((PaperKind::Mark, name("a")), at(4)).await.expect("the store answers");
    assert_eq!(other, None, "a name stands once per kind");
    assert_eq!(bed.store.remove_paper(remove("a"), at(5)).await.expect("the store answers"), Ok(()));
    let gone = bed.store.remove_paper(remove("a"), at(6)).await.expect("the store answers");
    assert_eq!(gone, Err(Refusal::PaperNotFound("view", "a".to_owned())));
}

/// (papers) A page at a time, by name, the last first.
pub async fn papers_of_a_kind_come_from_the_last_name_down(bed: Bed) {
    for which in ["b", "d", "a", "c"] {
        bed.puts_paper(put(which, json!({})), 1).await.expect("made");
    }
    bed.puts_paper(PutPaper { kind: PaperKind::Mark, ..put("z", json!({})) }, 1).await.expect("made");
    assert_eq!(bed.finds_papers(PaperKind::View, None, 3).await, ["d", "c", "b"]);
    assert_eq!(bed.finds_papers(PaperKind::View, Some("b"), 3).await, ["a"]);
    assert_eq!(bed.finds_papers(PaperKind::Mark, None, 3).await, ["z"]);
    assert!(bed.finds_papers(PaperKind::Operation, None, 3).await.is_empty());
}

/// (papers) A paper is a small object.
pub async fn a_paper_that_is_too_large_or_no_object_is_refused(bed: Bed) {
    let large = json!({ "text": "x".repeat(BODY_MAX) });
    is_invalid(&bed.puts_paper(put("a", large), 1).await, "body");
    is_invalid(&bed.puts_paper(put("a", json!([1])), 1).await, "body");
    assert!(bed.finds_papers(PaperKind::View, None, 3).await.is_empty());
}

/// (papers) What the engine writes, it writes under the leader's epoch.
pub async fn a_stale_leader_writes_and_removes_no_paper(bed: Bed) {
    let epoch = bed.leads_with_papers().await;
    let under = |epoch| Some((name("leader"), epoch));
    let made = PutPaper { term: under(epoch), action: None, ..put("a", json!({})) };
    assert_eq!(bed.puts_paper(made.clone(), 1).await.expect("made").version, 1);
    let stale = PutPaper { term: under(epoch - 1), body: json!({"n": 1}), ..made };
    assert_eq!(bed.puts_paper(stale, 2).await, Err(Refusal::StaleEpoch(epoch)));
    let gone = RemovePaper { term: under(epoch - 1), ..remove("a") };
    let refused = bed.store.remove_paper(gone, at(3)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::StaleEpoch(epoch)));
    assert_eq!(bed.finds_papers(PaperKind::View, None, 3).await, ["a"]);
}

/// (papers) Before and after, by whom; what the engine notes as it goes is not in it.
pub async fn what_people_do_to_papers_is_in_the_audit(bed: Bed) {
    bed.puts_paper(put("a", json!({"n": 1})), 1).await.expect("made");
    bed.puts_paper(put("a", json!({"n": 1})), 2).await.expect("the same");
    bed.puts_paper(PutPaper { action: None, ..put("a", json!({"n": 2})) }, 3).await.expect("noted");
    bed.puts_paper(put("a", json!({"n": 3})), 4).await.expect("changed");
    bed.store.remove_paper(remove("a"), at(5)).await.expect("the store answers").expect("removed");
    let entries = bed.store.audit(ReadAudit { before: None, limit: 9 }, at(6)).await.expect("the audit");
    let said: Vec<_> =
        entries.iter().rev().map(|entry| (entry.action.as_str(), entry.detail.clone())).collect();
    let detail = |text: Value| serde_json::from_value(text).expect("an object");
    assert_eq!(
        said,
        [
            ("view.put", detail(json!({"before": null, "after": {"n": 1}}))),
            ("view.put", detail(json!({"before": {"n": 2}, "after": {"n": 3}}))),
            ("view.remove", detail(json!({"before": {"n": 3}}))),
        ]
    );
}

/// (papers) Raced: of sixteen who read the same version one writes, and of sixteen who make it one does.
pub async fn of_many_who_change_a_paper_at_once_one_does(bed: Bed) {
    for version in 0..4 {
        let racers = (0..16).map(|n| {
            let put = PutPaper {
                expected_version: Some(version),
                ..put("a", json!({ "version": version, "by": n }))
            };
            let bed = bed.clone();
            async move { bed.puts_paper(put, 1).await }
        });
        let answers = together(racers).await;
        let written = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(written, 1, "{answers:?}");
        let refused = answers.into_iter().filter_map(Result::err);
        assert!(refused.into_iter().all(|refusal| refusal == Refusal::VersionMismatch(version + 1)));
    }
}

/// A paper that does not read back says so in its place; the others are listed, and writing it anew mends it.
pub async fn a_paper_fails_alone(bed: &Bed, planter: &dyn Planter) {
    for which in ["a", "b"] {
        bed.puts_paper(put(which, json!({"n": 1})), 1).await.expect("made");
    }
    planter.state("papers", "a", "{}").await;
    let list = ListPapers { kind: PaperKind::View, before: None, limit: 9 };
    let all = bed.store.papers(list, at(2)).await.expect("the others are listed");
    assert_eq!((all[0].version, all[1].version), (1, 0), "b, then a");
    assert!(all[1].body["unreadable"].as_str().is_some_and(|why| why.contains("does not read back")));
    let mended = bed.puts_paper(put("a", json!({"n": 1})), 3).await.expect("mended");
    assert_eq!((mended.version, mended.created_at), (1, time(3)));
}
