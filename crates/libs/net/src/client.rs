//! HTTP client for all outbound requests.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use url::{Host, Url};

use crate::dial::Dialer;
use crate::resolver::{GuardedResolver, resolve_permitted};
use crate::{
    Exchange, Lookup, NetError, NetPolicy, PolicyHandle, SystemConnect, SystemLookup, Trust, WebSocket, headers,
    literal_guard, tls, websocket,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_PER_HOST: usize = 256;
const USER_AGENT: &str = concat!("agentd/", env!("CARGO_PKG_VERSION"));

/// HTTP client that reaches only what its [`Trust`] and the active policy permit. Cheap to clone; clones share
/// connections. The inner client is created on first use and recreated when the policy changes, so that no connection
/// outlives the policy under which it was opened.
#[derive(Clone)]
pub struct GuardedClient(Arc<Shared>);

struct Shared {
    policy: PolicyHandle,
    trust: Trust,
    lookup: Arc<dyn Lookup>,
    built: Mutex<InnerClients>,
}

/// Inner clients for one policy. The one for `http://` loads no certificates, which saves their memory for local
/// providers.
#[derive(Default)]
struct InnerClients {
    policy: Option<Arc<NetPolicy>>,
    plain: Option<reqwest::Client>,
    secure: Option<reqwest::Client>,
}

impl fmt::Debug for GuardedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedClient").field("trust", &self.0.trust).finish_non_exhaustive()
    }
}

impl GuardedClient {
    /// Creates a client without allocating resources until the first request.
    #[must_use]
    pub fn new(policy: PolicyHandle, trust: Trust) -> Self {
        Self::with_lookup(policy, trust, Arc::new(SystemLookup::default()))
    }

    /// Creates a client like [`Self::new`] that resolves names with `lookup`.
    #[must_use]
    pub fn with_lookup(policy: PolicyHandle, trust: Trust, lookup: Arc<dyn Lookup>) -> Self {
        Self(Arc::new(Shared { policy, trust, lookup, built: Mutex::default() }))
    }

    /// Returns a client for untrusted addresses under the same policy.
    #[must_use]
    pub fn for_untrusted(&self) -> Self {
        Self::with_lookup(self.0.policy.clone(), Trust::Untrusted, Arc::clone(&self.0.lookup))
    }

    /// Checks the scheme, the name, and an IP literal in any notation. The addresses of a name are checked when a
    /// connection is opened.
    ///
    /// # Errors
    /// A [`NetError`] for which [`NetError::is_refusal`] is true.
    pub fn check_url(&self, url: &Url) -> Result<(), NetError> {
        self.0.policy.current().check_url(url, self.0.trust)
    }

    /// Performs [`Self::check_url`] and resolves the name to the addresses that a request would currently try. A
    /// request resolves the name again, so the result is only informative.
    ///
    /// # Errors
    /// A refusal, or [`NetError::Resolve`].
    pub async fn resolve(&self, url: &Url) -> Result<Vec<IpAddr>, NetError> {
        let policy = self.0.policy.current();
        policy.check_url(url, self.0.trust)?;
        match url.host() {
            Some(Host::Domain(name)) => resolve_permitted(&policy, self.0.trust, self.0.lookup.as_ref(), name).await,
            Some(Host::Ipv4(address)) => Ok(vec![address.into()]),
            Some(Host::Ipv6(address)) => Ok(vec![address.into()]),
            None => Err(NetError::NoHost),
        }
    }

    /// Creates a request after [`Self::check_url`].
    ///
    /// # Errors
    /// A refusal, or [`NetError::Client`].
    pub fn request(&self, method: Method, url: Url) -> Result<GuardedRequest, NetError> {
        let policy = self.0.policy.current();
        policy.check_url(&url, self.0.trust)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let client = self.client_for(policy, url.scheme() == "https")?;
        let exchange = self.0.policy.exchange();
        Ok(GuardedRequest { host, builder: client.request(method, url), problem: None, exchange })
    }

    /// Opens a WebSocket after [`Self::check_url`], only to addresses that passed the checks. A message of more than
    /// `max_message_bytes` closes it; redirects are not followed.
    ///
    /// # Errors
    /// A refusal, or the error of the connection or handshake.
    pub async fn web_socket(&self, url: &Url, max_message_bytes: usize) -> Result<WebSocket, NetError> {
        let over_http = websocket::over_http(url)?;
        self.check_url(&over_http)?;
        let host = over_http.host().ok_or(NetError::NoHost)?.to_owned();
        let dialer = Dialer {
            policy: self.0.policy.clone(),
            trust: self.0.trust,
            lookup: Arc::clone(&self.0.lookup),
            connect: Arc::new(SystemConnect),
            connect_timeout: CONNECT_TIMEOUT,
        };
        let port = over_http.port_or_known_default().unwrap_or_default();
        websocket::open(dialer.dial(&host, port).await?.stream, url, max_message_bytes).await
    }

    /// Returns the same client for addresses of another origin.
    #[must_use]
    pub fn with_trust(&self, trust: Trust) -> Self {
        Self::with_lookup(self.0.policy.clone(), trust, Arc::clone(&self.0.lookup))
    }

    /// Returns the inner client, for libraries that require one. It connects only to permitted addresses, by name or
    /// literal, and follows no redirects. It does not check ports and keeps the current policy. Call
    /// [`Self::check_url`] for each URL, and do not keep the client beyond one task.
    ///
    /// # Errors
    /// [`NetError::Client`].
    pub fn inner(&self) -> Result<reqwest::Client, NetError> {
        self.client_for(self.0.policy.current(), true)
    }

    fn client_for(&self, policy: Arc<NetPolicy>, secure: bool) -> Result<reqwest::Client, NetError> {
        let mut built = self.0.built.lock();
        if !built.policy.as_ref().is_some_and(|built_for| Arc::ptr_eq(built_for, &policy)) {
            *built = InnerClients { policy: Some(Arc::clone(&policy)), ..InnerClients::default() };
        }
        let slot = if secure { &mut built.secure } else { &mut built.plain };
        if let Some(client) = slot {
            return Ok(client.clone());
        }
        let resolver = GuardedResolver { policy, trust: self.0.trust, lookup: Arc::clone(&self.0.lookup) };
        let client = build(resolver, secure)?;
        *slot = Some(client.clone());
        Ok(client)
    }
}

fn build(resolver: GuardedResolver, secure: bool) -> Result<reqwest::Client, NetError> {
    let guard = literal_guard::guard(Arc::clone(&resolver.policy), resolver.trust);
    reqwest::Client::builder()
        .tls_backend_preconfigured(if secure { tls::with_machine_roots()? } else { tls::without_roots()? })
        .dns_resolver(resolver)
        .no_proxy()
        .proxy(guard)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_PER_HOST)
        .tcp_nodelay(true)
        .build()
        .map_err(|error| NetError::Client { source: Arc::new(error) })
}

/// Request whose URL has passed the policy.
#[derive(Debug)]
pub struct GuardedRequest {
    host: String,
    builder: reqwest::RequestBuilder,
    problem: Option<&'static str>,
    exchange: Option<Arc<dyn Exchange>>,
}

impl GuardedRequest {
    /// Sets a header. Callers may not set `Host` or headers that describe the connection: [`Self::send`] then fails.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.problem = self.problem.or(headers::problem_with(&name));
        self.builder = self.builder.header(name, value);
        self
    }

    /// Sets several headers, like [`Self::header`].
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.problem = self.problem.or_else(|| headers.keys().find_map(headers::problem_with));
        self.builder = self.builder.headers(headers);
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.builder = self.builder.body(body.into());
        self
    }

    /// Limits the whole exchange, including reading the response body.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.builder = self.builder.timeout(timeout);
        self
    }

    /// Sends the request and waits for the response head. Any status is a response. Dropping the future, or later the
    /// response, cancels the exchange.
    ///
    /// # Errors
    /// A refusal by the resolver, or a connection error. Reading the body afterwards may fail too: see
    /// [`NetError::from_reqwest`].
    pub async fn send(self) -> Result<reqwest::Response, NetError> {
        if let Some(problem) = self.problem {
            return Err(NetError::Request { problem });
        }
        let failed = |error| NetError::from_reqwest(&self.host, error);
        match self.exchange {
            Some(exchange) => exchange.exchange(self.builder.build().map_err(failed)?).await,
            None => self.builder.send().await.map_err(failed),
        }
    }
}
