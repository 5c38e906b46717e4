//! The configuration of the process: flags, then `SVC_*` variables, then the configuration file, then
//! defaults. What an owner changes while the daemon runs is a setting, not configuration.
//!
//! Invariant: a [`Config`] exists only when every value in it is valid; every problem is reported
//! at once, each with the name under which it was given.

mod places;
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

pub use places::user_config_dir;
use secrets::SecretSource;
pub use source::{ConfigError, ConfigSource};

/// The valid configuration of a daemon.
#[derive(Debug, Clone)]
pub struct Config {
    /// The configuration file in use.
    pub file: Option<PathBuf>,
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// `None`: the embedded SQLite file in the data directory.
    pub database_url: Option<Secret>,
    /// Nothing is open to anonymous requests until the first key exists.
    pub api_key_required: bool,
    pub cors_origins: Vec<String>,
    /// Host names besides `localhost`, IP literals and that of `base_url`.
    pub allowed_hosts: Vec<String>,
    pub trusted_proxies: TrustedProxies,
    pub secret_key_file: Option<PathBuf>,
    pub ui_dev_origin: String,
    /// Whether `ui_dev_origin` is configured rather than the default.
    pub names_ui_dev_origin: bool,
    /// How the daemon is reached from outside, without a slash at the end.
    pub base_url: String,
    pub log: String,
    pub log_format: LogFormat,
    pub bootstrap_api_key_file: Option<PathBuf>,
    /// Where traces, metrics and logs go; `None`: nowhere.
    pub telemetry: Option<TelemetryConfig>,
    /// Directory that is searched for models after `models/` of the data directory.
    pub models_dir: Option<PathBuf>,
    /// `None`: the one that `make models` fetches; see [`Self::embedding_model_paths`].
    pub embedding_model: Option<PathBuf>,
    /// The program of Chromium; `None`: it is looked for.
    pub browser_path: Option<PathBuf>,
    /// The binary that child processes are started from; `None`: the one that runs.
    pub program: Option<PathBuf>,
    /// Certificates (DER) that mail servers may be vouched for by, besides those of the machine. No
    /// flag, variable or file sets it: it is there for tests.
    pub extra_tls_roots: Vec<Vec<u8>>,
    /// How long one e-mail may take. Nothing but a test sets it either.
    pub email_time_limit: Duration,
    /// As soon as so much waits for hooks, events are left in the outbox. Nothing but a test sets it.
    pub hook_waiting_limit: u64,
    /// As soon as so many events wait to be read, requests that would add to them are refused. As above.
    pub event_backlog_limit: u32,
    /// What makes vectors of texts, where it is not the model inside. For tests, too.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// What answers requests to the outside, where it is not the network. For tests alone.
    pub exchange: Option<Arc<dyn Exchange>>,
    /// Domains that an embedding program, such as a test, adds.
    pub additions: Additions,
    /// The records of the log, which belong to the process: its log began before the daemon.
    pub log_records: LogRecords,
}

/// Adds a domain to the list.
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
    /// Every value that is not valid, with the name under which it was given.
    pub fn from_source(source: ConfigSource) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let telemetry = telemetry(&source, &mut problems);
        let host = match source.host.as_deref() {
            None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(text) => text.parse().unwrap_or_else(|_| {
                problems.push(format!(
                    "SVC_HOST is `{text}`, which is no IP address; use 127.0.0.1 for this machine alone or 0.0.0.0 for every network"
                ));
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }),
        };
        let port = source.port.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let port = port.map_or(DEFAULT_PORT, |text| {
            text.parse().unwrap_or_else(|_| {
                problems.push(format!(
                    "SVC_PORT is `{text}`; it must be a whole number from 0 to 65535, where 0 takes any free port"
                ));
                DEFAULT_PORT
            })
        });
        let api_key_required = source.api_key_required.as_deref().unwrap_or_default();
        let api_key_required = switch(api_key_required).unwrap_or_else(|| {
            problems.push(format!("SVC_API_KEY_REQUIRED is `{api_key_required}`; it must be true or false"));
            false
        });
        let listen = SocketAddr::new(host, port);
        let data_dir = source.data_dir.filter(|path| !path.as_os_str().is_empty());
        let data_dir = data_dir.or_else(places::user_data_dir).unwrap_or_else(|| {
            problems.push("SVC_DATA_DIR is not set, and neither is HOME; name a directory for the data".to_owned());
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
            problems.push(
                "SVC_DATABASE_URL must begin with postgres://; leave it out to use the embedded database".to_owned(),
            );
        }
        if let Some(url) = &database_url
            && let Some((_, rest)) = url.expose().split_once("://")
            && !names_database_host(rest)
        {
            problems.push(
                "SVC_DATABASE_URL names no host; it must look like postgres://user:password@host:5432/database"
                    .to_owned(),
            );
        }
        let base_url = source.base_url.as_deref().filter(|text| !text.is_empty()).map(|text| {
            web_address(text).map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_else(|| {
                problems
                    .push(format!("SVC_BASE_URL is `{text}`, which is no address such as https://agents.example.com"));
                String::new()
            })
        });
        let mut cors_origins = Vec::new();
        for origin in list(source.cors_origins.as_deref()) {
            match web_address(&origin).filter(|url| url.path() == "/") {
                Some(url) => cors_origins.push(origin_of(&url)),
                None => problems.push(format!(
                    "SVC_CORS_ORIGINS names `{origin}`, which is no origin such as https://ui.example.com"
                )),
            }
        }
        let allowed_hosts = list(source.allowed_hosts.as_deref());
        for host in &allowed_hosts {
            if host.contains(['/', ':', '*', ' ']) {
                problems
                    .push(format!("SVC_ALLOWED_HOSTS names `{host}`; give plain host names without scheme or port"));
            }
        }
        let proxies = list(source.trusted_proxies.as_deref());
        let trusted_proxies = TrustedProxies::parse(proxies.iter().map(String::as_str)).unwrap_or_else(|problem| {
            problems.push(format!("SVC_TRUSTED_PROXIES: {problem}"));
            TrustedProxies::default()
        });
        let ui_dev_origin = source.ui_dev_origin.as_deref().filter(|text| !text.is_empty());
        let names_ui_dev_origin = ui_dev_origin.is_some();
        let ui_dev_origin = ui_dev_origin.unwrap_or(DEFAULT_UI_DEV_ORIGIN);
        let ui_dev_origin = web_address(ui_dev_origin).map(|url| origin_of(&url)).unwrap_or_else(|| {
            problems.push(format!(
                "SVC_UI_DEV_ORIGIN is `{ui_dev_origin}`, which is no origin such as {DEFAULT_UI_DEV_ORIGIN}"
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
                problems.push(format!("{name} is {}, which is a directory; name a file", file.display()));
            }
        }
        for (name, file) in
            [("SVC_EMBEDDING_MODEL", &source.embedding_model), ("SVC_BROWSER_PATH", &source.browser_path)]
        {
            if file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
                problems.push(format!("{name} is empty; name a file, or leave it out"));
            }
        }
        if source.models_dir.as_ref().is_some_and(|directory| directory.as_os_str().is_empty()) {
            problems.push("SVC_MODELS_DIR is empty; name a directory, or leave it out".to_owned());
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
            names_ui_dev_origin,
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

    /// Directories that are searched for models, in this order.
    #[must_use]
    pub fn model_dirs(&self) -> Vec<PathBuf> {
        let own = self.data_dir.join("models");
        let directories = std::iter::once(own).chain(self.models_dir.clone());
        directories.map(|directory| std::path::absolute(&directory).unwrap_or(directory)).collect()
    }

    /// Candidates for the file of the embedding model; the first that exists is used.
    #[must_use]
    pub fn embedding_model_paths(&self) -> Vec<PathBuf> {
        match &self.embedding_model {
            Some(path) => vec![path.clone()],
            None => self.model_dirs().into_iter().map(|directory| directory.join(DEFAULT_MODEL_FILE)).collect(),
        }
    }

    /// Configuration files that exist where earlier versions read them and are ignored.
    #[must_use]
    pub fn ignored_files(&self) -> Vec<PathBuf> {
        let in_use = self.file.as_ref().and_then(|file| file.canonicalize().ok());
        let present = places::former_files(&self.data_dir).into_iter().filter_map(|file| file.canonicalize().ok());
        present.filter(|file| Some(file) != in_use.as_ref()).collect()
    }

    /// How a daemon that really listens on `address` is reached from outside, without a slash at the end:
    /// as `base_url` says, else at its own address.
    #[must_use]
    pub fn reached_at(&self, address: SocketAddr) -> String {
        self.configured_base_url().unwrap_or_else(|| own_origin(address))
    }

    /// `base_url`, unless it is only derived from the address to listen on.
    #[must_use]
    pub fn configured_base_url(&self) -> Option<String> {
        (self.base_url != own_origin(self.listen)).then(|| self.base_url.clone())
    }

    /// Every name that requests may use in their `Host` header.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        let own = web_address(&self.base_url).and_then(|url| url.host_str().map(str::to_owned));
        self.allowed_hosts.iter().cloned().chain(own).collect()
    }

    /// The origin of the base URL, as a browser writes it.
    #[must_use]
    pub fn base_origin(&self) -> Option<String> {
        web_address(&self.base_url).map(|url| origin_of(&url))
    }

    /// Every origin whose pages may read the daemon's responses. `address` is the one it really listens on.
    #[must_use]
    pub fn allowed_origins(&self, address: SocketAddr) -> Vec<String> {
        std::iter::once(self.ui_dev_origin.clone()).chain(self.known_origins(address)).collect()
    }

    /// Every origin whose pages may set up a daemon that has no API key yet.
    ///
    /// Without being named, the web page's development server is none of them in a release build: on a user's machine
    /// any program may serve its port.
    #[must_use]
    pub fn setup_origins(&self, address: SocketAddr) -> Vec<String> {
        self.setup_origins_of_build(address, cfg!(debug_assertions))
    }

    fn setup_origins_of_build(&self, address: SocketAddr, is_debug: bool) -> Vec<String> {
        let is_trusted = self.names_ui_dev_origin || is_debug;
        is_trusted.then(|| self.ui_dev_origin.clone()).into_iter().chain(self.known_origins(address)).collect()
    }

    /// The daemon's own origins, and those of `SVC_CORS_ORIGINS`.
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

/// The origin under which a daemon on `listen` is reached from its own machine.
#[must_use]
pub fn own_origin(listen: SocketAddr) -> String {
    let ip = listen.ip();
    if ip.is_unspecified() { format!("http://127.0.0.1:{}", listen.port()) } else { format!("http://{listen}") }
}

/// Whether an address of a PostgreSQL server, without its scheme, says where that is: before the path,
/// or, as for a socket, by the parameter `host`.
fn names_database_host(rest: &str) -> bool {
    let (authority, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_named = !host.is_empty() && !host.starts_with(':');
    is_named
        || parameters
            .split('&')
            .any(|pair| pair.strip_prefix("host").is_some_and(|rest| rest.trim_start_matches("addr").len() > 1))
}

/// Whether this is a filter that means what it says: to the parser a misspelt level is the name of a
/// module, of which everything is logged, and of all others nothing.
fn is_log_filter(text: &str) -> bool {
    let is_meant =
        |part: &str| part.contains(['=', '[']) || part.parse::<tracing::level_filters::LevelFilter>().is_ok();
    text.parse::<tracing_subscriber::filter::EnvFilter>().is_ok()
        && text.split(',').map(str::trim).filter(|part| !part.is_empty()).all(is_meant)
}

/// Where traces, metrics and logs go. Headers and the switch for contents mean nothing without an address.
fn telemetry(source: &ConfigSource, problems: &mut Vec<String>) -> Option<TelemetryConfig> {
    let content = source.otlp_content.as_deref().unwrap_or_default();
    let includes_content = switch(content).unwrap_or_else(|| {
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

/// As people write it in variables; empty is as if it were not there.
fn switch(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "" | "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn list(text: Option<&str>) -> Vec<String> {
    let entries = text.unwrap_or_default().split(',').map(|entry| entry.trim().trim_end_matches('/'));
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// An `http` or `https` address of a host, without credentials, query and fragment.
fn web_address(text: &str) -> Option<Url> {
    // The parser would also take `https:host` and the like.
    let is_spelled_out = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    let url = Url::parse(text).ok().filter(|_| is_spelled_out)?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.host_str().is_some_and(|host| !host.contains('*'));
    is_plain.then_some(url)
}

/// As a browser writes it in `Origin`.
fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests;
