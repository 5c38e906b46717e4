//! Cost and response times of monitoring: requests and turns with and without recording, turns with and without an
//! unresponsive trace collector, the endpoints over a year of usage, and a thousand alerts.
//!
//! `target/release/monitoring [ROWS] [year]`: number of model calls in the year, 200,000 by default; 10,000,000 takes
//! several minutes and 5 GB of disk space. With `year`, only the endpoints are measured.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod alerts;
mod fill;
mod overhead;
mod year;

use std::path::Path;
use std::process::{Command, Stdio};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy};
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::{Outcome, inside};

const DEFAULT_ROWS: u64 = 200_000;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let [command, data_dir, recording] = arguments.as_slice()
        && command == "serve"
    {
        return runtime.block_on(serve(Path::new(data_dir), recording == "on"));
    }
    let (words, numbers): (Vec<&str>, _) = arguments.iter().map(String::as_str).partition(|word| *word == "year");
    let rows = numbers.first().map_or(Ok(DEFAULT_ROWS), |rows: &&str| rows.parse())?;
    if words.is_empty() {
        runtime.block_on(overhead::recording())?;
        runtime.block_on(overhead::traces())?;
        runtime.block_on(alerts::evaluate())?;
    }
    runtime.block_on(year::measure_endpoints(rows))
}

/// Runs a daemon alone in this process, which is then measured.
async fn serve(data_dir: &Path, is_recording: bool) -> Outcome<()> {
    let config = inside::config(ConfigSource::default(), data_dir)?;
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
    if !is_recording {
        running.context().recorder.turn_off();
    }
    println!("{}", running.address);
    std::future::pending().await
}

/// Starts [`serve`] in its own process.
#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
fn start(data_dir: &Path, recording: &str) -> Outcome<DaemonUnderTest> {
    use std::io::BufRead;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg(data_dir)
        .arg(recording)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut address = String::new();
    std::io::BufReader::new(output).read_line(&mut address)?;
    DaemonUnderTest::adopt(child, address.trim(), data_dir).with_owner()
}
