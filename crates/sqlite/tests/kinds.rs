//! Claims of some kinds in a long line of others.

mod place;

use place::{Place, wait_for};
use std::time::Duration;
use windlass_conformance::{Bed, name, who};
use windlass_core::{JobId, NewJob};
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

/// Q5, M12: what stands behind thousands of jobs of other kinds is found within some claims, also by somebody who asks so
/// rarely that each of them looks at the head of the line again.
#[test]
fn a_kind_is_found_behind_any_number_of_others_however_rarely_somebody_asks() {
    let place = Place::new();
    wait_for(async {
        let bed = place.bed();
        for _ in 0..OTHERS / 4_000 {
            bed.enqueue_all(of(&bed, "other", 4_000), None).await;
        }
        let rare = of(&bed, "rare", 2);
        let wanted: Vec<JobId> = rare.iter().map(|job| job.id).collect();
        bed.enqueue_all(rare, None).await;
        let (mut found, mut asked) = (Vec::new(), 0);
        while found.is_empty() {
            asked += 1;
            assert!(asked < 8, "not found");
            found = claims(&bed, "rare", 1).await;
            // Longer than a claim goes on from where the last one stopped without another look at the head.
            tokio::time::sleep(Duration::from_millis(1_050)).await;
        }
        assert!(asked > 1, "one claim does not read all of {OTHERS} others");
        assert_eq!(found[0].job.id, wanted[0], "in the order they stand in");
        let early = bed.job("rare");
        let first = early.id;
        bed.enqueue_all(vec![early], None).await;
        let mut rest = Vec::new();
        while rest.len() < 2 {
            asked += 1;
            assert!(asked < 30, "{rest:?}");
            rest.extend(claims(&bed, "rare", 10).await.iter().map(|held| held.job.id));
        }
        assert_eq!(rest, [wanted[1], first]);
        assert_eq!(claims(&bed, "other", 1_000).await.len(), 1_000);
    });
}
