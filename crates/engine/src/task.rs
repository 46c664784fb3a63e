//! Where tasks begin: every one of them is watched, and its panic is told.

use futures_util::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::runtime::Handle;

use crate::repeat::Pause;

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

/// Runs a task to its end on the current runtime, without anybody waiting. Its panic is logged.
pub(crate) fn detach(task: impl Future<Output = ()> + Send + 'static) {
    detach_on(&Handle::current(), task);
}

/// As [`detach`], on a given runtime.
pub(crate) fn detach_on(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(async move {
        if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
            tracing::error!(panic = panic_message(&*panic), "a task of the engine panicked; this is a bug");
        }
    });
}

/// Polls a call of a store inside a runtime: what the store spawns for it, such as a connection, lives there.
pub(crate) async fn inside<T>(runtime: &Handle, call: impl Future<Output = T>) -> T {
    let mut call = std::pin::pin!(call);
    std::future::poll_fn(|cx| {
        let _inside = runtime.enter();
        call.as_mut().poll(cx)
    })
    .await
}

/// Runs what `begin` makes until it ends; begins it again if it panicked, so that a bug costs a moment and not the
/// worker.
pub(crate) async fn keep<T, Fut: Future<Output = T>>(
    name: &'static str,
    mut begin: impl FnMut() -> Fut,
) -> T {
    let mut pause = Pause::new(Duration::from_millis(100), Duration::from_secs(5));
    loop {
        match AssertUnwindSafe(begin()).catch_unwind().await {
            Ok(end) => return end,
            Err(panic) => {
                let panic = panic_message(&*panic);
                tracing::error!(
                    task = name,
                    panic,
                    "a part of the engine panicked and begins again; this is a bug"
                );
                tokio::time::sleep(pause.next()).await;
            }
        }
    }
}
