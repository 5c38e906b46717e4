//! Cold start: time from spawning the process to the first 200 on `/health/ready`, on an empty data directory and on
//! one with 1,000 agents; and memory when idle. Reference: starting `/bin/true` in the same way.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::{DaemonUnderTest, MemoryUsage, binary};
use agentd_bench::figures::Sample;
use serde_json::json;

const AGENTS: usize = 1000;
const RUNS: usize = 20;
/// Number of samples of an idle daemon, and their interval.
const IDLE_SAMPLES: u32 = 24;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let daemon = DaemonUnderTest::start_with_owner(&folder.path().join("data"))?;
    for number in 0..AGENTS {
        let agent = json!({"svc_name": format!("agent-{number}"), "user_name": "Owner", "archetype": "assistant"});
        daemon.call("POST", "/api/agents", &agent)?;
    }
    daemon.stop()?;

    let (mut starts, mut references, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let began = Instant::now();
        Command::new("/bin/true").stdout(Stdio::null()).status()?;
        let reference = began.elapsed();
        let began = Instant::now();
        let daemon = DaemonUnderTest::spawn(&folder.path().join("data"))?;
        daemon.wait_until_ready()?;
        let start = began.elapsed();
        if run > 0 {
            starts.push(start.as_secs_f64() * 1000.0);
            references.push(reference.as_secs_f64() * 1000.0);
            std::thread::sleep(Duration::from_secs(1));
            memory.push(daemon.memory());
        }
        daemon.stop()?;
    }
    let mut first_starts = Vec::new();
    for run in 0..=RUNS {
        let began = Instant::now();
        let daemon = DaemonUnderTest::spawn(&folder.path().join(format!("empty-{run}")))?;
        daemon.wait_until_ready()?;
        if run > 0 {
            first_starts.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        daemon.stop()?;
    }
    let daemon = DaemonUnderTest::spawn(&folder.path().join("data"))?;
    daemon.wait_until_ready()?;
    let mut idle = Vec::new();
    let mut slept = 0;
    for look in 0..IDLE_SAMPLES {
        if look == IDLE_SAMPLES / 2 {
            slept = daemon.sleeps();
        }
        std::thread::sleep(SAMPLE_INTERVAL);
        idle.push(daemon.memory());
    }
    let wakes = daemon.sleeps() - slept;
    daemon.stop()?;
    println!("{AGENTS} agents, {RUNS} starts");
    println!("spawn to ready, ms:     {}", Sample::new(starts));
    println!("the same, empty folder: {}", Sample::new(first_starts));
    println!("spawn of /bin/true, ms: {}", Sample::new(references));
    print_memory("after 1 s", &memory);
    print_memory("over 2 min", &idle);
    println!("wake-ups in the 2nd min:  {wakes}");
    println!("binary, MB:             {:.1}", mebibytes(std::fs::metadata(binary())?.len()));
    Ok(())
}

type Figure = fn(&MemoryUsage) -> u64;

fn print_memory(when: &str, memory: &[MemoryUsage]) {
    let figures: [(&str, Figure); 3] = [
        ("resident", |memory| memory.resident),
        ("proportional (PSS)", |memory| memory.proportional),
        ("anonymous", |memory| memory.anonymous),
    ];
    for (name, figure) in figures {
        let sample = memory.iter().map(|memory| mebibytes(figure(memory))).collect();
        println!("{name} {when}, MB: {}", Sample::new(sample));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a size")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
