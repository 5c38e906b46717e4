//! Connects to a tool server program and disconnects again, many times; prints the memory cost and the remaining
//! processes.
//!
//! `cargo run --package agentd-mcp --example cycles -- 200 node PATH/dist/index.js`

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::time::Duration;

use agentd_mcp::{ConnectOptions, Connection, StdioStreams};
use agentd_process::{SpawnRequest, Spawner, Stream};

/// Cycles before memory is first measured, so that buffers of the runtime and the allocator reach their size.
const WARM_UP: usize = 20;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: cycles COUNT PROGRAM [ARGUMENT…]";
    let count: usize = arguments.next().ok_or(usage)?.parse()?;
    let program = arguments.next().ok_or(usage)?;
    let arguments: Vec<String> = arguments.collect();
    let spawner = Spawner::start()?;
    for _ in 0..WARM_UP {
        cycle(&spawner, &program, &arguments).await?;
    }
    let before = resident_kilobytes()?;
    println!("resident before: {before} KB, after {WARM_UP} cycles of warming up");
    for done in 1..=count {
        cycle(&spawner, &program, &arguments).await?;
        if done % 50 == 0 {
            println!("resident after {done} cycles: {} KB", resident_kilobytes()?);
        }
    }
    let after = resident_kilobytes()?;
    let change = (after as f64 / before as f64 - 1.0) * 100.0;
    println!("resident after: {after} KB ({change:+.1} %)");
    println!("processes left: {}", children()?);
    println!("handles open: {}", std::fs::read_dir("/proc/self/fd")?.count());
    Ok(())
}

async fn cycle(spawner: &Spawner, program: &str, arguments: &[String]) -> Result<(), Failure> {
    let mut request = SpawnRequest::new("/usr/bin/env");
    request.arguments = std::iter::once(program).chain(arguments.iter().map(String::as_str)).map(Into::into).collect();
    request.environment = vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())];
    (request.stdin, request.stdout, request.stderr) = (Stream::Pipe, Stream::Pipe, Stream::Pipe);
    let mut child = spawner.spawn(request).await?;
    let streams = StdioStreams {
        stdout: child.stdout.take().ok_or("no pipe")?,
        stdin: child.stdin.take().ok_or("no pipe")?,
        stderr: child.stderr.take(),
    };
    let connection = Connection::over_stdio(streams, ConnectOptions::default()).await?;
    let tools = connection.list_tools().await?.tools.len();
    if tools == 0 {
        return Err("the server offers no tools".into());
    }
    connection.close().await;
    if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
        child.kill();
        child.wait().await;
    }
    Ok(())
}

fn resident_kilobytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn children() -> Result<usize, Failure> {
    let own = std::process::id().to_string();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.filter_map(Result::ok) {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        count += usize::from(after_name.split_whitespace().nth(1) == Some(own.as_str()));
    }
    Ok(count)
}
