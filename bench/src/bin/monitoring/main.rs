//! What monitoring costs and how fast it answers: requests and turns with recording against without, turns with a
//! collector of traces that never answers against none, the endpoints over a year of usage, and a thousand alerts.
//!
//! `target/release/monitoring [ROWS] [year]`: how many calls of models the year has, 200,000 unless said; 10,000,000
//! takes some minutes and 5 GB of disk. With `year`, the endpoints over it are all that is measured.

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
    runtime.block_on(year::ask(rows))
}

/// A daemon in this process alone, which is what is measured then.
async fn serve(data_dir: &Path, is_recording: bool) -> Outcome<()> {
    let config = inside::config(ConfigSource::default(), data_dir)?;
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
    if !is_recording {
        running.context().recorder.turn_off();
    }
    println!("{}", running.address);
    std::future::pending().await
}

/// Starts [`serve`] in a process of its own.
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
