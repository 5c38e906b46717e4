//! Configuration of the process, from flags, `SVC_*` variables, the configuration file and defaults, in this order of
//! precedence. Values that can change while the daemon runs are settings, not configuration.
//!
//! Invariant: all values of a [`Config`] are valid. All problems are reported together, each with the name of its
//! variable.

mod paths;
mod secrets;
mod source;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use agentd_core::parts::Domains;
use agentd_core::runtime::AppContext;
use agentd_inference::embedder::{DEFAULT_MODEL_FILE, Embedder};
use agentd_net::Exchange;
use agentd_telemetry::{DaemonOptions, LogRecords, TelemetryConfig};
use agentd_web::TrustedProxies;
use url::Url;

pub use paths::user_config_dir;
use secrets::SecretSource;
pub use source::{ConfigError, ConfigSource};

/// Validated configuration of a daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// Configuration file in use.
    pub file: Option<PathBuf>,
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// URL of the PostgreSQL database; `None` for the embedded SQLite file in the data directory.
    pub database_url: Option<Secret>,
    /// Whether anonymous access is disabled until the first key exists.
    pub api_key_required: bool,
    pub cors_origins: Vec<String>,
    /// Allowed host names in addition to `localhost`, IP addresses and the host of `base_url`.
    pub allowed_hosts: Vec<String>,
    pub trusted_proxies: TrustedProxies,
    pub secret_key_file: Option<PathBuf>,
    pub ui_dev_origin: String,
    /// Whether `ui_dev_origin` is configured rather than the default.
    pub is_ui_dev_origin_configured: bool,
    /// Public URL of the daemon, without a trailing slash.
    pub base_url: String,
    pub log: String,
    pub log_format: LogFormat,
    pub bootstrap_api_key_file: Option<PathBuf>,
    /// Export of traces, metrics and logs; `None` if disabled.
    pub telemetry: Option<TelemetryConfig>,
    /// Additional directory of models, searched after `models/` in the data directory.
    pub models_dir: Option<PathBuf>,
    /// File of the embedding model; `None` for the default file, see [`Self::embedding_model_paths`].
    pub embedding_model: Option<PathBuf>,
    /// Chromium executable; `None` to search for it.
    pub browser_path: Option<PathBuf>,
    /// Executable for child processes; `None` for the running one.
    pub program: Option<PathBuf>,
    /// Additional root certificates (DER) for mail servers. For tests only.
    pub extra_tls_roots: Vec<Vec<u8>>,
    /// Maximum time to send an email. Set only by tests.
    pub email_time_limit: Duration,
    /// Number of waiting hook deliveries from which the outbox is no longer read. Set only by tests.
    pub hook_waiting_limit: u64,
    /// Number of unread events from which requests that add events are rejected. Set only by tests.
    pub event_backlog_limit: u32,
    /// Embedder to use instead of the local model. For tests only.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Replacement of the network for outgoing requests. For tests only.
    pub exchange: Option<Arc<dyn Exchange>>,
    /// Additional domains of a program that embeds the daemon, such as a test.
    pub additions: Additions,
    /// Log records of the process, which logs before the daemon is composed.
    pub log_records: LogRecords,
}

/// Function that adds a domain.
pub type AddDomain = dyn Fn(&AppContext, &mut Domains) + Send + Sync;

/// Domains that are composed after the built-in ones.
#[derive(Clone, Default)]
pub struct Additions(pub Vec<Arc<AddDomain>>);

impl std::fmt::Debug for Additions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Additions").field(&self.0.len()).finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

pub const DEFAULT_PORT: u16 = 7878;
const DEFAULT_EMAIL_TIME_LIMIT: Duration = Duration::from_secs(45);
const DEFAULT_HOOK_WAITING_LIMIT: u64 = 200_000;
const DEFAULT_EVENT_BACKLOG_LIMIT: u32 = 500_000;
const DEFAULT_LOG: &str = "info";
const DEFAULT_UI_DEV_ORIGIN: &str = "http://localhost:5173";

impl Config {
    /// Validates the merged sources.
    ///
    /// # Errors
    /// `ConfigError` with all invalid values.
    pub fn from_source(source: ConfigSource) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let telemetry = telemetry(&source, &mut problems);
        let host = match source.host.as_deref() {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.parse().unwrap_or_else(|_| {
                problems.push(format!(
                    "SVC_HOST is `{text}`, which is not an IP address; use 127.0.0.1 for this machine only or 0.0.0.0 for all networks"
                ));
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }),
        };
        let port = source.port.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let port = port.map_or(DEFAULT_PORT, |text| {
            text.parse().unwrap_or_else(|_| {
                problems.push(format!(
                    "SVC_PORT is `{text}`; it must be an integer from 0 to 65535, where 0 selects any free port"
                ));
                DEFAULT_PORT
            })
        });
        let api_key_required = source.api_key_required.as_deref().unwrap_or_default();
        let api_key_required = parse_switch(api_key_required).unwrap_or_else(|| {
            problems.push(format!("SVC_API_KEY_REQUIRED is `{api_key_required}`; it must be true or false"));
            false
        });
        let listen = SocketAddr::new(host, port);
        let data_dir = source.data_dir.filter(|path| !path.as_os_str().is_empty());
        let data_dir = data_dir.or_else(paths::user_data_dir).unwrap_or_else(|| {
            problems
                .push("neither SVC_DATA_DIR nor HOME is set; set SVC_DATA_DIR to a directory for the data".to_owned());
            PathBuf::new()
        });
        let database_url = SecretSource {
            variable: "SVC_DATABASE_URL",
            value: source.database_url.as_ref(),
            file: source.database_url_file.as_deref(),
            credential: "database_url",
        };
        let database_url = database_url.read(source.credentials_dir.as_deref(), &mut problems);
        if let Some(url) = &database_url
            && !["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme))
        {
            problems
                .push("SVC_DATABASE_URL must begin with postgres://; omit it to use the embedded database".to_owned());
        }
        if let Some(url) = &database_url
            && let Some((_, rest)) = url.expose().split_once("://")
            && !has_database_host(rest)
        {
            problems.push(
                "SVC_DATABASE_URL has no host; it must have the form postgres://user:password@host:5432/database"
                    .to_owned(),
            );
        }
        let base_url = source.base_url.as_deref().filter(|text| !text.is_empty()).map(|text| {
            parse_web_address(text).map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_else(|| {
                problems
                    .push(format!("SVC_BASE_URL is `{text}`, which is not a URL such as https://agents.example.com"));
                String::new()
            })
        });
        let mut cors_origins = Vec::new();
        for text in parse_list(source.cors_origins.as_deref()) {
            match parse_web_address(&text).filter(|url| url.path() == "/") {
                Some(url) => cors_origins.push(origin(&url)),
                None => problems.push(format!(
                    "SVC_CORS_ORIGINS contains `{text}`, which is not an origin such as https://ui.example.com"
                )),
            }
        }
        let allowed_hosts = parse_list(source.allowed_hosts.as_deref());
        for host in &allowed_hosts {
            if host.contains(['/', ':', '*', ' ']) {
                problems.push(format!("SVC_ALLOWED_HOSTS contains `{host}`; use host names without scheme or port"));
            }
        }
        let proxies = parse_list(source.trusted_proxies.as_deref());
        let trusted_proxies = TrustedProxies::parse(proxies.iter().map(String::as_str)).unwrap_or_else(|problem| {
            problems.push(format!("SVC_TRUSTED_PROXIES: {problem}"));
            TrustedProxies::default()
        });
        let ui_dev_origin = source.ui_dev_origin.as_deref().filter(|text| !text.is_empty());
        let is_ui_dev_origin_configured = ui_dev_origin.is_some();
        let ui_dev_origin = ui_dev_origin.unwrap_or(DEFAULT_UI_DEV_ORIGIN);
        let ui_dev_origin = parse_web_address(ui_dev_origin).map(|url| origin(&url)).unwrap_or_else(|| {
            problems.push(format!(
                "SVC_UI_DEV_ORIGIN is `{ui_dev_origin}`, which is not an origin such as {DEFAULT_UI_DEV_ORIGIN}"
            ));
            String::new()
        });
        let log = source.log.unwrap_or_else(|| DEFAULT_LOG.to_owned());
        if !is_log_filter(&log) {
            problems.push(format!(
                "SVC_LOG is `{log}`; use error, warn, info, debug, trace, or a filter such as agentd=debug"
            ));
        }
        let log_format = match source.log_format.as_deref() {
            None | Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => {
                problems.push(format!("SVC_LOG_FORMAT is `{other}`; use text or json"));
                LogFormat::Text
            }
        };
        for (name, file) in [
            ("SVC_SECRET_KEY_FILE", &source.secret_key_file),
            ("SVC_BOOTSTRAP_API_KEY_FILE", &source.bootstrap_api_key_file),
            ("SVC_EMBEDDING_MODEL", &source.embedding_model),
            ("SVC_BROWSER_PATH", &source.browser_path),
        ] {
            if let Some(file) = file
                && file.is_dir()
            {
                problems.push(format!("{name} is {}, which is a directory; set it to a file", file.display()));
            }
        }
        for (name, file) in
            [("SVC_EMBEDDING_MODEL", &source.embedding_model), ("SVC_BROWSER_PATH", &source.browser_path)]
        {
            if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
                problems.push(format!("{name} is empty; set it to a file or omit it"));
            }
        }
        if source.models_dir.as_ref().is_some_and(|directory| directory.as_os_str().is_empty()) {
            problems.push("SVC_MODELS_DIR is empty; set it to a directory or omit it".to_owned());
        }
        if !problems.is_empty() {
            return Err(ConfigError(problems));
        }
        Ok(Self {
            file: source.file,
            listen,
            data_dir,
            database_url,
            api_key_required,
            cors_origins,
            allowed_hosts,
            trusted_proxies,
            secret_key_file: source.secret_key_file,
            ui_dev_origin,
            is_ui_dev_origin_configured,
            base_url: base_url.unwrap_or_else(|| own_origin(listen)),
            log,
            log_format,
            bootstrap_api_key_file: source.bootstrap_api_key_file,
            telemetry,
            models_dir: source.models_dir,
            embedding_model: source.embedding_model,
            browser_path: source.browser_path,
            program: source.program,
            extra_tls_roots: Vec::new(),
            email_time_limit: DEFAULT_EMAIL_TIME_LIMIT,
            hook_waiting_limit: DEFAULT_HOOK_WAITING_LIMIT,
            event_backlog_limit: DEFAULT_EVENT_BACKLOG_LIMIT,
            embedder: None,
            exchange: None,
            additions: Additions::default(),
            log_records: LogRecords::new(None),
        })
    }

    /// Returns the directories to search for models, in this order.
    #[must_use]
    pub fn model_dirs(&self) -> Vec<PathBuf> {
        let own = self.data_dir.join("models");
        let directories = std::iter::once(own).chain(self.models_dir.clone());
        directories.map(|directory| std::path::absolute(&directory).unwrap_or(directory)).collect()
    }

    /// Returns the candidate files of the embedding model; the first that exists is used.
    #[must_use]
    pub fn embedding_model_paths(&self) -> Vec<PathBuf> {
        match &self.embedding_model {
            Some(path) => vec![path.clone()],
            None => self.model_dirs().into_iter().map(|directory| directory.join(DEFAULT_MODEL_FILE)).collect(),
        }
    }

    /// Returns existing configuration files that only earlier versions read.
    #[must_use]
    pub fn ignored_files(&self) -> Vec<PathBuf> {
        let in_use = self.file.as_ref().and_then(|file| file.canonicalize().ok());
        let present = paths::former_files(&self.data_dir).into_iter().filter_map(|file| file.canonicalize().ok());
        present.filter(|file| Some(file) != in_use.as_ref()).collect()
    }

    /// Returns the public URL of a daemon that listens on `address`, without a trailing slash: `base_url` if
    /// configured, otherwise the URL of the address.
    #[must_use]
    pub fn public_url(&self, address: SocketAddr) -> String {
        self.configured_base_url().unwrap_or_else(|| own_origin(address))
    }

    /// Returns `base_url`, unless it is only derived from the listen address.
    #[must_use]
    pub fn configured_base_url(&self) -> Option<String> {
        (self.base_url != own_origin(self.listen)).then(|| self.base_url.clone())
    }

    /// Returns the allowed names in `Host` headers.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        let own = parse_web_address(&self.base_url).and_then(|url| url.host_str().map(str::to_owned));
        self.allowed_hosts.iter().cloned().chain(own).collect()
    }

    /// Returns the origin of the base URL, in the format of the `Origin` header.
    #[must_use]
    pub fn base_origin(&self) -> Option<String> {
        parse_web_address(&self.base_url).map(|url| origin(&url))
    }

    /// Returns the origins whose pages may read responses. `address` is the actual listen address.
    #[must_use]
    pub fn allowed_origins(&self, address: SocketAddr) -> Vec<String> {
        std::iter::once(self.ui_dev_origin.clone()).chain(self.known_origins(address)).collect()
    }

    /// Returns the origins whose pages may set up a daemon without API keys.
    ///
    /// In a release build, the default origin of the development server is not included, because any program on the
    /// user's machine may serve its port.
    #[must_use]
    pub fn setup_origins(&self, address: SocketAddr) -> Vec<String> {
        self.setup_origins_of_build(address, cfg!(debug_assertions))
    }

    fn setup_origins_of_build(&self, address: SocketAddr, is_debug: bool) -> Vec<String> {
        let is_trusted = self.is_ui_dev_origin_configured || is_debug;
        is_trusted.then(|| self.ui_dev_origin.clone()).into_iter().chain(self.known_origins(address)).collect()
    }

    /// Returns the daemon's own origins and those of `SVC_CORS_ORIGINS`.
    fn known_origins(&self, address: SocketAddr) -> Vec<String> {
        // A browser's `Origin` has neither the path nor the default port of the base URL.
        let mut origins = vec![own_origin(address)];
        origins.extend(self.base_origin());
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            origins.push(format!("http://localhost:{}", address.port()));
            origins.push(format!("http://127.0.0.1:{}", address.port()));
        }
        origins.extend(self.cors_origins.iter().cloned());
        origins
    }
}

/// Returns the origin of a daemon that listens on `listen`, as seen from its own machine.
#[must_use]
pub fn own_origin(listen: SocketAddr) -> String {
    let ip = listen.ip();
    if ip.is_unspecified() { format!("http://127.0.0.1:{}", listen.port()) } else { format!("http://{listen}") }
}

/// Whether a PostgreSQL URL without its scheme has a host: in the authority, or in the parameter `host`, as for a Unix
/// socket.
fn has_database_host(rest: &str) -> bool {
    let (authority, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let has_host = !host.is_empty() && !host.starts_with(':');
    has_host
        || parameters
            .split('&')
            .any(|pair| pair.strip_prefix("host").is_some_and(|rest| rest.trim_start_matches("addr").len() > 1))
}

/// Whether the text is a log filter without misspelled levels. The parser would interpret a misspelled level as the
/// name of a module, which disables all other logs.
fn is_log_filter(text: &str) -> bool {
    let is_valid =
        |part: &str| part.contains(['=', '[']) || part.parse::<tracing::level_filters::LevelFilter>().is_ok();
    text.parse::<tracing_subscriber::filter::EnvFilter>().is_ok()
        && text.split(',').map(str::trim).filter(|part| !part.is_empty()).all(is_valid)
}

/// Reads the telemetry configuration. Headers and the content switch have no effect without an endpoint.
fn telemetry(source: &ConfigSource, problems: &mut Vec<String>) -> Option<TelemetryConfig> {
    let content = source.otlp_content.as_deref().unwrap_or_default();
    let includes_content = parse_switch(content).unwrap_or_else(|| {
        problems.push(format!("SVC_OTLP_CONTENT is `{content}`; it must be true or false"));
        false
    });
    let headers = SecretSource {
        variable: "SVC_OTLP_HEADERS",
        value: source.otlp_headers.as_ref(),
        file: source.otlp_headers_file.as_deref(),
        credential: "otlp_headers",
    };
    let headers = headers.read(source.credentials_dir.as_deref(), problems);
    let endpoint = source.otlp_endpoint.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let options = DaemonOptions { endpoint, headers: headers.as_ref(), includes_content };
    TelemetryConfig::parse(&options, &source.otel).unwrap_or_else(|more| {
        problems.extend(more);
        None
    })
}

/// Parses a switch; an empty text counts as not set.
fn parse_switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "" | "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn parse_list(text: Option<&str>) -> Vec<String> {
    let entries = text.unwrap_or_default().split(',').map(|entry| entry.trim().trim_end_matches('/'));
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// Parses an `http` or `https` URL without credentials, query and fragment.
fn parse_web_address(text: &str) -> Option<Url> {
    // The parser would also accept `https:host`.
    let has_full_scheme = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    let url = Url::parse(text).ok().filter(|_| has_full_scheme)?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some_and(|host| !host.contains('*'));
    is_plain.then_some(url)
}

/// Returns the origin of a URL in the format of the `Origin` header.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests;
