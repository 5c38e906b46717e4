//! `agentd serve` and `agentd openapi`.

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

/// Idle time after which a blocking thread exits. Tokio wakes the thread that has been idle longest, so with a longer
/// time, all threads of a load peak would stay alive. Starting a thread takes about ten microseconds.
const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(100);

pub(super) fn serve(mut config: Config) -> Result<(), Box<dyn Error>> {
    lifecycle::share_allocator_arenas();
    let records = LogRecords::new(config.telemetry.as_ref());
    start_log(&config, &records)?;
    config.log_records = records;
    log_config_file(&config);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().thread_keep_alive(THREAD_KEEP_ALIVE).enable_all().build()?;
    let outcome = runtime.block_on(lifecycle::run(config, Clock::system(), Entropy::system()));
    // A blocked thread must not keep a drained daemon from exiting.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map_err(Into::into)
}

fn start_log(config: &Config, records: &LogRecords) -> Result<(), Box<dyn Error>> {
    let filter: tracing_subscriber::EnvFilter = config.log.parse()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match config.log_format {
        LogFormat::Text => lines.with_ansi(Style::of_stderr().is_colored()).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let is_loggable_metadata: fn(&Metadata<'_>) -> bool = |metadata| is_loggable(metadata.target(), *metadata.level());
    let lines = lines.with_filter(filter_fn(is_loggable_metadata));
    tracing_subscriber::registry().with(lines).with(records.layer(is_loggable_metadata)).with(filter).try_init()?;
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

/// Whether a record may be logged. The MCP library logs contents of tool servers below the level `warn`, so these
/// records are excluded. Its transport errors are excluded too, because the daemon logs them with their reason.
fn is_loggable(target: &str, level: Level) -> bool {
    let is_mcp_library = target.strip_prefix("rmcp").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    !is_mcp_library || (level <= Level::WARN && target != "rmcp::transport::worker")
}

/// Prints the OpenAPI document of a daemon with an empty data directory.
pub(super) async fn print_openapi() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let source = ConfigSource { data_dir: Some(folder.path().join("data")), ..ConfigSource::default() };
    let offline = Offline::open(Config::from_source(source)?, Clock::system(), Entropy::system()).await?;
    let mut text = serde_json::to_string_pretty(&offline.document())?;
    offline.close().await;
    text.push('\n');
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // The reader, such as `head`, may stop early.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_tool_servers_are_not_logged() {
        for (target, level, expected) in [
            ("rmcp", Level::INFO, false),
            ("rmcp::service", Level::TRACE, false),
            ("rmcp::service", Level::WARN, true),
            ("rmcp::transport::worker", Level::ERROR, false),
            ("rmcprox", Level::TRACE, true),
            ("agentd_engine::tools", Level::DEBUG, true),
        ] {
            assert_eq!(is_loggable(target, level), expected, "{target} {level}");
        }
    }
}
