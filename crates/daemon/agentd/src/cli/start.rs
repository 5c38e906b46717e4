//! Serving, and printing the document.

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use agentd_base::{Clock, Entropy};
use agentd_telemetry::LogRecords;
use tracing::{Level, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::terminal::Style;
use crate::config::{Config, ConfigSource, LogFormat};
use crate::lifecycle::{self, Offline};

/// How long a thread that may block waits for more work. The longest idle one is woken first, so all that a busy moment
/// needed stay for as long as each is woken once in this time; starting one anew takes some ten microseconds.
const IDLE_THREAD: Duration = Duration::from_millis(100);

pub(super) fn serve(mut config: Config) -> Result<(), Box<dyn Error>> {
    lifecycle::share_allocator_arenas();
    let records = LogRecords::new(config.telemetry.as_ref());
    start_log(&config, &records)?;
    config.log_records = records;
    log_config_file(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_keep_alive(IDLE_THREAD).enable_all().build()?;
    let outcome = runtime.block_on(lifecycle::run(config, Clock::system(), Entropy::system()));
    // Whatever still blocks a thread must not keep a drained daemon from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map_err(Into::into)
}

fn start_log(config: &Config, records: &LogRecords) -> Result<(), Box<dyn Error>> {
    let filter: tracing_subscriber::EnvFilter = config.log.parse()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match config.log_format {
        LogFormat::Text => lines.with_ansi(Style::of_stderr().is_coloured()).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let is_fit: fn(&Metadata<'_>) -> bool = |metadata| is_fit_for_the_log(metadata.target(), *metadata.level());
    let lines = lines.with_filter(filter_fn(is_fit));
    tracing_subscriber::registry().with(lines).with(records.layer(is_fit)).with(filter).try_init()?;
    Ok(())
}

fn log_config_file(config: &Config) {
    match &config.file {
        Some(file) => tracing::info!(config.file = %file.display(), "configuration loaded"),
        None => tracing::info!("configuration loaded without a file"),
    }
    for file in config.ignored_files() {
        tracing::warn!(
            config.file = %file.display(),
            "configuration file ignored; name it with --config, or move it to ~/.config/agentd or /etc/agentd"
        );
    }
}

/// The protocol library of tool servers logs what these wrote, whatever the owner asks of others. That its transport
/// ended it says without the reason, which the line of the server has.
fn is_fit_for_the_log(target: &str, level: Level) -> bool {
    let is_theirs = target.strip_prefix("rmcp").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    !is_theirs || (level <= Level::WARN && target != "rmcp::transport::worker")
}

/// Prints the document of a daemon with an empty data directory.
pub(super) async fn print_openapi() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let source = ConfigSource { data_dir: Some(folder.path().join("data")), ..ConfigSource::default() };
    let offline = Offline::open(Config::from_source(source)?, Clock::system(), Entropy::system()).await?;
    let mut text = serde_json::to_string_pretty(&offline.document())?;
    offline.close().await;
    text.push('\n');
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Who reads no further, as `head` does, has what he wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tool_servers_wrote_stays_out_of_the_log() {
        for (target, level, fits) in [
            ("rmcp", Level::INFO, false),
            ("rmcp::service", Level::TRACE, false),
            ("rmcp::service", Level::WARN, true),
            ("rmcp::transport::worker", Level::ERROR, false),
            ("rmcprox", Level::TRACE, true),
            ("agentd_engine::tools", Level::DEBUG, true),
        ] {
            assert_eq!(is_fit_for_the_log(target, level), fits, "{target} {level}");
        }
    }
}
