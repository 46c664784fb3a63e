//! A trip that is booked in steps, and how it may end.

use crate::support::Task;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass::{Context, HandlerError, JobId};

/// What happened to each job, in order.
#[derive(Clone, Default)]
pub struct Books(Arc<Mutex<Vec<(JobId, String)>>>);

impl Books {
    pub fn write(&self, id: JobId, line: impl Into<String>) {
        self.0.lock().expect("unpoisoned").push((id, line.into()));
    }

    pub fn of(&self, id: JobId) -> Vec<String> {
        let lines = self.0.lock().expect("unpoisoned");
        lines.iter().filter(|(job, _)| *job == id).map(|(_, line)| line.clone()).collect()
    }
}

/// Books one thing, which can be undone.
pub async fn book(ctx: &Context<Books>, what: &str) -> Result<String, HandlerError> {
    let (books, id) = (ctx.state().clone(), ctx.id());
    let booked = ctx.step(what, || async {
        ctx.state().write(ctx.id(), what);
        Ok::<_, HandlerError>(format!("{what} 7"))
    });
    let undo = move |ticket: String| async move {
        books.write(id, format!("not {ticket}"));
        Ok::<_, HandlerError>(())
    };
    booked.undo(&format!("cancel-{what}"), undo).await
}

async fn book_trip(ctx: &Context<Books>) -> Result<(), HandlerError> {
    book(ctx, "flight").await?;
    ctx.progress(30, "flown").await?;
    book(ctx, "hotel").await?;
    ctx.progress(60, "booked").await
}

/// Books, and then ends as its text says.
pub async fn travel(job: Task, ctx: Context<Books>) -> Result<String, HandlerError> {
    book_trip(&ctx).await?;
    match job.text.as_str() {
        "fails" => Err(HandlerError::retry("no car")),
        "panics" => panic!("no car"),
        "hangs" => std::future::pending().await,
        "comes back" => Err(HandlerError::retry_after(Duration::from_secs(3600), "not yet")),
        "asks" => ctx.approval("pay").prompt("900 €?").await.map(|()| String::new()),
        "asks shortly" => {
            ctx.approval("pay").prompt("900 €?").expires(Duration::from_secs(1)).await.map(|()| String::new())
        }
        "waits" => ctx.wait_for("paid").await,
        _ => Ok("booked".to_owned()),
    }
}
