//! Noticing other processes: while somebody waits for a hint, the file is asked twenty times a second whether
//! another connection changed it.

use crate::connect;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use windlass_store::Hinter;

const EVERY: Duration = Duration::from_millis(50);

/// The polling thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Poll {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Poll {
    pub(crate) fn start(path: PathBuf, hinter: Arc<Hinter>) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let work = move || {
            let (mut conn, mut last) = (None, None);
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if !hinter.is_watched() {
                    continue;
                }
                if conn.is_none() {
                    conn = connect::reader(&path).ok();
                }
                let ask = |c: &rusqlite::Connection| {
                    c.pragma_query_value(None, "data_version", |r| r.get::<_, i64>(0))
                };
                match conn.as_ref().map(ask) {
                    Some(Ok(version)) => {
                        if last.replace(version).is_some_and(|before| before != version) {
                            hinter.hint(true);
                        }
                    }
                    _ => conn = None,
                }
            }
        };
        let thread = std::thread::Builder::new().name("windlass-poll".into()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
