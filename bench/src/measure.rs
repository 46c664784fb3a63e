//! Measuring: wall time and CPU time of a stretch of work, and the median of several.

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
}

impl Meter {
    pub fn start() -> Self {
        Self { cpu: cpu_time(), began: clock() }
    }

    /// What it took to get through so many jobs or rows.
    pub fn stop(self, count: usize) -> Sample {
        let wall = self.began.elapsed();
        let cpu = cpu_time().zip(self.cpu).map(|(now, then)| now.saturating_sub(then));
        Sample { count, wall, cpu }
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
}

impl Sample {
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// CPU time per job in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.count.max(1) as f64)
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

/// User and system time of this process so far: fields 14 and 15 of its `stat`. The second field, the name, may
/// itself hold spaces and brackets, so counting starts after the last bracket.
fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(CPU_TICK * (user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_sample_counts_per_second_and_per_job() {
        let sample =
            Sample { count: 500, wall: Duration::from_millis(250), cpu: Some(Duration::from_millis(10)) };
        assert_eq!(sample.per_second(), 2_000.0);
        assert_eq!(sample.cpu_us(), Some(20.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cpu_time_never_goes_back() {
        let (before, after) = (cpu_time().unwrap(), cpu_time().unwrap());
        assert!(after >= before);
    }
}
