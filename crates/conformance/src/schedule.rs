//! Schedules: each slot becomes one job, whoever fires it and however often.

use crate::{Bed, at, completes, fails_for_good, is_invalid, name, time, together};
use windlass_core::schedule::{Missed, Overlap, Schedule, Timing};
use windlass_core::{Actor, Facts, JobId, Refusal, Status};
use windlass_store::{
    Applied, ApplySchedules, Enqueued, FireSchedule, List, MissedLimits, PauseSchedule, PutSchedule,
    RemoveSchedule, ScheduleState,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! schedule_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            schedule: a_schedule_fires_each_slot_once,
            a_slot_is_one_job_whoever_fires_it,
            a_slot_whose_job_failed_is_not_fired_again,
            a_stale_leader_fires_nothing,
            what_was_missed_is_made_up_for_as_the_schedule_says,
            a_slot_while_the_last_job_lives_is_as_the_schedule_says,
            a_paused_schedule_fires_nothing_and_misses_nothing,
            a_changed_schedule_keeps_what_comes_next_unless_its_times_change,
            a_removed_schedule_is_gone_and_its_jobs_stay,
            a_schedule_that_cannot_fire_is_refused,
            a_schedule_ends_when_it_says,
            what_people_do_to_schedules_is_in_the_audit,
            due_schedules_come_oldest_first,
            settings_say_what_was_missed,
            a_file_of_schedules_is_applied_as_a_whole,
            a_backfilled_slot_is_not_fired_again,
        );
    };
}

const MINUTE: i64 = 60_000;

fn every_minute() -> Schedule {
    let mut schedule = Schedule::new(Timing::Every(MINUTE), Facts::new(name("report"), name("default")));
    schedule.starts_at = Some(time(MINUTE));
    schedule.payload = Some(serde_json::json!({"to": "ops"}));
    schedule
}

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

impl Bed {
    async fn puts(&self, which: &str, schedule: Schedule, ms: i64) -> Result<ScheduleState, Refusal> {
        let request = PutSchedule { name: name(which), schedule, expected_version: None, actor: ann() };
        self.store.put_schedule(request, at(ms)).await.expect("the store answers")
    }

    async fn pauses(&self, which: &str, pause: bool, ms: i64) -> Result<ScheduleState, Refusal> {
        let request = PauseSchedule { name: name(which), pause, actor: ann() };
        self.store.pause_schedule(request, at(ms)).await.expect("the store answers")
    }

    async fn fires_at(&self, which: &str, epoch: i64, ms: i64) -> Result<Vec<Enqueued>, Refusal> {
        let ids = (0..100).map(|_| self.id()).collect();
        let missed = MissedLimits::default();
        let request = FireSchedule { term: name("leader"), epoch, name: name(which), ids, missed };
        self.store.fire_schedule(request, at(ms)).await.expect("the store answers")
    }

    /// Fires as the leader of this moment; answers the slots of the jobs that are new, in seconds.
    async fn fires(&self, which: &str, ms: i64) -> Vec<i64> {
        let epoch = self.leads("a", at(ms)).await.expect("nobody else leads").epoch;
        let fired = self.fires_at(which, epoch, ms).await.expect("fired");
        let mut slots = Vec::new();
        for made in fired.iter().filter(|made| !made.existed) {
            let metadata = self.view(made.id, at(ms)).await.metadata;
            let slot = metadata["slot"].as_str().expect("a slot").to_owned();
            let slot = windlass_core::Timestamp::parse("slot", &slot).expect("a time");
            assert_eq!(metadata["schedule"], which);
            slots.push((slot.as_micros() - time(0).as_micros()) / 1_000_000);
        }
        slots
    }

    async fn scheduled(&self, which: &str) -> ScheduleState {
        self.store.schedule(name(which), at(0)).await.expect("the store answers").expect("a schedule")
    }

    async fn everything(&self) -> Vec<JobId> {
        let list = List { limit: 1_000, ..List::default() };
        let page = self.store.jobs(list, at(0)).await.expect("the store answers").expect("a page");
        page.items.iter().map(|listed| listed.job.id).collect()
    }
}

/// R7
pub async fn a_schedule_fires_each_slot_once(bed: Bed) {
    let made = bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!((made.version, made.next_at, made.last_slot), (1, Some(time(MINUTE)), None));
    assert_eq!(bed.fires("nightly", MINUTE - 1).await, Vec::<i64>::new(), "its time has not come");
    assert_eq!(bed.fires("nightly", MINUTE).await, [60]);
    assert_eq!(bed.fires("nightly", MINUTE + 1).await, Vec::<i64>::new());
    let state = bed.scheduled("nightly").await;
    assert_eq!((state.next_at, state.last_slot), (Some(time(2 * MINUTE)), Some(time(MINUTE))));
    let [job] = bed.everything().await.try_into().expect("one job");
    assert_eq!(state.last_job, Some(job));
    let held = bed.claims_one("w", at(MINUTE + 2)).await;
    assert_eq!((held.job.id, held.job.kind.as_str()), (job, "report"));
    let payload = held.payload.expect("a payload");
    assert_eq!(payload.as_bytes(), br#"{"to":"ops"}"#);
    assert_eq!(bed.log(job).await[0].actor.as_str(), "schedule:nightly");
    assert_eq!(bed.fires("nightly", 2 * MINUTE + 5).await, [120], "a little late is in time");
    assert_eq!(bed.store.schedules((), at(0)).await.expect("the store answers").len(), 1);
}

/// R7: many that fire at once, some of them believing in an old state, make one job of a slot.
pub async fn a_slot_is_one_job_whoever_fires_it(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    for round in 1..=10 {
        let ms = round * MINUTE;
        let epoch = bed.leads("a", at(ms)).await.expect("leads").epoch;
        let racers = (0..8).map(|_| {
            let bed = bed.clone();
            async move { bed.fires_at("nightly", epoch, ms).await.expect("the epoch holds") }
        });
        let fired = together(racers).await;
        let made: usize = fired.iter().flatten().filter(|made| !made.existed).count();
        assert_eq!(made, 1, "round {round}: {fired:?}");
    }
    assert_eq!(bed.everything().await.len(), 10);
}

/// R7: a slot is used up by its job, whatever becomes of the job.
pub async fn a_slot_whose_job_failed_is_not_fired_again(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!(bed.fires("nightly", MINUTE).await, [60]);
    let held = bed.claims_one("w", at(MINUTE + 1)).await;
    bed.settles(&held, fails_for_good("no"), at(MINUTE + 2)).await.expect("settled");
    // Somebody puts the schedule back to where it was.
    let mut again = every_minute();
    again.starts_at = Some(time(MINUTE + 1));
    bed.puts("nightly", again, MINUTE + 3).await.expect("changed");
    bed.puts("nightly", every_minute(), MINUTE + 4).await.expect("changed back");
    assert_eq!(bed.fires("nightly", MINUTE + 5).await, Vec::<i64>::new());
    assert_eq!(bed.row(held.job.id).await.status, Status::Failed);
    assert_eq!(bed.fires("nightly", 2 * MINUTE).await, [120]);
}

/// R4, R7
pub async fn a_stale_leader_fires_nothing(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!(bed.fires_at("nightly", 1, MINUTE).await, Err(Refusal::StaleEpoch(0)), "nobody leads");
    let old = bed.leads("a", at(MINUTE)).await.expect("leads").epoch;
    let over = MINUTE + 10_000;
    assert_eq!(bed.fires_at("nightly", old, over).await, Err(Refusal::StaleEpoch(old)), "its term is over");
    let new = bed.leads("b", at(over)).await.expect("leads").epoch;
    assert_eq!(bed.fires_at("nightly", old, over + 1).await, Err(Refusal::StaleEpoch(new)));
    assert!(bed.everything().await.is_empty());
    assert_eq!(bed.scheduled("nightly").await.next_at, Some(time(MINUTE)), "nothing moved");
    assert_eq!(bed.fires_at("nightly", new, over + 2).await.expect("fired").len(), 1);
    let unknown = bed.fires_at("nosuch", new, over + 3).await;
    assert_eq!(unknown, Err(Refusal::ScheduleNotFound("nosuch".into())));
}

/// R7: an hour without a leader.
pub async fn what_was_missed_is_made_up_for_as_the_schedule_says(bed: Bed) {
    let hour = 60 * MINUTE;
    let put = async |which: &str, missed: Missed, max: u32| {
        let schedule = Schedule { missed, missed_max: max, ..every_minute() };
        bed.puts(which, schedule, 0).await.expect("made");
    };
    put("once", Missed::Once, 10).await;
    put("skip", Missed::Skip, 10).await;
    put("all", Missed::All, 3).await;
    // Half a minute after the slot of the hour: that one is in time, those before were missed.
    assert_eq!(bed.fires("once", hour + 30_000).await, [3_600], "the one in time is enough");
    assert_eq!(bed.fires("skip", hour + 30_000).await, [3_600]);
    assert_eq!(bed.fires("all", hour + 30_000).await, [3_420, 3_480, 3_540, 3_600]);
    let mut rare = every_minute();
    rare.timing = Timing::Every(24 * hour);
    bed.puts("rare", rare.clone(), hour + 30_000).await.expect("made");
    bed.puts("skipped", Schedule { missed: Missed::Skip, ..rare }, hour + 30_000).await.expect("made");
    let late = MINUTE + 27 * hour;
    let day = (MINUTE + 24 * hour) / 1_000;
    assert_eq!(bed.fires("rare", late).await, [day], "three hours late, once");
    assert_eq!(bed.fires("skipped", late).await, Vec::<i64>::new());
    for which in ["rare", "skipped"] {
        assert_eq!(bed.scheduled(which).await.next_at, Some(time(MINUTE + 48 * hour)));
    }
}

/// R7
pub async fn a_slot_while_the_last_job_lives_is_as_the_schedule_says(bed: Bed) {
    let put = async |which: &str, overlap: Overlap| {
        let mut schedule = Schedule { overlap, ..every_minute() };
        schedule.job.queue = name(which);
        bed.puts(which, schedule, 0).await.expect("made");
    };
    put("allow", Overlap::Allow).await;
    put("skip", Overlap::Skip).await;
    put("cancel", Overlap::Cancel).await;
    for which in ["allow", "skip", "cancel"] {
        assert_eq!(bed.fires(which, MINUTE).await, [60]);
    }
    let first = bed.scheduled("cancel").await.last_job.expect("a job");
    assert_eq!(bed.fires("allow", 2 * MINUTE).await, [120]);
    assert_eq!(bed.fires("skip", 2 * MINUTE).await, Vec::<i64>::new());
    assert_eq!(bed.fires("cancel", 2 * MINUTE).await, [120]);
    assert_eq!(bed.row(first).await.status, Status::Cancelled);
    assert_eq!(bed.log(first).await.last().expect("events").actor.as_str(), "schedule:cancel");
    assert_eq!(bed.scheduled("skip").await.next_at, Some(time(3 * MINUTE)), "that slot is over");
    let [held] = bed.claims_from("w", &["skip"], 10, at(2 * MINUTE)).await.try_into().expect("one job");
    bed.settles(&held, completes(), at(2 * MINUTE + 1)).await.expect("settled");
    assert_eq!(bed.fires("skip", 3 * MINUTE).await, [180], "the last one has ended");
}

/// R7
pub async fn a_paused_schedule_fires_nothing_and_misses_nothing(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    let paused = bed.pauses("nightly", true, 10).await.expect("paused");
    assert_eq!((paused.next_at, paused.paused.clone()), (None, Some((time(10), ann()))));
    assert_eq!(bed.pauses("nightly", true, 20).await, Ok(paused), "a repeat changes nothing");
    assert_eq!(bed.fires("nightly", 5 * MINUTE).await, Vec::<i64>::new());
    let resumed = bed.pauses("nightly", false, 5 * MINUTE + 1).await.expect("resumed");
    assert_eq!((resumed.next_at, resumed.paused), (Some(time(6 * MINUTE)), None));
    assert_eq!(bed.fires("nightly", 6 * MINUTE).await, [360]);
    let unknown = bed.pauses("nosuch", true, 0).await;
    assert_eq!(unknown, Err(Refusal::ScheduleNotFound("nosuch".into())));
}

/// R7
pub async fn a_changed_schedule_keeps_what_comes_next_unless_its_times_change(bed: Bed) {
    let first = bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!(bed.puts("nightly", every_minute(), 5).await, Ok(first), "it is so already");
    let mut other = every_minute();
    other.payload = Some(serde_json::json!({"to": "dev"}));
    // Its slot has come, and is not lost by an edit.
    let changed = bed.puts("nightly", other.clone(), MINUTE + 500).await.expect("changed");
    assert_eq!((changed.version, changed.next_at), (2, Some(time(MINUTE))));
    assert_eq!(bed.fires("nightly", MINUTE + 600).await, [60]);
    other.timing = Timing::Every(2 * MINUTE);
    let changed = bed.puts("nightly", other.clone(), MINUTE + 700).await.expect("changed");
    assert_eq!(changed.next_at, Some(time(3 * MINUTE)));
    let expects = |expected| {
        let schedule = Schedule { jitter_ms: expected + 1, ..other.clone() };
        let (name, actor) = (name("nightly"), ann());
        PutSchedule { name, schedule, expected_version: Some(expected), actor }
    };
    let refused = bed.store.put_schedule(expects(2), at(MINUTE + 800)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::VersionMismatch(3)));
    let granted = bed.store.put_schedule(expects(3), at(MINUTE + 800)).await.expect("the store answers");
    assert_eq!(granted.expect("changed").version, 4);
}

/// R7
pub async fn a_removed_schedule_is_gone_and_its_jobs_stay(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!(bed.fires("nightly", MINUTE).await, [60]);
    let request = || RemoveSchedule { name: name("nightly"), actor: ann() };
    assert_eq!(bed.store.remove_schedule(request(), at(MINUTE)).await.expect("the store answers"), Ok(()));
    let again = bed.store.remove_schedule(request(), at(MINUTE)).await.expect("the store answers");
    assert_eq!(again, Err(Refusal::ScheduleNotFound("nightly".into())));
    assert_eq!(bed.store.schedule(name("nightly"), at(0)).await.expect("the store answers"), None);
    assert_eq!(bed.everything().await.len(), 1);
    // Made anew it does not repeat what the old one made.
    bed.puts("nightly", every_minute(), MINUTE + 1).await.expect("made");
    assert_eq!(bed.fires("nightly", 2 * MINUTE).await, [120]);
}

/// R7: bad input is named, and nothing is kept of it.
pub async fn a_schedule_that_cannot_fire_is_refused(bed: Bed) {
    let cron = |text: &str| Schedule { timing: Timing::Cron(text.into()), ..every_minute() };
    let put = async |schedule: Schedule, field: &str| {
        is_invalid(&bed.puts("bad", schedule, 0).await, field);
    };
    put(cron("0 0 30 2 *"), "cron").await;
    put(cron("61 * * * *"), "cron").await;
    put(Schedule { timezone: "Mars/Base".into(), ..cron("@daily") }, "timezone").await;
    put(Schedule { timing: Timing::Every(10), ..every_minute() }, "every").await;
    put(Schedule { ends_at: Some(time(10)), ..every_minute() }, "every").await;
    put(Schedule { jitter_ms: -1, ..every_minute() }, "jitter").await;
    let mut later = every_minute();
    later.job.run_at = windlass_core::RunAt::After(5);
    put(later, "job.run_at").await;
    let mut high = every_minute();
    high.job.priority = 9;
    put(high, "priority").await;
    assert!(bed.store.schedules((), at(0)).await.expect("the store answers").is_empty());
    assert_eq!(bed.audit().await, []);
}

/// R7
pub async fn a_schedule_ends_when_it_says(bed: Bed) {
    let schedule = Schedule { ends_at: Some(time(2 * MINUTE)), jitter_ms: 30_000, ..every_minute() };
    bed.puts("short", schedule, 0).await.expect("made");
    assert_eq!(bed.fires("short", MINUTE).await, [60]);
    let state = bed.scheduled("short").await;
    assert_eq!(state.next_at, None, "the end itself is no slot any more");
    let job = bed.row(state.last_job.expect("a job")).await;
    let due = job.due_at.expect("due");
    assert!(due > time(MINUTE) && due < time(MINUTE + 30_000), "its own while after the slot: {due}");
    assert_eq!(bed.fires("short", 9 * MINUTE).await, Vec::<i64>::new());
}

/// R12
pub async fn what_people_do_to_schedules_is_in_the_audit(bed: Bed) {
    bed.puts("nightly", every_minute(), 0).await.expect("made");
    bed.puts("nightly", Schedule { jitter_ms: 7, ..every_minute() }, 1).await.expect("changed");
    bed.pauses("nightly", true, 2).await.expect("paused");
    bed.pauses("nightly", false, 3).await.expect("resumed");
    let request = RemoveSchedule { name: name("nightly"), actor: ann() };
    assert_eq!(bed.store.remove_schedule(request, at(4)).await.expect("the store answers"), Ok(()));
    let mut audit = bed.audit().await;
    audit.sort_by_key(|entry| entry.seq);
    let actions: Vec<&str> = audit.iter().map(|entry| entry.action.as_str()).collect();
    let expected = ["schedule.put", "schedule.put", "schedule.pause", "schedule.resume", "schedule.remove"];
    assert_eq!(actions, expected);
    assert!(audit.iter().all(|entry| entry.actor == ann() && entry.target == "nightly"));
    assert_eq!(audit[0].detail["before"], serde_json::Value::Null);
    assert_eq!(audit[1].detail["before"], audit[0].detail["after"]);
    assert_eq!(audit[1].detail["after"]["jitter_ms"], 7);
}

/// R7
pub async fn due_schedules_come_oldest_first(bed: Bed) {
    for (which, from) in [("c", 3), ("a", 2), ("b", 1), ("later", 9)] {
        let schedule = Schedule { starts_at: Some(time(from * MINUTE)), ..every_minute() };
        bed.puts(which, schedule, 0).await.expect("made");
    }
    let due = async |limit: usize, ms: i64| {
        let names = bed.store.due_schedules(limit, at(ms)).await.expect("the store answers");
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(due(10, MINUTE - 1).await, Vec::<String>::new());
    assert_eq!(due(10, 3 * MINUTE).await, ["b", "a", "c"]);
    assert_eq!(due(1, 3 * MINUTE).await, ["b"]);
    bed.pauses("b", true, 3 * MINUTE).await.expect("paused");
    assert_eq!(due(10, 3 * MINUTE).await, ["a", "c"]);
}

/// R7, R12: what counts as missed, and how much of it is made up for, comes with the firing.
pub async fn settings_say_what_was_missed(bed: Bed) {
    let all = Schedule { missed: Missed::All, missed_max: 10, ..every_minute() };
    bed.puts("capped", all.clone(), 0).await.expect("made");
    bed.puts("patient", Schedule { missed: Missed::Skip, ..all }, 0).await.expect("made");
    let epoch = bed.leads("a", at(10 * MINUTE)).await.expect("leads").epoch;
    let fire = async |which: &str, missed: MissedLimits| {
        let ids = (0..100).map(|_| bed.id()).collect();
        let request = FireSchedule { term: name("leader"), epoch, name: name(which), ids, missed };
        let fired = bed.store.fire_schedule(request, at(10 * MINUTE + 1)).await.expect("the store answers");
        fired.expect("fired").len()
    };
    let capped = MissedLimits { after_ms: 1_000, max: 2 };
    assert_eq!(fire("capped", capped).await, 3, "two of nine that were missed, and the one in time");
    let patient = MissedLimits { after_ms: 5 * MINUTE, max: 2 };
    assert_eq!(fire("patient", patient).await, 5, "five minutes late is in time");
}

/// R7, R12: all of them or none; a file applied again changes nothing; what is not named is removed only if that is said.
pub async fn a_file_of_schedules_is_applied_as_a_whole(bed: Bed) {
    let apply = async |schedules: Vec<(&str, Schedule)>, prune: bool, dry_run: bool| {
        let schedules = schedules.into_iter().map(|(which, schedule)| (name(which), schedule)).collect();
        let request = ApplySchedules { schedules, prune, dry_run, actor: ann() };
        let applied = bed.store.apply_schedules(request, at(5)).await.expect("the store answers")?;
        let is = |one: &Applied| {
            (one.name.to_string(), one.before.is_some(), one.after.is_some(), one.audit.is_some())
        };
        Ok::<_, Refusal>(applied.iter().map(is).collect::<Vec<_>>())
    };
    let names = async || {
        let all = bed.store.schedules((), at(5)).await.expect("the store answers");
        all.iter().map(|state| format!("{} {}", state.name, state.version)).collect::<Vec<_>>()
    };
    bed.puts("by-hand", every_minute(), 0).await.expect("made");
    let other = Schedule { jitter_ms: 5, ..every_minute() };
    let bad = Schedule { timing: Timing::Cron("61 * * * *".into()), ..every_minute() };
    let refused = apply(vec![("a", every_minute()), ("b", bad)], true, false).await;
    is_invalid(&refused, "b: cron");
    is_invalid(&apply(vec![("a", every_minute()), ("a", other.clone())], false, false).await, "schedules");
    assert_eq!(names().await, ["by-hand 1"], "all or none");
    let file = || vec![("a", every_minute()), ("b", every_minute())];
    let new = |which: &str| (which.to_owned(), false, true, true);
    assert_eq!(
        apply(file(), true, true).await,
        Ok(vec![new("a"), new("b"), ("by-hand".into(), true, false, true)])
    );
    assert_eq!(names().await, ["by-hand 1"], "a dry run writes nothing");
    assert_eq!(apply(file(), false, false).await, Ok(vec![new("a"), new("b")]));
    assert_eq!(names().await, ["a 1", "b 1", "by-hand 1"]);
    let same = |which: &str| (which.to_owned(), true, true, false);
    assert_eq!(apply(file(), false, false).await, Ok(vec![same("a"), same("b")]), "a repeat changes nothing");
    let changed = apply(vec![("a", other)], true, false).await;
    let gone = |which: &str| (which.to_owned(), true, false, true);
    assert_eq!(changed, Ok(vec![("a".into(), true, true, true), gone("b"), gone("by-hand")]));
    assert_eq!(names().await, ["a 2"]);
    let actions = bed.audit().await.iter().filter(|entry| entry.action.as_str() == "schedule.remove").count();
    assert_eq!(actions, 2);
}

/// R7: a slot of the past becomes one job, whoever makes up for it, and the leader does not make it again.
pub async fn a_backfilled_slot_is_not_fired_again(bed: Bed) {
    let made = bed.puts("nightly", every_minute(), 0).await.expect("made");
    assert_eq!(bed.fires("nightly", MINUTE).await, [60]);
    let slots =
        made.schedule.slots(made.created_at).expect("slots").between(time(0), time(4 * MINUTE)).expect("few");
    assert_eq!(slots, [time(MINUTE), time(2 * MINUTE), time(3 * MINUTE)], "the end is not among them");
    let fill = async || {
        let jobs = slots.iter().map(|slot| made.schedule.job_of(&made.name, *slot, bed.id()).expect("a job"));
        let request = windlass_store::Enqueue { jobs: jobs.collect(), actor: ann(), idempotency: None };
        let made =
            bed.store.enqueue(request, at(4 * MINUTE)).await.expect("the store answers").expect("enqueued");
        made.iter().map(|one| one.existed).collect::<Vec<_>>()
    };
    assert_eq!(fill().await, [true, false, false]);
    assert_eq!(fill().await, [true, true, true]);
    assert_eq!(bed.fires("nightly", 4 * MINUTE).await, [240], "those of before have their jobs");
    let year = made.schedule.slots(made.created_at).expect("slots").between(time(0), time(525_600 * MINUTE));
    assert!(year.expect_err("too many").to_string().contains("1000 slots"));
}
