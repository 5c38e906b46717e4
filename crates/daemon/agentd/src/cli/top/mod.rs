//! `agentd top`: how the daemon is, again and again.
//!
//! Invariants: whatever ends it, the terminal is left as it was; a daemon that goes away is waited for; a line is cut
//! where the terminal ends and never wrapped; nothing that a model or another program wrote commands the terminal.
//!
//! Deliberately absent: figures of its own. It shows what `/api/monitoring` answers.

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
use super::terminal::{print_line, say, write_json_line};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd top\n  agentd top --interval 10\n  agentd top --json --once | jq '.performance.requests'\n\nq or Ctrl-C ends it."
)]
pub(super) struct TopArgs {
    /// How often to look
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
    /// Look once
    #[arg(long)]
    once: bool,
}

pub(super) async fn run(config: &Config, arguments: TopArgs) -> Result<(), CliError> {
    let mut sampler = Sampler::new(config);
    let interval = Duration::from_secs(arguments.interval);
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let can_draw = std::io::stdout().is_terminal() && !is_dumb;
    if !can_draw && !arguments.json && !arguments.once {
        say("no terminal that can be drawn on, so this is one sample; `--json` writes one a line until it is ended");
        return look_once(&mut sampler, false).await;
    }
    if arguments.once {
        return look_once(&mut sampler, arguments.json).await;
    }
    if arguments.json { stream(&mut sampler, interval).await } else { watch(&mut sampler, interval).await }
}

async fn look_once(sampler: &mut Sampler<'_>, is_json: bool) -> Result<(), CliError> {
    let sample = sampler.require().await?;
    if is_json {
        return write_json_line(&sample.json()).map_err(|source| CliError::Machine { source });
    }
    for line in view::lines(&sample) {
        print_line(line.text);
    }
    Ok(())
}

/// Until the reader goes away or somebody ends it.
async fn stream(sampler: &mut Sampler<'_>, interval: Duration) -> Result<(), CliError> {
    let mut ticks = every(interval);
    loop {
        ticks.tick().await;
        let sample = sampler.look().await;
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
    let mut ticks = every(interval);
    let watching = async {
        loop {
            tokio::select! {
                _ = resized.recv() => {}
                looked = async { ticks.tick().await; sampler.look().await } => sample = Some(looked),
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

/// Returns when `q` was pressed; never where there is no keyboard.
async fn quit_key() {
    #[allow(clippy::unbuffered_bytes, reason = "a key is a byte, and standard input has a buffer")]
    let is_pressed = || std::io::stdin().bytes().map_while(Result::ok).any(|key| matches!(key, b'q' | b'Q'));
    // The thread that waits for the keyboard ends with the process.
    if !matches!(tokio::task::spawn_blocking(is_pressed).await, Ok(true)) {
        std::future::pending().await
    }
}

/// At once, then each interval; after one that took longer the next comes an interval later.
fn every(interval: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
