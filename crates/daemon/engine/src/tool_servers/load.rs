//! Every registration with its secrets and what it offers, derived from the rows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Redactor, Secret, Timestamp};
use agentd_core::vault::{Vault, hide_url_secrets, is_named_like_a_credential, open_url};
use agentd_store::Read;
use parking_lot::Mutex;

use super::change::ToolServerId;
use super::error::ToolServerError;
use super::listing::{LeftOut, Listing, OfferedTool};
use super::model::ToolServer;
use super::reach::{HttpReach, Reach, StdioReach};
use super::secrets::{self, Kind};
use super::store;
use crate::tools::{Tools, list_custom_tools};

/// Who starts these may first have to download what is to be started.
const PACKAGE_RUNNERS: [&str; 8] = ["npx", "npm", "bunx", "pnpm", "uvx", "uv", "pipx", "deno"];
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// What is needed to get to a server.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) id: ToolServerId,
    pub(super) revision: i64,
    pub(super) way: Way,
    pub(super) handshake_limit: Duration,
}

#[derive(Debug)]
pub(super) enum Way {
    Stdio {
        reach: StdioReach,
        env: Vec<(String, Secret)>,
    },
    /// The url with its credentials.
    Http {
        url: String,
        headers: Vec<(String, Secret)>,
    },
}

impl Spec {
    /// What the server must not be seen to write: it was given that.
    pub(super) fn redactor(&self) -> Redactor {
        let (values, url) = match &self.way {
            Way::Stdio { env, .. } => (env, None),
            Way::Http { headers, url } => (headers, Some(url)),
        };
        let mut redactor = Redactor::of(values.iter().map(|(_, value)| value));
        if let Some(url) = url {
            hide_url_secrets(&mut redactor, url);
        }
        redactor
    }

    /// The same for what models work with: of variables only those that look like a credential. Most others are
    /// folders, addresses and words, which results are full of.
    pub(super) fn redactor_of_results(&self) -> Redactor {
        let Way::Stdio { env, .. } = &self.way else { return self.redactor().without_short() };
        let is_random = |value: &str| value.len() >= 16 && !value.contains(['/', ':', '@', ' ']);
        let is_credential = |(name, value): &&(String, Secret)| {
            is_named_like_a_credential(&name.to_lowercase()) || is_random(value.expose())
        };
        Redactor::of(env.iter().filter(is_credential).map(|(_, value)| value)).without_short()
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.way, Way::Http { .. })
    }
}

#[derive(Debug)]
pub(super) struct LoadedServer {
    pub(super) server: Arc<ToolServer>,
    /// Or why it cannot be reached as it is registered.
    pub(super) spec: Result<Arc<Spec>, String>,
    /// Variables or headers without a value.
    pub(super) missing: BTreeSet<String>,
    /// Names that its tools would have if no custom tool had them.
    pub(super) taken: Arc<BTreeSet<String>>,
    /// `None`: it was never asked.
    pub(super) listing: Option<Arc<LoadedListing>>,
}

#[derive(Debug)]
pub(super) struct LoadedListing {
    pub(super) listing: Listing,
    pub(super) listed_at: Timestamp,
    pub(super) tools: Vec<Arc<OfferedTool>>,
    pub(super) left_out: Vec<LeftOut>,
    text: String,
    /// What the tools depend on besides.
    server: Arc<ToolServer>,
    taken: Arc<BTreeSet<String>>,
}

/// Oldest first.
#[derive(Debug)]
pub(super) struct Loaded(pub(super) Vec<LoadedServer>);

impl Loaded {
    pub(super) fn find(&self, id: &str) -> Option<&LoadedServer> {
        self.0.iter().find(|loaded| loaded.server.id.as_str() == id)
    }
}

/// Makes [`Loaded`]; schemas are compiled again only where something changed.
#[derive(Clone)]
pub(super) struct Loader {
    vault: Vault,
    tools: Tools,
    known: Arc<Mutex<HashMap<ToolServerId, Arc<LoadedListing>>>>,
}

impl Loader {
    pub(super) fn new(vault: Vault, tools: Tools) -> Self {
        Self { vault, tools, known: Arc::default() }
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    pub(super) async fn load(&self, read: &mut Read) -> Result<Loaded, ToolServerError> {
        let mut loaded = Vec::new();
        let custom = list_custom_tools(read).await?;
        for server in store::list_tool_servers(read).await? {
            let spec = self.spec(read, &server).await?.map(Arc::new);
            let missing = match (&spec, &server.reach) {
                (Ok(_), _) => BTreeSet::new(),
                (_, Reach::Stdio(stdio)) => {
                    secrets::missing(read, &self.vault, &server.id, Kind::Environment, &stdio.env).await?
                }
                (_, Reach::Http(http)) => {
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
        self.known.lock().retain(|id, _| loaded.iter().any(|loaded| loaded.server.id == *id));
        Ok(Loaded(loaded))
    }

    async fn spec(&self, read: &mut Read, server: &ToolServer) -> Result<Result<Spec, String>, ToolServerError> {
        let handshake_limit = handshake_limit(&server.reach);
        let way = match &server.reach {
            Reach::Stdio(reach) => {
                let env = secrets::read(read, &self.vault, &server.id, Kind::Environment, &reach.env).await?;
                env.map(|env| Way::Stdio { reach: reach.clone(), env })
            }
            Reach::Http(HttpReach { url, headers }) => {
                let headers = secrets::read(read, &self.vault, &server.id, Kind::Header, headers).await?;
                let url = open_url(read, &self.vault, &secrets::scope(&server.id), url).await?;
                headers.and_then(|headers| Ok(Way::Http { url: url?, headers }))
            }
        };
        Ok(way.map(|way| Spec { id: server.id.clone(), revision: server.revision, way, handshake_limit }))
    }

    async fn listing(
        &self,
        server: &Arc<ToolServer>,
        taken: &Arc<BTreeSet<String>>,
        text: String,
        listed_at: Timestamp,
    ) -> Option<Arc<LoadedListing>> {
        let known = self.known.lock().get(&server.id).cloned();
        if let Some(known) = known
            && known.text == text
            && known.listed_at == listed_at
            && known.server == *server
            && known.taken == *taken
        {
            return Some(known);
        }
        let (of, taken, tools) = (Arc::clone(server), Arc::clone(taken), self.tools.clone());
        // Hundreds of schemas of strangers take a while.
        let made = tokio::task::spawn_blocking(move || {
            let listing: Listing = serde_json::from_str(&text).ok()?;
            let is_taken = |name: &str| tools.is_reserved(name) || taken.contains(name);
            let (tools, left_out) = listing.offered(&of, handshake_limit(&of.reach), is_taken);
            Some(Arc::new(LoadedListing { listing, listed_at, tools, left_out, text, server: of, taken }))
        });
        let made = made.await.ok().flatten()?;
        self.known.lock().insert(server.id.clone(), Arc::clone(&made));
        Some(made)
    }
}

fn handshake_limit(reach: &Reach) -> Duration {
    match reach {
        Reach::Stdio(stdio) => {
            let name = stdio.command.rsplit('/').next().unwrap_or_default();
            if PACKAGE_RUNNERS.contains(&name) { DOWNLOAD_LIMIT } else { HANDSHAKE_LIMIT }
        }
        Reach::Http(_) => HANDSHAKE_LIMIT,
    }
}
