//! Overhead of a sandbox: `/bin/true` sandboxed compared to a plain spawn, alternately; and what 1,000 runs leave
//! behind. Usage: `overhead [RUNS]`.
//!
//! The same binary is the daemon's init.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agentd_process::{SpawnRequest, Spawner};
use agentd_sandbox::{Backend, Policy, RunRequest, Sandbox, SandboxSetup};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "sandbox-init") {
        agentd_sandbox::init::main(arguments.into_iter().skip(1).map(Into::into));
    }
    let runs = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(1000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.map(|runtime| runtime.block_on(measure(runs))) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::FAILURE,
        Ok(Err(error)) => fail(error.as_ref()),
        Err(error) => fail(&error),
    }
}

#[allow(clippy::print_stderr, reason = "a program's own message")]
fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

#[allow(clippy::print_stdout, reason = "the figures are the program's output")]
async fn measure(runs: usize) -> Result<bool, Box<dyn std::error::Error>> {
    let data = tempfile::tempdir()?;
    let workspace = data.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    let spawner = Spawner::start()?;
    let mut nothing_left = true;
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>10} {:>12}",
        "tier", "runs", "bare p50", "box p50", "box p99", "overhead p50"
    );
    for backend in [Backend::Bubblewrap, Backend::Landlock] {
        let setup = SandboxSetup {
            spawner: spawner.clone(),
            program: std::env::current_exe()?,
            init_arguments: vec!["sandbox-init".into()],
            state_directory: data.path().join("sandbox"),
            data_directory: data.path().to_owned(),
            control_groups: true,
        };
        let sandbox = Sandbox::new(setup, Policy { backend, ..Policy::default() })?;
        let status = sandbox.status().await;
        if status.tier.is_none() {
            println!("{backend:?}: not on this machine: {}", status.reason);
            continue;
        }
        let mut request = RunRequest::new("/bin/true", [""; 0]);
        request.writable_paths = vec![workspace.clone()];
        // One-time initialization happens before the measurement.
        sandbox.run(request.clone()).await?;
        let before = Left::count(data.path())?;
        let (mut bare, mut boxed) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
        for _ in 0..runs {
            let started = Instant::now();
            spawner.spawn(SpawnRequest::new("/bin/true")).await?.wait().await;
            bare.push(started.elapsed());
            let started = Instant::now();
            let outcome = sandbox.run(request.clone()).await?;
            boxed.push(started.elapsed());
            if !outcome.ended.is_success() {
                return Err(format!("/bin/true {}", outcome.ended).into());
            }
        }
        bare.sort_unstable();
        boxed.sort_unstable();
        let at = |times: &[Duration], part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
        println!(
            "{:<12} {runs:>8} {:>7.2} ms {:>7.2} ms {:>7.2} ms {:>9.2} ms",
            format!("{backend:?}").to_lowercase(),
            at(&bare, 50),
            at(&boxed, 50),
            at(&boxed, 99),
            at(&boxed, 50) - at(&bare, 50),
        );
        let after = Left::count(data.path())?;
        println!("             left behind: {before:?} before, {after:?} after");
        nothing_left &= after == before;
    }
    Ok(nothing_left)
}

/// Resources that could be left behind.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    processes: usize,
    mounts: usize,
    files: usize,
    descriptors: usize,
}

impl Left {
    fn count(data: &Path) -> std::io::Result<Self> {
        let own = std::process::id().to_string();
        let is_child = |entry: &std::fs::DirEntry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).is_some_and(|parent| parent == own)
        };
        Ok(Self {
            processes: std::fs::read_dir("/proc")?.flatten().filter(is_child).count(),
            mounts: std::fs::read_to_string("/proc/self/mountinfo")?.lines().count(),
            files: count_files(data)?,
            descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
        })
    }
}

fn count_files(directory: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        count += 1;
        if entry.file_type()?.is_dir() {
            count += count_files(&entry.path())?;
        }
    }
    Ok(count)
}
