//! Daemon under a long mixed load: chat with tools, episodes and searches, hooks to a sink, a job every second, stream
//! clients and devices that come and go, settings changes, and backups. Stored data is also deleted, so that any growth
//! after the first third is a leak. Prints the resource usage regularly, then the slope of each value over the last two
//! thirds, and fails if one exceeds its limit.
//!
//! `--minutes N` sets the duration, 60 by default. The load keeps the daemon and itself at about 30 % CPU usage of the
//! machine.
//!
//! Its test runs for three minutes, and tolerates other load on the machine.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod held;
mod load;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::{DaemonUnderTest, processor_time_of};

use held::Series;
use load::Load;

/// Maximum share of the machine's CPU time.
const CPU_SHARE: f64 = 0.3;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of samples per printed line.
const SAMPLES_PER_LINE: usize = 12;

fn minutes() -> Outcome<f64> {
    let mut given = std::env::args().skip(1);
    match (given.next().as_deref(), given.next()) {
        (None, _) => Ok(60.0),
        (Some("--minutes"), Some(count)) => Ok(count.parse()?),
        _ => Err("the only argument is --minutes N".into()),
    }
}

fn main() -> Outcome<ExitCode> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        Ok(if soak(minutes()?, Series::is_flat).await? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Runs the load and returns whether the samples are within their limits.
async fn soak(minutes: f64, is_within: fn(&Series, Duration) -> bool) -> Outcome<bool> {
    let folder = tempfile::tempdir()?;
    let daemon = Arc::new(DaemonUnderTest::start_with_owner(&folder.path().join("data"))?);
    let load = Load::begin(Arc::clone(&daemon), folder.path().join("archive")).await?;
    println!("{}", held::HEADER);
    let whole = Duration::from_secs_f64(minutes * 60.0);
    let (started, mut series) = (Instant::now(), Series::default());
    let mut used = processor_time(&daemon);
    while started.elapsed() < whole {
        let began = Instant::now();
        tokio::time::sleep(SAMPLE_INTERVAL).await;
        load.check()?;
        let now = processor_time(&daemon);
        load.pace.adjust(share_of_machine(now.saturating_sub(used), began.elapsed()) / CPU_SHARE);
        used = now;
        let sample = held::take_sample(&daemon, started.elapsed(), load.stored());
        if series.len().is_multiple_of(SAMPLES_PER_LINE) {
            println!("{sample}");
        }
        series.add(sample);
    }
    println!("\n{}", load.summary());
    load.end().await?;
    Ok(is_within(&series, whole))
}

/// Returns the CPU time of the daemon and of the load itself.
fn processor_time(daemon: &DaemonUnderTest) -> Duration {
    daemon.processor_time() + processor_time_of(std::process::id())
}

fn share_of_machine(used: Duration, elapsed: Duration) -> f64 {
    let processors =
        std::thread::available_parallelism().map_or(1.0, |count| u32::try_from(count.get()).map_or(1.0, f64::from));
    used.as_secs_f64() / elapsed.as_secs_f64() / processors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "takes three minutes and a daemon that was built: scripts/soak-briefly.sh"]
    async fn resources_are_released_after_three_minutes() {
        assert!(soak(3.0, Series::releases_resources).await.expect("a soak"));
    }
}
