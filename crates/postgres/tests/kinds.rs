//! Claims of some kinds in a long line of others.

mod support;

use std::sync::Arc;
use support::{until, wait_for};
use windlass_conformance::{Bed, name, who};
use windlass_core::{JobId, NewJob, Outcome, RunAt};
use windlass_postgres::Options;
use windlass_store::{ClaimMany, Claimed, fresh};

/// Jobs that nobody asks for, all before the others.
const OTHERS: usize = 12_000;

async fn claims(bed: &Bed, kind: &str, max: usize) -> Vec<Claimed> {
    let mut request = ClaimMany::new(who("w"), vec![name("default")], max, fresh::secret());
    request.kinds = vec![name(kind)];
    bed.store.claim(request, None).await.expect("the store answers")
}

fn of(bed: &Bed, kind: &str, count: usize) -> Vec<NewJob> {
    (0..count).map(|_| bed.job(kind)).collect()
}

fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|held| held.job.id).collect()
}

/// Q5, M12: what stands behind thousands of jobs of other kinds is found within some claims, each of which looks at a
/// part of the line; what comes back to the head of the line is found too; and nothing else is taken.
#[test]
fn a_kind_is_found_behind_any_number_of_others() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let store = Arc::new(Options::new(&url).pool(2).open().await.expect("a store"));
        let bed = Bed::new(store);
        for _ in 0..OTHERS / 4_000 {
            bed.enqueue_all(of(&bed, "other", 4_000), None).await;
        }
        let rare = of(&bed, "rare", 3);
        let wanted: Vec<JobId> = rare.iter().map(|job| job.id).collect();
        bed.enqueue_all(rare, None).await;
        let (mut found, mut asked) = (Vec::new(), 0);
        while found.len() < 2 {
            asked += 1;
            assert!(asked < 20, "{found:?}");
            found.extend(claims(&bed, "rare", 2 - found.len()).await);
        }
        assert!(asked > 1, "one claim does not read all of {OTHERS} others");
        assert_eq!(ids(&found), wanted[..2], "in the order they stand in");
        // One that was worked on goes back to the head of the line: before all the others.
        let early = RunAt::At(found[0].job.created_at.plus_ms(-60_000));
        bed.settles(&found[0], Outcome::Release(early), None).await.expect("it is released");
        let mut again = Vec::new();
        until("it is found, and so is the last", async || {
            again.extend(claims(&bed, "rare", 10).await);
            again.len() >= 2
        })
        .await;
        let mut both = ids(&again);
        both.sort_unstable();
        assert_eq!(both, [wanted[0], wanted[2]]);
        assert_eq!(claims(&bed, "other", 1_000).await.len(), 1_000);
        assert!(claims(&bed, "rare", 10).await.is_empty());
    });
}
