//! Measuring: wall time and CPU time of a stretch of work, what it costs the database's server, and the median of
//! several.

use crate::Tried;
use crate::postgres::Database;
use std::time::{Duration, Instant};

/// Linux counts CPU time in hundredths of a second, whatever the kernel's own tick is.
const CPU_TICK: Duration = Duration::from_millis(10);

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures how long things take")]
pub fn clock() -> Instant {
    Instant::now()
}

/// A stretch of work that is under way.
pub struct Meter {
    began: Instant,
    cpu: Option<Duration>,
    server: Option<Gauge>,
}

/// What a server has used so far.
#[derive(Debug, Clone, Copy)]
pub struct Gauge {
    /// CPU time of all its processes; none where it runs elsewhere.
    pub cpu: Option<Duration>,
    /// Bytes of its write-ahead log.
    pub wal_bytes: u64,
}

impl Meter {
    /// Begins; with the database's server in view, if there is one.
    pub async fn start(database: Option<&Database>) -> Tried<Self> {
        let server = gauge(database).await?;
        Ok(Self { server, cpu: cpu_time("self"), began: clock() })
    }

    /// What it took to get through so many jobs or rows.
    pub async fn stop(self, database: Option<&Database>, count: usize) -> Tried<Sample> {
        let wall = self.began.elapsed();
        let since = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        let cpu = since(cpu_time("self"), self.cpu);
        let server = gauge(database).await?.zip(self.server).map(|(now, then)| Gauge {
            cpu: since(now.cpu, then.cpu),
            wal_bytes: now.wal_bytes.saturating_sub(then.wal_bytes),
        });
        Ok(Sample { count, wall, cpu, server, dead_rows: None })
    }
}

async fn gauge(database: Option<&Database>) -> Tried<Option<Gauge>> {
    match database {
        Some(database) => database.gauge().await.map(Some),
        None => Ok(None),
    }
}

/// What a stretch of work took.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Jobs, or rows where there are no jobs.
    pub count: usize,
    pub wall: Duration,
    /// CPU time of the whole process, user and system; none where the system does not tell.
    pub cpu: Option<Duration>,
    /// What the server used, if there is one.
    pub server: Option<Gauge>,
    /// Versions of rows that were left behind dead, for a vacuum to remove.
    pub dead_rows: Option<u64>,
}

impl Sample {
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// CPU time per job in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        self.each(self.cpu?.as_secs_f64() * 1e6)
    }

    /// The server's CPU time per job in microseconds.
    pub fn server_cpu_us(&self) -> Option<f64> {
        self.each(self.server?.cpu?.as_secs_f64() * 1e6)
    }

    pub fn wal_bytes(&self) -> Option<f64> {
        self.each(self.server?.wal_bytes as f64)
    }

    pub fn dead_rows(&self) -> Option<f64> {
        self.each(self.dead_rows? as f64)
    }

    fn each(&self, whole: f64) -> Option<f64> {
        Some(whole / self.count.max(1) as f64)
    }
}

/// The middle one; of an even number, the mean of the two in the middle. None of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { f64::midpoint(values[middle - 1], upper) })
}

/// The value that this part of all is not above; none of none.
pub fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * part).ceil() as usize;
    values.get(place.saturating_sub(1)).copied()
}

/// User and system time of a process so far.
pub fn cpu_time(process: &str) -> Option<Duration> {
    let stat = Stat::read(process)?;
    Some(CPU_TICK * stat.own)
}

/// User and system time of a process, of its children, and of those that it had: a server with a process per
/// connection.
pub fn cpu_time_of_family(parent: u32) -> Option<Duration> {
    let first = Stat::read(&parent.to_string())?;
    let mut ticks = first.own + first.of_the_gone;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) else { continue };
        // A process that ends meanwhile is counted with the gone ones the next time.
        if let Some(stat) = Stat::read(name).filter(|stat| stat.parent == parent) {
            ticks += stat.own;
        }
    }
    Some(CPU_TICK * ticks)
}

/// What `/proc` tells of a process: its fields 4 and 14 to 17. The second field, the name, may itself hold spaces
/// and brackets, so counting starts after the last bracket.
struct Stat {
    parent: u32,
    own: u32,
    of_the_gone: u32,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |n: usize| fields.get(n)?.parse::<u32>().ok();
        Some(Self { parent: field(1)?, own: field(11)? + field(12)?, of_the_gone: field(13)? + field(14)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let of = |part| percentile(&hundred, part).unwrap();
        assert_eq!((of(0.5), of(0.99), of(1.0), percentile(&[], 0.5)), (50.0, 99.0, 100.0, None));
    }

    #[test]
    fn a_sample_counts_per_second_and_per_job() {
        let ten = Some(Duration::from_millis(10));
        let server = Some(Gauge { cpu: ten, wal_bytes: 1_000 });
        let sample =
            Sample { count: 500, wall: Duration::from_millis(250), cpu: ten, server, dead_rows: Some(250) };
        assert_eq!(sample.per_second(), 2_000.0);
        assert_eq!((sample.cpu_us(), sample.server_cpu_us()), (Some(20.0), Some(20.0)));
        assert_eq!((sample.wal_bytes(), sample.dead_rows()), (Some(2.0), Some(0.5)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cpu_time_never_goes_back_and_a_family_has_at_least_its_parents() {
        let (before, after) = (cpu_time("self").unwrap(), cpu_time("self").unwrap());
        assert!(after >= before);
        assert!(cpu_time_of_family(std::process::id()).unwrap() >= after);
        assert!(cpu_time_of_family(u32::MAX).is_none());
    }
}
