//! Serving, and printing the document.

use std::error::Error;
use std::io::Write;

use agentd_base::{Clock, Entropy};

use crate::config::{Config, LogFormat};
use crate::lifecycle;

pub(super) fn serve(config: Config) -> Result<(), Box<dyn Error>> {
    start_log(&config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(lifecycle::run(config, Clock::system(), Entropy::system()));
    // Whatever still blocks a thread must not keep a drained daemon from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome.map_err(Into::into)
}

fn start_log(config: &Config) -> Result<(), Box<dyn Error>> {
    let filter: tracing_subscriber::EnvFilter = config.log.parse()?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match config.log_format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| -> Box<dyn Error> { error })
}

pub(super) fn print_openapi() -> Result<(), Box<dyn Error>> {
    let mut text = serde_json::to_string_pretty(&crate::compose::document())?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
