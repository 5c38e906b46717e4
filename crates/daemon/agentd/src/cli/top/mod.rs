//! `agentd top`: live view of the daemon.
//!
//! Invariants: the terminal is restored however the command ends. If the daemon stops, the view waits for it. Lines are
//! truncated at the width of the terminal and never wrapped. Untrusted text cannot send escape sequences to the
//! terminal.
//!
//! All values come from `/api/monitoring`.

mod sample;
mod screen;
mod view;

use std::io::{IsTerminal, Read};
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use self::sample::{Sample, Sampler};
use self::screen::Screen;
use super::error::CliError;
use super::terminal::{print_line, print_message, write_json_line};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd top\n  agentd top --interval 10\n  agentd top --json --once | jq '.performance.requests'\n\nPress q or Ctrl-C to quit."
)]
pub(super) struct TopArgs {
    /// Refresh interval
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Print one sample and exit
    #[arg(long)]
    once: bool,
}

pub(super) async fn run(config: &Config, arguments: TopArgs) -> Result<(), CliError> {
    let mut sampler = Sampler::new(config);
    let interval = Duration::from_secs(arguments.interval);
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let can_draw = std::io::stdout().is_terminal() && !is_dumb;
    if !can_draw && !arguments.json && !arguments.once {
        print_message("stdout is not a terminal, so this is one sample; use `--json` for a stream of samples");
        return print_once(&mut sampler, false).await;
    }
    if arguments.once {
        return print_once(&mut sampler, arguments.json).await;
    }
    if arguments.json { stream(&mut sampler, interval).await } else { watch(&mut sampler, interval).await }
}

async fn print_once(sampler: &mut Sampler<'_>, is_json: bool) -> Result<(), CliError> {
    let sample = sampler.require().await?;
    if is_json {
        return write_json_line(&sample.json()).map_err(|source| CliError::Machine { source });
    }
    for line in view::lines(&sample) {
        print_line(line.text);
    }
    Ok(())
}

/// Writes samples until the reader closes the pipe.
async fn stream(sampler: &mut Sampler<'_>, interval: Duration) -> Result<(), CliError> {
    let mut ticks = ticker(interval);
    loop {
        ticks.tick().await;
        let sample = sampler.sample().await;
        if write_json_line(&sample.json()).is_err() {
            return Ok(());
        }
    }
}

async fn watch(sampler: &mut Sampler<'_>, interval: Duration) -> Result<(), CliError> {
    let machine = |source| CliError::Machine { source };
    let mut resized = signal(SignalKind::window_change()).map_err(machine)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(machine)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(machine)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(machine)?;
    let screen = Screen::open();
    let mut sample: Option<Sample> = None;
    let mut ticks = ticker(interval);
    let watching = async {
        loop {
            tokio::select! {
                _ = resized.recv() => {}
                next = async { ticks.tick().await; sampler.sample().await } => sample = Some(next),
            }
            if let Some(sample) = &sample {
                screen.draw(&view::lines(sample));
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = quit_key() => {}
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
    Ok(())
}

/// Resolves when `q` is pressed; never without a keyboard.
async fn quit_key() {
    #[allow(clippy::unbuffered_bytes, reason = "a key is a byte, and standard input has a buffer")]
    let is_pressed = || std::io::stdin().bytes().map_while(Result::ok).any(|key| matches!(key, b'q' | b'Q'));
    // The thread that reads the keyboard ends with the process.
    if !matches!(tokio::task::spawn_blocking(is_pressed).await, Ok(true)) {
        std::future::pending().await
    }
}

/// Ticks immediately and then at each interval. After a delayed tick, the next comes one interval later.
fn ticker(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
