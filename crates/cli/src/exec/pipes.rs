//! The three pipes of a program: payload in, the last line of output, log lines.

use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use windlass_core::limits::{LOG_LINE_MAX_BYTES, PAYLOAD_MAX_BYTES};
use windlass_engine::Attempt;

/// Log lines written at once.
const LINES: usize = 100;
/// How long a line may wait for others to be written with.
const FLUSH: Duration = Duration::from_millis(200);
/// Of the last line of the log, what an error repeats.
const REPEATED: usize = 1_000;

/// The last line of standard output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Said {
    /// There was none.
    #[default]
    Nothing,
    /// This.
    Line(Vec<u8>),
    /// More than a result may have.
    TooLong,
}

/// Gives the payload, or `null`, and closes the pipe. A program that does not read is no error.
pub async fn feed(stdin: Option<ChildStdin>, attempt: &Attempt) {
    let Some(mut stdin) = stdin else { return };
    let payload = attempt.payload().map_or(&b"null"[..], |payload| payload.as_bytes());
    if let Err(error) = stdin.write_all(payload).await {
        tracing::debug!(%error, job = %attempt.job_id(), "the program did not read its payload");
    }
}

/// Reads to the end and keeps the last line that is not empty.
pub async fn last_line(stdout: Option<ChildStdout>) -> Said {
    let Some(mut stdout) = stdout else { return Said::Nothing };
    let (mut buffer, mut lines) = (vec![0u8; 16 << 10], LastLine::default());
    while let Ok(n @ 1..) = stdout.read(&mut buffer).await {
        lines.push(&buffer[..n]);
    }
    lines.finish()
}

/// Keeps one line, however many come.
#[derive(Debug, Default)]
struct LastLine {
    current: Vec<u8>,
    is_long: bool,
    last: Said,
}

impl LastLine {
    fn push(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|b| *b == b'\n');
        self.add(parts.next().unwrap_or_default());
        for part in parts {
            self.end();
            self.add(part);
        }
    }

    fn add(&mut self, part: &[u8]) {
        let room = PAYLOAD_MAX_BYTES + 1 - self.current.len().min(PAYLOAD_MAX_BYTES + 1);
        self.is_long |= part.len() > room;
        self.current.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.current);
        let is_long = std::mem::take(&mut self.is_long);
        let line = line.trim_ascii();
        // What is longer and no JSON is chatter like any other line.
        let is_json = line.first().is_some_and(|b| b"{[\"".contains(b));
        if is_long || line.len() > PAYLOAD_MAX_BYTES {
            self.last = if is_json { Said::TooLong } else { Said::Nothing };
        } else if !line.is_empty() {
            self.last = Said::Line(line.to_vec());
        }
    }

    fn finish(mut self) -> Said {
        self.end();
        self.last
    }
}

/// Writes standard error to the job's log, as it comes, and answers its last line.
pub async fn write_log(stderr: Option<ChildStderr>, attempt: &Attempt) -> String {
    let Some(mut stderr) = stderr else { return String::new() };
    let (mut buffer, mut cutter, mut ready) = (vec![0u8; 16 << 10], Cutter::default(), Vec::new());
    loop {
        let read = stderr.read(&mut buffer);
        let read = if ready.is_empty() { Ok(read.await) } else { tokio::time::timeout(FLUSH, read).await };
        match read {
            Ok(Ok(n @ 1..)) => cutter.push(&buffer[..n], &mut ready),
            Ok(_) => break,
            Err(_) => write(attempt, std::mem::take(&mut ready)).await,
        }
        if ready.len() >= LINES {
            write(attempt, std::mem::take(&mut ready)).await;
        }
    }
    cutter.finish(&mut ready);
    write(attempt, ready).await;
    cutter.last
}

async fn write(attempt: &Attempt, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    // A lost lease ends the attempt by itself; anything else costs lines, not the job.
    if let Err(error) = attempt.log(lines).await {
        tracing::warn!(job = %attempt.job_id(), error = error.message(), "log lines are lost");
    }
}

/// Cuts bytes into lines that the log takes.
#[derive(Debug, Default)]
struct Cutter {
    current: Vec<u8>,
    last: String,
}

impl Cutter {
    fn push(&mut self, bytes: &[u8], ready: &mut Vec<String>) {
        for byte in bytes {
            if *byte == b'\n' {
                self.cut(ready);
                continue;
            }
            self.current.push(*byte);
            // A byte that is no text takes three when it is replaced.
            if self.current.len() >= LOG_LINE_MAX_BYTES / 3 {
                self.cut(ready);
            }
        }
    }

    fn cut(&mut self, ready: &mut Vec<String>) {
        let bytes = std::mem::take(&mut self.current);
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\r').replace('\0', "\u{fffd}");
        if !line.trim().is_empty() {
            self.last = line.chars().take(REPEATED).collect();
        }
        ready.push(line);
    }

    fn finish(&mut self, ready: &mut Vec<String>) {
        if !self.current.is_empty() {
            self.cut(ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(chunks: &[&[u8]]) -> Said {
        let mut lines = LastLine::default();
        chunks.iter().for_each(|chunk| lines.push(chunk));
        lines.finish()
    }

    #[test]
    fn the_last_line_counts_wherever_the_pipe_was_cut() {
        assert_eq!(last(&[b"chatter\n{\"a\"", b":1}\n", b"\n  \n"]), Said::Line(b"{\"a\":1}".to_vec()));
        assert_eq!(last(&[b"no end"]), Said::Line(b"no end".to_vec()));
        assert_eq!(last(&[]), Said::Nothing);
        let long = vec![b'['; PAYLOAD_MAX_BYTES];
        assert_eq!(last(&[&long, b"[[", b"\n"]), Said::TooLong);
        assert_eq!(last(&[&long, b"[[", b"\n", b"1\n"]), Said::Line(b"1".to_vec()));
    }

    #[test]
    fn every_line_fits_the_log() {
        let (mut cutter, mut ready) = (Cutter::default(), Vec::new());
        cutter.push(&[0xff; 3 * LOG_LINE_MAX_BYTES], &mut ready);
        cutter.push(b"\na\0b\r\nthe end", &mut ready);
        cutter.finish(&mut ready);
        assert!(ready.iter().all(|line| line.len() <= LOG_LINE_MAX_BYTES && !line.contains('\0')));
        assert_eq!(&ready[ready.len() - 2..], ["a\u{fffd}b", "the end"]);
        assert_eq!(cutter.last, "the end");
    }
}
