//! Lists: every filter in its own order, page by page, without a gap or a repeat.

use crate::{Bed, at, completes, fails_for_good, fails_until, for_signal, is_invalid, name, time, who};
use std::collections::BTreeSet;
use windlass_core::status::Status;
use windlass_core::{Count, Cursor, Filter, JobId, NewJob, Order, RunAt};
use windlass_store::{Claimed, Counts, List, Listed, Settle, SettleItem};

/// This module's laws, as tests.
#[macro_export]
macro_rules! list_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            list: every_filter_lists_what_matches_in_its_order,
            pages_have_no_gaps_and_no_repeats,
            each_order_is_the_one_promised,
            jobs_that_ended_at_one_moment_are_listed_once_each,
            a_page_is_stable_while_jobs_come_and_go,
            a_cursor_of_another_list_is_refused,
            a_limit_outside_its_bounds_is_refused,
            dead_letters_are_found_by_queue_and_kind_and_code_and_time,
            jobs_are_found_by_agent_and_parent_and_tag,
            counts_stop_at_their_cap,
        );
    };
}

pub(crate) async fn page(bed: &Bed, filter: &Filter, limit: usize) -> Vec<Listed> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..1_000 {
        let request = List { filter: filter.clone(), cursor, limit };
        let page = bed.store.jobs(request, at(0)).await.expect("the store answers").expect("a page");
        assert!(page.items.len() <= limit);
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
    panic!("a list of {} rows does not end", all.len());
}

fn ids(listed: &[Listed]) -> Vec<JobId> {
    listed.iter().map(|l| l.job.id).collect()
}

fn of(statuses: &[Status]) -> Filter {
    Filter { statuses: statuses.to_vec(), ..Filter::default() }
}

/// Four jobs for each status, over two queues, kinds, agents and workers. Returns the id of a parent.
async fn populate(bed: &Bed) -> JobId {
    let parent = bed.enqueue(bed.job_in("parent", "q0"), at(0)).await.id;
    for (n, status) in Status::ALL.into_iter().cycle().take(40).enumerate() {
        let ms = n as i64;
        let mut job = bed.job_in(["red", "blue"][n % 2], ["q0", "q1"][n / 10 % 2]);
        job.facts.priority = (n % 3) as i32 - 1;
        job.facts.max_retries = i32::from(status != Status::TimedOut);
        job.facts.agent_id = Some(who(["agent-a", "agent-b"][n / 2 % 2]));
        job.facts.tags = vec![name(["x", "y"][n / 4 % 2]), name("all")];
        job.facts.parent_id = (n % 5 == 0).then_some(parent);
        bring(bed, job, status, ["w1", "w2"][n / 20], ms).await;
    }
    bed.sweeps(at(3_000)).await;
    parent
}

async fn bring(bed: &Bed, job: NewJob, status: Status, worker: &str, ms: i64) {
    let id = job.id;
    let now = at(ms);
    match status {
        Status::Pending => drop(bed.enqueue(job, now).await),
        Status::Assigned | Status::Orphaned => {
            bed.enqueue(job, now).await;
            let lapse_ms = if status == Status::Orphaned { 1_000 } else { 86_400_000 };
            bed.assigns(id, worker, lapse_ms, now).await;
        }
        _ => {
            let held = bed.holds(worker, job, now).await;
            let code = ["broken", "odd"][ms as usize / 10 % 2];
            let outcome = match status {
                Status::Retry => fails_until(code, RunAt::At(time(ms + 100_000))),
                Status::Waiting => crate::waits(for_signal("go")),
                Status::Completed => completes(),
                Status::Failed => fails_for_good(code),
                Status::TimedOut => windlass_core::Outcome::TimeOut,
                Status::Cancelled => windlass_core::Outcome::Cancelled { reason: None },
                _ => return,
            };
            bed.settles(&held, outcome, now).await.expect("the holder may settle");
        }
    }
}

fn filters(parent: JobId) -> Vec<Filter> {
    use Status::{
        Assigned, Cancelled, Completed, Failed, Orphaned, Pending, Retry, Running, TimedOut, Waiting,
    };
    let mut filters = vec![Filter::default(), of(&Status::ALL), of(&[Failed, TimedOut])];
    filters.extend(Status::ALL.map(|s| of(&[s])));
    filters.extend([of(&[Completed, Cancelled]), of(&[Pending, Retry, Orphaned]), of(&[Waiting, Assigned])]);
    filters.extend([of(&[Running, Pending]), of(&[Failed, Waiting])]);
    let plain = [
        Filter { queue: Some(name("q0")), ..Filter::default() },
        Filter { kind: Some(name("red")), ..Filter::default() },
        Filter { agent_id: Some(who("agent-a")), ..Filter::default() },
        Filter { tag: Some(name("y")), ..Filter::default() },
        Filter { parent_id: Some(parent), ..Filter::default() },
        Filter { worker_id: Some(who("w2")), ..Filter::default() },
        Filter { error_code: Some(who("broken")), ..Filter::default() },
        Filter { created_after: Some(time(7)), created_before: Some(time(30)), ..Filter::default() },
        Filter { finished_after: Some(time(7)), finished_before: Some(time(30)), ..Filter::default() },
    ];
    for base in [of(&[Failed, TimedOut]), of(&[Pending, Retry]), of(&[Running]), of(&[Waiting, Assigned])] {
        filters.extend(plain.iter().map(|f| Filter { statuses: base.statuses.clone(), ..f.clone() }));
    }
    filters.extend(plain);
    filters.push(Filter {
        queue: Some(name("q0")),
        kind: Some(name("red")),
        agent_id: Some(who("agent-a")),
        tag: Some(name("all")),
        ..Filter::default()
    });
    filters
}

/// M12, R13, Q12, J10
pub async fn every_filter_lists_what_matches_in_its_order(bed: Bed) {
    let parent = populate(&bed).await;
    let all = page(&bed, &Filter::default(), 1_000).await;
    assert_eq!(all.len(), 41);
    for status in Status::ALL {
        assert!(all.iter().any(|l| l.job.status == status), "there is a {status} job");
    }
    for filter in filters(parent) {
        let order = filter.order();
        let mut expected: Vec<&Listed> = all
            .iter()
            .filter(|l| {
                Cursor::of(order, &l.job).is_some() && filter.matches(&l.job, || Some(l.facts.clone()))
            })
            .collect();
        expected.sort_by_key(|l| Cursor::of(order, &l.job));
        let listed = page(&bed, &filter, 1_000).await;
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{filter:?}");
    }
}

/// M12, R13, Q12
pub async fn pages_have_no_gaps_and_no_repeats(bed: Bed) {
    let parent = populate(&bed).await;
    for filter in filters(parent) {
        let whole = page(&bed, &filter, 1_000).await;
        for limit in [1, 3, 7] {
            assert_eq!(page(&bed, &filter, limit).await, whole, "by {limit}: {filter:?}");
        }
    }
}

/// Q12, M12: more jobs end at one moment than are read from an index at a time: pages of them have neither gap nor repeat.
pub async fn jobs_that_ended_at_one_moment_are_listed_once_each(bed: Bed) {
    const JOBS: usize = 510;
    bed.enqueue_all((0..JOBS).map(|_| bed.job("work")).collect(), at(0)).await;
    let held = bed.claims("w", JOBS, at(0)).await;
    let item =
        |held: &Claimed| SettleItem { job: held.job.id, token: held.lease.token, outcome: completes() };
    let items = held.iter().map(item).collect();
    let answers = bed.store.settle(Settle { items }, at(1)).await.expect("the store answers");
    assert!(answers.len() == JOBS && answers.iter().all(Result::is_ok));
    for limit in [100, 1_000] {
        let listed = ids(&page(&bed, &of(&[Status::Completed]), limit).await);
        assert!(listed.windows(2).all(|two| two[0] > two[1]), "the younger id first, each once");
        assert_eq!(listed.len(), JOBS);
    }
}

/// M12, R13
pub async fn each_order_is_the_one_promised(bed: Bed) {
    populate(&bed).await;
    let newest = page(&bed, &Filter::default(), 7).await;
    assert!(newest.windows(2).all(|w| w[0].job.id > w[1].job.id), "newest first");
    let finished = page(&bed, &of(&[Status::Completed, Status::Failed]), 7).await;
    let end = |l: &Listed| (l.job.finished_at, l.job.id);
    assert!(finished.len() == 8 && finished.windows(2).all(|w| end(&w[0]) > end(&w[1])), "last end first");
    let due = page(&bed, &of(&[Status::Pending, Status::Orphaned]), 7).await;
    let line = |l: &Listed| (l.job.queue.clone(), -l.job.priority, l.job.due_at, l.job.id);
    assert!(due.len() == 9 && due.windows(2).all(|w| line(&w[0]) < line(&w[1])), "as they will be claimed");
    let running = page(&bed, &of(&[Status::Running]), 7).await;
    let holder = |l: &Listed| (l.job.worker_id.clone(), l.job.id);
    assert!(running.len() == 4 && running.windows(2).all(|w| holder(&w[0]) < holder(&w[1])), "by worker");
    let parked = of(&[Status::Waiting, Status::Assigned]);
    let parked = page(&bed, &parked, 7).await;
    let place = |l: &Listed| (l.job.status, l.job.id);
    assert!(parked.len() == 8 && parked.windows(2).all(|w| place(&w[0]) < place(&w[1])), "by status");
}

/// M12: what stays is seen exactly once, whatever happens between two pages.
pub async fn a_page_is_stable_while_jobs_come_and_go(bed: Bed) {
    let before: BTreeSet<JobId> = bed
        .enqueue_all((0..20).map(|_| bed.job("work")).collect(), at(0))
        .await
        .iter()
        .map(|e| e.id)
        .collect();
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let request = List { filter: Filter::default(), cursor, limit: 3 };
        let page = bed.store.jobs(request, at(0)).await.expect("the store answers").expect("a page");
        seen.extend(ids(&page.items));
        bed.a_job(at(0)).await;
        bed.claims("w", 1, at(0)).await;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let once: BTreeSet<JobId> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "no repeats");
    assert!(before.is_subset(&once), "no gaps");
}

/// M12, Q12
pub async fn a_cursor_of_another_list_is_refused(bed: Bed) {
    bed.enqueue_all((0..3).map(|_| bed.job("work")).collect(), at(0)).await;
    let lists = |filter: Filter, cursor: &str| {
        let (store, cursor) = (bed.store.clone(), Some(cursor.to_owned()));
        async move {
            let request = List { filter, cursor, limit: 1 };
            store.jobs(request, at(0)).await.expect("the store answers")
        }
    };
    let first = List { filter: Filter::default(), cursor: None, limit: 1 };
    let first = bed.store.jobs(first, at(0)).await.expect("the store answers").expect("a page");
    let cursor = first.next.expect("more follows");
    assert_eq!(lists(Filter::default(), &cursor).await.expect("its own list").items.len(), 1);
    assert_eq!(of(&[Status::Pending]).order(), Order::Due);
    is_invalid(&lists(of(&[Status::Pending]), &cursor).await, "cursor");
    let cut = &cursor[..cursor.len() - 2];
    for garbage in ["", "l1", "l1zz", "0", "l1ffff", "' OR 1=1 --", "\u{0}", cut] {
        is_invalid(&lists(Filter::default(), garbage).await, "cursor");
    }
}

/// M12
pub async fn a_limit_outside_its_bounds_is_refused(bed: Bed) {
    bed.a_job(at(0)).await;
    let lists = |limit| {
        let request = List { filter: Filter::default(), cursor: None, limit };
        let store = bed.store.clone();
        async move { store.jobs(request, at(0)).await.expect("the store answers") }
    };
    for limit in [0, 1_001, usize::MAX] {
        is_invalid(&lists(limit).await, "limit");
    }
    for limit in [1, 1_000] {
        assert_eq!(lists(limit).await.expect("a page").items.len(), 1);
    }
}

/// Q12, Q9
pub async fn dead_letters_are_found_by_queue_and_kind_and_code_and_time(bed: Bed) {
    let mut dead = Vec::new();
    for (n, (queue, kind, code)) in
        [("q0", "red", "a"), ("q0", "blue", "b"), ("q1", "red", "b"), ("q1", "red", "a")]
            .into_iter()
            .enumerate()
    {
        let held = bed.holds("w", bed.job_in(kind, queue), at(n as i64)).await;
        bed.settles(&held, fails_for_good(code), at(n as i64)).await.expect("the holder may fail it");
        dead.push(held.job.id);
    }
    let held = bed.holds("w", bed.job_in("red", "q0"), at(9)).await;
    bed.settles(&held, completes(), at(9)).await.expect("the holder may complete");
    let letters = of(&[Status::Failed, Status::TimedOut]);
    let bed = &bed;
    let found = |filter: Filter| async move { ids(&page(bed, &filter, 2).await) };
    assert_eq!(found(letters.clone()).await, [dead[3], dead[2], dead[1], dead[0]], "last one first");
    assert_eq!(found(Filter { queue: Some(name("q0")), ..letters.clone() }).await, [dead[1], dead[0]]);
    assert_eq!(found(Filter { kind: Some(name("blue")), ..letters.clone() }).await, [dead[1]]);
    assert_eq!(found(Filter { error_code: Some(who("a")), ..letters.clone() }).await, [dead[3], dead[0]]);
    let since = Filter { finished_after: Some(time(1)), finished_before: Some(time(3)), ..letters.clone() };
    assert_eq!(found(since).await, [dead[2], dead[1]], "from, and up to but not including");
    let both = Filter { queue: Some(name("q1")), error_code: Some(who("b")), ..letters };
    assert_eq!(found(both).await, [dead[2]]);
}

/// J10, M12
pub async fn jobs_are_found_by_agent_and_parent_and_tag(bed: Bed) {
    let parent = bed.a_job(at(0)).await;
    let mut job = bed.job("work");
    job.facts.agent_id = Some(who("agent"));
    job.facts.tags = vec![name("x"), name("y")];
    job.facts.parent_id = Some(parent);
    let mut other = bed.job("work");
    other.facts.agent_id = Some(who("agent2"));
    let id = bed.enqueue(job, at(0)).await.id;
    bed.enqueue(other, at(0)).await;
    let held = bed.claims_by_id("w", id, at(0)).await.expect("it is due");
    bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    for filter in [
        Filter { agent_id: Some(who("agent")), ..Filter::default() },
        Filter { parent_id: Some(parent), ..Filter::default() },
        Filter { tag: Some(name("x")), ..Filter::default() },
        Filter { tag: Some(name("y")), ..of(&[Status::Completed]) },
    ] {
        assert_eq!(ids(&page(&bed, &filter, 9).await), [id], "{filter:?}");
    }
    assert_eq!(page(&bed, &Filter { tag: Some(name("z")), ..Filter::default() }, 9).await, []);
}

/// M12: a count never walks millions of rows.
pub async fn counts_stop_at_their_cap(bed: Bed) {
    assert_eq!(bed.store.counts(5, at(0)).await.expect("the store answers"), Counts::default());
    bed.enqueue_all((0..6).map(|_| bed.job("work")).collect(), at(0)).await;
    bed.claims("w", 2, at(0)).await;
    for (cap, pending, running) in
        [(3, (3, true), (2, false)), (4, (4, false), (2, false)), (1, (1, true), (1, true))]
    {
        let mut counts = bed.store.counts(cap, at(0)).await.expect("the store answers");
        counts.statuses.sort_by_key(|(status, _)| *status);
        let count = |(n, capped)| Count { n, capped };
        let expected = vec![(Status::Pending, count(pending)), (Status::Running, count(running))];
        assert_eq!(counts.statuses, expected, "capped at {cap}");
    }
}
