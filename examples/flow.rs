//! Jobs that wait for each other: a page is fetched, then counted and indexed side by side, and a report follows both. The alert is
//! for a fetch that fails, so here it is skipped.
//!
//! `cargo run -p windlass --example flow [STORE-URL]`

use serde::{Deserialize, Serialize};
use windlass::{Context, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "fetch", output = String)]
struct Fetch {
    url: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "count", output = usize)]
struct Count;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "index", output = Vec<String>)]
struct Index;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "alert")]
struct Alert;

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "report", output = String)]
struct Report;

async fn fetch(job: Fetch, _ctx: Context) -> Result<String, HandlerError> {
    Ok(format!("all about {}", job.url))
}

async fn count(_: Count, ctx: Context) -> Result<usize, HandlerError> {
    // The result of a job before this one, by its name in the flow.
    let page: String = ctx.upstream("page").await?;
    Ok(page.split_whitespace().count())
}

async fn index(_: Index, ctx: Context) -> Result<Vec<String>, HandlerError> {
    let page: String = ctx.upstream("page").await?;
    Ok(page.split_whitespace().map(str::to_owned).collect())
}

async fn report(_: Report, ctx: Context) -> Result<String, HandlerError> {
    let (words, index): (usize, Vec<String>) = (ctx.upstream("words").await?, ctx.upstream("index").await?);
    Ok(format!("{words} words, the last is {}", index.last().map_or("none", String::as_str)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/flow.db".into());
    let client = windlass::connect(&url).await?;

    let flow = client.flow();
    let page = flow.add("page", Fetch { url: "example.org".into() });
    let words = flow.add("words", Count).after(&page);
    let index_ = flow.add("index", Index).after(&page);
    flow.add("report", Report).after(&words).after(&index_);
    flow.add("alert", Alert).after_failure(&page);
    // All of it is written now, or nothing.
    let started = flow.start().await?;

    let worker = Worker::new(client.clone())
        .queue("default", 4)
        .handle(fetch)
        .handle(count)
        .handle(index)
        .handle(report)
        .handle(|_: Alert, _: Context| async move { Ok::<_, HandlerError>(()) });
    let ended = async {
        let report = client.wait::<Report>(started.jobs["report"]).await?;
        let alert = client.job(started.jobs["alert"]).await?;
        Ok::<_, windlass::Error>((report, alert))
    };
    let mut outcome = None;
    worker.run_until(async { outcome = Some(ended.await) }).await?;
    let (report, alert) = outcome.ok_or("the worker ended early")??;
    println!("{report}");
    let code = alert.and_then(|alert| alert.job.error_code);
    println!("the alert is {}", code.map_or_else(|| "there".to_owned(), |code| code.to_string()));
    Ok(())
}
