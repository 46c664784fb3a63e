//! What it takes to go on with a job that waited often.

#[path = "support/probe.rs"]
mod probe;
mod site;
mod support;

use probe::Probe;
use site::Site;
use std::time::{Duration, Instant};
use support::{Task, task};
use windlass::{Client, Context, HandlerError, JobId, Worker};

/// Enough, and four times as many.
const SLEEPS: [usize; 2] = [500, 2_000];
/// Calls of the store that an attempt takes: its claim, its record, its end, and now and then an empty claim.
const CALLS_MAX: usize = 5;
/// How many short records are read whole before a worker keeps them, with room.
const READ_WHOLE_MAX: usize = 100;

/// A worker whose handler sleeps as often as the job's text says.
fn sleeper(client: Client) -> Worker {
    Worker::new(client).queue("tasks", 1).handle(|job: Task, ctx: Context| async move {
        let sleeps: usize = job.text.parse()?;
        for n in 0..sleeps {
            ctx.sleep(&format!("s{n}"), Duration::ZERO).await?;
        }
        Ok::<_, HandlerError>(ctx.fence().to_string())
    })
}

/// The version from which on each read of the record began.
fn read_after(probe: &Probe, id: JobId) -> Vec<usize> {
    let of = |request: &String| {
        assert!(request.contains(&format!("{id:?}")), "{request}");
        let after = request.split("after: ").nth(1).and_then(|rest| rest.split([' ', ',']).next());
        after.and_then(|after| after.parse().ok()).unwrap_or_else(|| panic!("no place in {request}"))
    };
    probe.asked("steps").iter().map(of).collect()
}

on_both_stores! {
    /// J11 (resume): a job that sleeps four times as often takes four times as many calls, and each reads what is new.
    #[test]
    async fn a_thousand_sleeps_are_not_read_a_thousand_times(site: Site) {
        for sleeps in SLEEPS {
            let (probe, client) = Probe::around(&site.client().await);
            let id = client.enqueue(task(&sleeps.to_string())).await.unwrap().id;
            let began = Instant::now();
            let mut fence = String::new();
            let ended = async { fence = client.wait::<Task>(id).await.unwrap() };
            sleeper(client.clone()).run_until(ended).await.unwrap();
            println!("{sleeps} sleeps took {:?}", began.elapsed());
            let attempts = sleeps + 1;
            assert_eq!(fence, attempts.to_string());
            for verb in ["claim", "settle", "steps"] {
                let calls = probe.asked(verb).len();
                assert!(calls <= CALLS_MAX * attempts, "{calls} of {verb} for {sleeps} sleeps");
            }
            // Each attempt writes a wait and a claim: from its claim on, the next one reads these two.
            let whole = read_after(&probe, id).into_iter().filter(|after| *after == 0).count();
            assert!(whole <= READ_WHOLE_MAX, "{whole} of {attempts} attempts read everything");
            let late = read_after(&probe, id).into_iter().skip(READ_WHOLE_MAX);
            for (n, after) in late.enumerate() {
                // The nth attempt is claimed at version 2n.
                let claim = 2 * (n + READ_WHOLE_MAX + 2);
                assert!(claim - after <= 4, "attempt at {claim} reads from {after}");
            }
        }
    }
}
