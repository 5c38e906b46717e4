//! Registrations with their secrets and tool lists, loaded from the database.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Redactor, Secret, Timestamp};
use agentd_core::vault::{Vault, is_credential_parameter, open_url, redact_url_secrets};
use agentd_store::Read;
use parking_lot::Mutex;

use super::change::ToolServerId;
use super::error::ToolServerError;
use super::listing::{Listing, OfferedTool, SkippedTool};
use super::model::ToolServer;
use super::secrets::{self, Kind};
use super::store;
use super::transport::{HttpTransport, StdioTransport, Transport};
use crate::tools::{Tools, list_custom_tools};

/// Package runners, which may download the program before they start it.
const PACKAGE_RUNNERS: [&str; 8] = ["npx", "npm", "bunx", "pnpm", "uvx", "uv", "pipx", "deno"];
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// Everything needed to connect to a server.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) id: ToolServerId,
    pub(super) revision: i64,
    pub(super) endpoint: Endpoint,
    pub(super) handshake_limit: Duration,
}

#[derive(Debug)]
pub(super) enum Endpoint {
    Stdio {
        transport: StdioTransport,
        env: Vec<(String, Secret)>,
    },
    /// URL with its credentials.
    Http {
        url: String,
        headers: Vec<(String, Secret)>,
    },
}

impl Spec {
    /// Returns a redactor for the secrets that the server received.
    pub(super) fn redactor(&self) -> Redactor {
        let (values, url) = match &self.endpoint {
            Endpoint::Stdio { env, .. } => (env, None),
            Endpoint::Http { headers, url } => (headers, Some(url)),
        };
        let mut redactor = Redactor::from_secrets(values.iter().map(|(_, value)| value));
        if let Some(url) = url {
            redact_url_secrets(&mut redactor, url);
        }
        redactor
    }

    /// Returns a redactor for results. Of the variables, only those that look like credentials are redacted; most
    /// others are paths, URLs and words that results may contain.
    pub(super) fn result_redactor(&self) -> Redactor {
        let Endpoint::Stdio { env, .. } = &self.endpoint else { return self.redactor().without_short() };
        let is_random = |value: &str| value.len() >= 16 && !value.contains(['/', ':', '@', ' ']);
        let is_credential = |(name, value): &&(String, Secret)| {
            is_credential_parameter(&name.to_lowercase()) || is_random(value.expose())
        };
        Redactor::from_secrets(env.iter().filter(is_credential).map(|(_, value)| value)).without_short()
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.endpoint, Endpoint::Http { .. })
    }
}

#[derive(Debug)]
pub(super) struct LoadedServer {
    pub(super) server: Arc<ToolServer>,
    /// Connection data, or the reason why the server cannot be connected to.
    pub(super) spec: Result<Arc<Spec>, String>,
    /// Names of variables or headers without a value.
    pub(super) missing: BTreeSet<String>,
    /// Names of custom tools with the prefix of this server.
    pub(super) taken: Arc<BTreeSet<String>>,
    /// `None` if the server was never asked for its tools.
    pub(super) listing: Option<Arc<LoadedListing>>,
}

#[derive(Debug)]
pub(super) struct LoadedListing {
    pub(super) listing: Listing,
    pub(super) listed_at: Timestamp,
    pub(super) tools: Vec<Arc<OfferedTool>>,
    pub(super) left_out: Vec<SkippedTool>,
    text: String,
    /// Other inputs from which the tools are derived.
    server: Arc<ToolServer>,
    taken: Arc<BTreeSet<String>>,
}

/// All servers, oldest first.
#[derive(Debug)]
pub(super) struct LoadedServers(pub(super) Vec<LoadedServer>);

impl LoadedServers {
    pub(super) fn find(&self, id: &str) -> Option<&LoadedServer> {
        self.0.iter().find(|loaded| loaded.server.id.as_str() == id)
    }
}

/// Loads [`LoadedServers`]; schemas are compiled again only if something changed.
#[derive(Clone)]
pub(super) struct Loader {
    vault: Vault,
    tools: Tools,
    cache: Arc<Mutex<HashMap<ToolServerId, Arc<LoadedListing>>>>,
}

impl Loader {
    pub(super) fn new(vault: Vault, tools: Tools) -> Self {
        Self { vault, tools, cache: Arc::default() }
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    pub(super) async fn load(&self, read: &mut Read) -> Result<LoadedServers, ToolServerError> {
        let mut loaded = Vec::new();
        let custom = list_custom_tools(read).await?;
        for server in store::list_tool_servers(read).await? {
            let spec = self.spec(read, &server).await?.map(Arc::new);
            let missing = match (&spec, &server.transport) {
                (Ok(_), _) => BTreeSet::new(),
                (_, Transport::Stdio(stdio)) => {
                    secrets::missing(read, &self.vault, &server.id, Kind::Environment, &stdio.env).await?
                }
                (_, Transport::Http(http)) => {
                    secrets::missing(read, &self.vault, &server.id, Kind::Header, &http.headers).await?
                }
            };
            let stored = store::find_listing(read, &server.id).await?;
            let server = Arc::new(server);
            let start = format!("{}_", server.prefix);
            let taken = custom.iter().filter(|tool| tool.name.starts_with(&start)).map(|tool| tool.name.clone());
            let taken = Arc::new(taken.collect::<BTreeSet<String>>());
            let listing = match stored {
                Some((text, listed_at)) => self.listing(&server, &taken, text, listed_at).await,
                None => None,
            };
            loaded.push(LoadedServer { server, spec, missing, taken, listing });
        }
        self.cache.lock().retain(|id, _| loaded.iter().any(|loaded| loaded.server.id == *id));
        Ok(LoadedServers(loaded))
    }

    async fn spec(&self, read: &mut Read, server: &ToolServer) -> Result<Result<Spec, String>, ToolServerError> {
        let handshake_limit = handshake_limit(&server.transport);
        let endpoint = match &server.transport {
            Transport::Stdio(transport) => {
                let env = secrets::read(read, &self.vault, &server.id, Kind::Environment, &transport.env).await?;
                env.map(|env| Endpoint::Stdio { transport: transport.clone(), env })
            }
            Transport::Http(HttpTransport { url, headers }) => {
                let headers = secrets::read(read, &self.vault, &server.id, Kind::Header, headers).await?;
                let url = open_url(read, &self.vault, &secrets::scope(&server.id), url).await?;
                headers.and_then(|headers| Ok(Endpoint::Http { url: url?, headers }))
            }
        };
        Ok(endpoint.map(|endpoint| Spec {
            id: server.id.clone(),
            revision: server.revision,
            endpoint,
            handshake_limit,
        }))
    }

    async fn listing(
        &self,
        server: &Arc<ToolServer>,
        taken: &Arc<BTreeSet<String>>,
        text: String,
        listed_at: Timestamp,
    ) -> Option<Arc<LoadedListing>> {
        let cached = self.cache.lock().get(&server.id).cloned();
        if let Some(cached) = cached
            && cached.text == text
            && cached.listed_at == listed_at
            && cached.server == *server
            && cached.taken == *taken
        {
            return Some(cached);
        }
        let (owner, taken, tools) = (Arc::clone(server), Arc::clone(taken), self.tools.clone());
        // Compiling hundreds of third-party schemas is slow.
        let loaded = tokio::task::spawn_blocking(move || {
            let listing: Listing = serde_json::from_str(&text).ok()?;
            let is_taken = |name: &str| tools.is_reserved(name) || taken.contains(name);
            let (tools, left_out) = listing.offered(&owner, handshake_limit(&owner.transport), is_taken);
            Some(Arc::new(LoadedListing { listing, listed_at, tools, left_out, text, server: owner, taken }))
        });
        let loaded = loaded.await.ok().flatten()?;
        self.cache.lock().insert(server.id.clone(), Arc::clone(&loaded));
        Some(loaded)
    }
}

fn handshake_limit(transport: &Transport) -> Duration {
    match transport {
        Transport::Stdio(stdio) => {
            let name = stdio.command.rsplit('/').next().unwrap_or_default();
            if PACKAGE_RUNNERS.contains(&name) { DOWNLOAD_LIMIT } else { HANDSHAKE_LIMIT }
        }
        Transport::Http(_) => HANDSHAKE_LIMIT,
    }
}
