//! A peer, in its best documented configuration: graphile-worker, a Node program under `peers/`, installed from npm at the
//! versions of its lock file.

use crate::Tried;
use crate::measure::{Meter, Sample};
use crate::postgres::Server;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/graphile");

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fills its queue with no-op jobs and drains it, in a database of its own.
pub async fn drain(server: &Server, count: usize) -> Tried<Sample> {
    install()?;
    let database = server.database().await?;
    let mut node = Command::new("node");
    node.current_dir(FOLDER).args(["drain.mjs", database.url(), &count.to_string()]);
    let node = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = Running(node.map_err(|e| format!("no node ({e}); install Node.js 20 or later"))?);
    let (tell, said) = (node.0.stdin.take(), node.0.stdout.take());
    let (mut tell, said) = tell.zip(said).ok_or("the peer has no voice")?;
    let mut lines = BufReader::new(said).lines();
    let mut hears = move || -> Tried<String> { Ok(lines.next().ok_or("the peer ended early")??) };
    if hears()? != "ready" {
        return Err("the peer could not fill its queue".into());
    }
    let meter = Meter::start(Some(&database)).await?;
    writeln!(tell, "go")?;
    let took: serde_json::Value = serde_json::from_str(&hears()?)?;
    let mut sample = meter.stop(Some(&database), count).await?;
    let seconds = |key: &str| took[key].as_f64().map(Duration::from_secs_f64);
    if took["left"] != 0 {
        return Err(format!("the peer left jobs behind: {took}").into());
    }
    // Its own clock and its own CPU: this process only waited.
    sample.wall = seconds("wall_s").ok_or("the peer did not say how long it took")?;
    sample.cpu = seconds("cpu_s");
    drop(node);
    sample.dead_rows = Some(database.close().await?);
    Ok(sample)
}

/// How long an idle worker of its takes to begin a job, in milliseconds, with its defaults but for the concurrency: from
/// the acknowledged enqueue, and from its call.
pub async fn pickup(server: &Server, samples: usize, concurrency: usize) -> Tried<(Vec<f64>, Vec<f64>)> {
    install()?;
    let database = server.database().await?;
    let mut node = Command::new("node");
    node.current_dir(FOLDER).args(["pickup.mjs", database.url()]);
    node.args([samples, concurrency].map(|n| n.to_string())).stderr(Stdio::inherit());
    let said = node.output().map_err(|e| format!("no node ({e}); install Node.js 20 or later"))?;
    let took = serde_json::from_slice(&said.stdout);
    database.close().await?;
    took.map_err(|e| {
        format!("the peer ended with {} and did not say how soon it began: {e}", said.status).into()
    })
}

/// What its lock file names, once.
fn install() -> Tried<()> {
    if Path::new(FOLDER).join("node_modules/graphile-worker").exists() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.current_dir(FOLDER).args(["ci", "--no-audit", "--no-fund", "--silent"]);
    let installed =
        npm.status().map_err(|e| format!("no npm ({e}); install it (Debian: apt-get install npm)"))?;
    if installed.success() {
        Ok(())
    } else {
        Err(format!("npm ci in {FOLDER} ended with {installed}").into())
    }
}
