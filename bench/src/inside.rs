//! Daemon inside the benchmark's own process.

use std::path::Path;

use agentd::config::{Config, ConfigSource};

use crate::Outcome;
use crate::daemon::binary;

/// Returns the configuration. Child processes are started from the release binary: those of the benchmark's own binary
/// would be much larger and distort the measurement.
///
/// # Errors
/// The release binary does not exist, or a value is invalid.
pub fn config(source: ConfigSource, data_dir: &Path) -> Outcome<Config> {
    let program = binary();
    if !program.is_file() {
        return Err(format!("{} is not there; build it with `cargo build --release`", program.display()).into());
    }
    let (data_dir, program) = (Some(data_dir.to_path_buf()), Some(program));
    let models_dir = Some("models".into());
    let source = ConfigSource { port: Some("0".to_owned()), data_dir, models_dir, program, ..source };
    Config::from_source(source).map_err(|problems| format!("{problems:?}").into())
}
