//! What a job of a flow is told of those before it. On the rig: no database, no waiting.

mod support;

use support::{Task, task};
use windlass::testing::Rig;
use windlass::{Context, Error, HandlerError, JobId, Worker};

/// The code that a job failed with.
async fn code(rig: &Rig, id: JobId) -> String {
    match rig.client().wait::<Task>(id).await {
        Err(Error::Ended(ended)) => ended.code,
        other => panic!("it does not fail: {other:?}"),
    }
}

async fn obey(job: Task, ctx: Context) -> Result<String, HandlerError> {
    match job.text.as_str() {
        "works" => Ok("a text".to_owned()),
        "fails" => Err(HandlerError::permanent("no")),
        "reads a number" => Ok(ctx.upstream::<u64>("works").await?.to_string()),
        name => ctx.upstream(name.trim_start_matches("reads ")).await,
    }
}

/// (flows) A result that is not there fails the job that asks for it, at once and with a code: of a name that it did not wait for,
/// of a job that did not complete, and of one whose result is of another type.
#[tokio::test]
async fn a_result_that_is_not_there_says_why() {
    let rig = Rig::new();
    let worker = Worker::new(rig.client().clone()).queue("tasks", 1).handle(obey);
    let flow = rig.client().flow();
    let works = flow.add("works", task("works"));
    let fails = flow.add("fails", task("fails"));
    flow.add("copies", task("reads works")).after(&works);
    flow.add("number", task("reads a number")).after(&works);
    flow.add("strange", task("reads nobody")).after(&works);
    flow.add("missing", task("reads fails")).after_finish(&fails);
    let jobs = flow.start().await.unwrap().jobs;
    rig.drain(&worker).await;
    assert_eq!(rig.output::<Task>(jobs["copies"]).await, "a text");
    for (name, expected) in
        [("number", "unreadable"), ("strange", "upstream_unknown"), ("missing", "upstream_missing")]
    {
        assert_eq!(code(&rig, jobs[name]).await, expected, "{name}");
        assert_eq!(rig.view(jobs[name]).await.job.attempt, 1, "{name}: no other try can help");
    }
}
