//! Sources of the configuration, merged but not validated.

use std::error::Error as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentd_base::Secret;
use agentd_core::runtime::read_trusted;
use agentd_telemetry::Variables;
use clap::Args;
use serde::{Deserialize, Deserializer};

use super::paths::default_files;
use super::secrets::credentials_directory;

const MAX_FILE_BYTES: u64 = 1 << 20;

/// Problems of the configuration, one sentence each.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("The configuration is not valid:\n{}", .0.iter().map(|line| format!("  - {line}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<String>);

/// Unvalidated configuration values. Flags and variables are parsed by `clap`, the file by `serde`, with the same
/// names. Numbers and switches are text, so that an invalid one does not hide other problems.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigSource {
    /// Address to listen on; 127.0.0.1 accepts only local connections
    #[arg(long, env = "SVC_HOST", global = true)]
    pub host: Option<String>,
    /// Port to listen on [default: 7878]
    #[arg(long, env = "SVC_PORT", global = true)]
    #[serde(default, deserialize_with = "as_text")]
    pub port: Option<String>,
    /// Data directory [default: ~/.local/share/agentd]
    #[arg(long, env = "SVC_DATA_DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// PostgreSQL URL, `postgres://user:password@host/database` [default: embedded SQLite]
    #[arg(long, env = "SVC_DATABASE_URL", global = true, hide_env_values = true, value_parser = parse_secret)]
    pub database_url: Option<Secret>,
    /// File with the database URL
    #[arg(long, env = "SVC_DATABASE_URL_FILE", global = true)]
    pub database_url_file: Option<PathBuf>,
    /// Require an API key even for the initial setup: no anonymous access before the first key exists
    #[arg(long, env = "SVC_API_KEY_REQUIRED", global = true, num_args = 0..=1, default_missing_value = "true")]
    #[serde(default, deserialize_with = "as_text")]
    pub api_key_required: Option<String>,
    /// Origins of pages that may call the API, separated by commas
    #[arg(long, env = "SVC_CORS_ORIGINS", global = true)]
    pub cors_origins: Option<String>,
    /// Allowed host names in requests, separated by commas
    #[arg(long, env = "SVC_ALLOWED_HOSTS", global = true)]
    pub allowed_hosts: Option<String>,
    /// Proxies whose X-Forwarded-For header is trusted: addresses or networks, separated by commas
    #[arg(long, env = "SVC_TRUSTED_PROXIES", global = true)]
    pub trusted_proxies: Option<String>,
    /// File of the key that encrypts stored secrets [default: secret.key in the data directory]
    #[arg(long, env = "SVC_SECRET_KEY_FILE", global = true)]
    pub secret_key_file: Option<PathBuf>,
    /// Origin of the web page's development server; if set, it may also set up a daemon without API keys
    /// [default: http://localhost:5173]
    #[arg(long, env = "SVC_UI_DEV_ORIGIN", global = true)]
    pub ui_dev_origin: Option<String>,
    /// Public URL of the daemon, such as https://agents.example.com
    #[arg(long, env = "SVC_BASE_URL", global = true)]
    pub base_url: Option<String>,
    /// Log level (error, warn, info, debug, trace) or filter [default: info]
    #[arg(long, env = "SVC_LOG", global = true)]
    pub log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, env = "SVC_LOG_FORMAT", global = true)]
    pub log_format: Option<String>,
    /// Additional directory with models, searched after models/ in the data directory [default: none]
    #[arg(long, env = "SVC_MODELS_DIR", global = true)]
    pub models_dir: Option<PathBuf>,
    /// GGUF file of the embedding model for memory search [default: all-minilm-l6-v2-q8_0.gguf in models/ of the data
    /// directory]
    #[arg(long, env = "SVC_EMBEDDING_MODEL", global = true)]
    pub embedding_model: Option<PathBuf>,
    /// Path of the Chromium executable [default: the installed one]
    #[arg(long, env = "SVC_BROWSER_PATH", global = true)]
    pub browser_path: Option<PathBuf>,
    /// OTLP collector URL, such as http://localhost:4318 (see also OTEL_EXPORTER_OTLP_ENDPOINT)
    #[arg(long, env = "SVC_OTLP_ENDPOINT", global = true)]
    pub otlp_endpoint: Option<String>,
    /// Headers for the collector, as key=value,key=value
    #[arg(long, env = "SVC_OTLP_HEADERS", global = true, hide_env_values = true, value_parser = parse_secret)]
    pub otlp_headers: Option<Secret>,
    /// File with the headers for the collector
    #[arg(long, env = "SVC_OTLP_HEADERS_FILE", global = true)]
    pub otlp_headers_file: Option<PathBuf>,
    /// Include message contents in spans
    #[arg(long, env = "SVC_OTLP_CONTENT", global = true, num_args = 0..=1, default_missing_value = "true")]
    #[serde(default, deserialize_with = "as_text")]
    pub otlp_content: Option<String>,
    /// File with the first API key, for unattended setups
    #[arg(long, env = "SVC_BOOTSTRAP_API_KEY_FILE", global = true)]
    pub bootstrap_api_key_file: Option<PathBuf>,
    /// Executable for child processes, for programs that embed the daemon. Default: the running executable.
    #[arg(skip)]
    #[serde(skip)]
    pub program: Option<PathBuf>,
    /// Configuration file that values were read from.
    #[arg(skip)]
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// Standard variables of OpenTelemetry.
    #[arg(skip)]
    #[serde(skip)]
    pub otel: Variables,
    /// Directory of credentials loaded by systemd.
    #[arg(skip)]
    #[serde(skip)]
    pub credentials_dir: Option<PathBuf>,
}

/// Converts a number or switch in the file to the text form used in variables.
fn as_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    })
}

fn parse_secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

impl ConfigSource {
    /// Reads the configuration file: the named one, which must exist, or the first that exists of
    /// `$XDG_CONFIG_HOME/agentd/agentd.toml` and `/etc/agentd/agentd.toml`. The working directory is never searched.
    ///
    /// # Errors
    /// `ConfigError` if the file cannot be read, is writable by another user, is not TOML, or has an unknown key.
    pub fn from_file(named: Option<&Path>) -> Result<Self, ConfigError> {
        let path = match named {
            Some(path) => path.to_path_buf(),
            None => match first_present(default_files())? {
                Some(path) => path,
                None => return Ok(Self::default()),
            },
        };
        let problem = |what: String| ConfigError(vec![what]);
        let path = std::path::absolute(&path).map_err(|error| problem(format!("{}: {error}", path.display())))?;
        let text = read_trusted(&path, MAX_FILE_BYTES).map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            problem(format!("{error}{cause}"))
        })?;
        let source: Self =
            toml::from_str(&text).map_err(|error| problem(format!("{}: {}", path.display(), error.message())))?;
        Ok(Self { file: Some(path.clone()), ..source.with_paths_below(path.parent().unwrap_or(Path::new("/"))) })
    }

    /// Adds values from the environment: OpenTelemetry variables and the credentials directory of systemd.
    #[must_use]
    pub fn with_environment(self) -> Self {
        Self { otel: Variables::from_env(), credentials_dir: credentials_directory(), ..self }
    }

    /// Resolves relative paths against a directory, so that they do not depend on the working directory.
    fn with_paths_below(mut self, directory: &Path) -> Self {
        for path in [
            &mut self.data_dir,
            &mut self.database_url_file,
            &mut self.secret_key_file,
            &mut self.models_dir,
            &mut self.embedding_model,
            &mut self.browser_path,
            &mut self.otlp_headers_file,
            &mut self.bootstrap_api_key_file,
        ] {
            if let Some(path) = path.as_mut().filter(|path| !path.as_os_str().is_empty()) {
                *path = directory.join(&*path);
            }
        }
        self
    }

    /// Merges the values with those of `fallback`; the values of `self` take precedence.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        // A secret and the file that contains it are one value.
        let (database_url, database_url_file) = match (self.database_url, self.database_url_file) {
            (None, None) => (fallback.database_url, fallback.database_url_file),
            own => own,
        };
        let (otlp_headers, otlp_headers_file) = match (self.otlp_headers, self.otlp_headers_file) {
            (None, None) => (fallback.otlp_headers, fallback.otlp_headers_file),
            own => own,
        };
        Self {
            host: self.host.or(fallback.host),
            port: self.port.or(fallback.port),
            data_dir: self.data_dir.or(fallback.data_dir),
            database_url,
            database_url_file,
            api_key_required: self.api_key_required.or(fallback.api_key_required),
            cors_origins: self.cors_origins.or(fallback.cors_origins),
            allowed_hosts: self.allowed_hosts.or(fallback.allowed_hosts),
            trusted_proxies: self.trusted_proxies.or(fallback.trusted_proxies),
            secret_key_file: self.secret_key_file.or(fallback.secret_key_file),
            ui_dev_origin: self.ui_dev_origin.or(fallback.ui_dev_origin),
            base_url: self.base_url.or(fallback.base_url),
            log: self.log.or(fallback.log),
            log_format: self.log_format.or(fallback.log_format),
            models_dir: self.models_dir.or(fallback.models_dir),
            embedding_model: self.embedding_model.or(fallback.embedding_model),
            browser_path: self.browser_path.or(fallback.browser_path),
            otlp_endpoint: self.otlp_endpoint.or(fallback.otlp_endpoint),
            otlp_headers,
            otlp_headers_file,
            otlp_content: self.otlp_content.or(fallback.otlp_content),
            program: self.program.or(fallback.program),
            file: self.file.or(fallback.file),
            otel: self.otel,
            credentials_dir: self.credentials_dir,
            bootstrap_api_key_file: self.bootstrap_api_key_file.or(fallback.bootstrap_api_key_file),
        }
    }
}

/// Returns the first file that exists. A file that cannot be accessed is an error and not skipped.
fn first_present(files: impl IntoIterator<Item = PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    for file in files {
        match file.symlink_metadata() {
            Ok(_) => return Ok(Some(file)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(ConfigError(vec![format!("{} cannot be read: {error}", file.display())])),
        }
    }
    Ok(None)
}
