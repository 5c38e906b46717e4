//! A session with one server.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Secret, trace};
use agentd_net::GuardedClient;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest, PaginatedRequestParams, PingRequest,
    ProtocolVersion, RequestParamsMeta as _, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use crate::changes::Subscription;
use crate::failure::Failures;
use crate::handshake::{self, Service};
use crate::http::{GuardedHttp, OwnerHeaders};
use crate::session::Session;
use crate::stdio::{StderrReader, StdioTransport};
use crate::tools::{Collector, read_output};
use crate::{
    CallLimits, CloseReason, ConnectError, ConnectOptions, ListLimits, McpError, ServerInfo, ToolList, ToolOutput,
    ToolsChanges,
};

/// How long the end of a program's error output is waited for, once its handshake failed.
const STDERR_SETTLE: Duration = Duration::from_secs(1);
/// The library's own steps of closing take at most as long as this together.
const CLOSE_LIMIT: Duration = Duration::from_secs(8);
/// Telling the server that a request was given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
const METHOD_NOT_FOUND: i32 = -32_601;

/// The standard streams of a program that was started. Nothing here starts or ends programs.
#[derive(Debug)]
pub struct StdioStreams<O, I, E> {
    /// What the program writes.
    pub stdout: O,
    /// What the program reads.
    pub stdin: I,
    /// `None`: its error output leads elsewhere.
    pub stderr: Option<E>,
}

/// A working session with a tool server. Dropping it closes it; [`Self::close`] does so in order.
#[derive(Debug)]
pub struct Connection {
    peer: Peer<RoleClient>,
    service: parking_lot::Mutex<Option<Service>>,
    info: ServerInfo,
    session: Session,
    failures: Failures,
    list_limits: ListLimits,
    in_flight: Arc<Semaphore>,
    max_in_flight: usize,
    _stderr: Option<StderrReader>,
    _subscription: Option<Subscription>,
}

impl Connection {
    /// Opens a session over a program's standard streams. They are read and written from now on,
    /// and closed with the session; the caller ends the program.
    ///
    /// # Errors
    /// Why there is no session, with the end of what the program wrote on its error output.
    pub async fn over_stdio<O, I, E>(
        streams: StdioStreams<O, I, E>,
        options: ConnectOptions,
    ) -> Result<Self, ConnectError>
    where
        O: AsyncRead + Send + Sync + Unpin + 'static,
        I: AsyncWrite + Send + Unpin + 'static,
        E: AsyncRead + Send + Unpin + 'static,
    {
        let session = Session::new(options.stderr_tail_bytes);
        let mut stderr = streams.stderr.map(|stderr| StderrReader::start(stderr, session.clone()));
        let failures = Failures { session: session.clone(), max_message_bytes: options.max_message_bytes };
        let transport =
            StdioTransport::start(streams.stdout, streams.stdin, session.clone(), options.max_message_bytes);
        let opened = handshake::over_streams(transport, options.lifecycle, &failures, options.handshake_limit).await;
        match opened {
            Ok((service, info)) => Ok(Self::new(service, info, failures, options, stderr)),
            Err(error) => {
                if let Some(stderr) = &mut stderr {
                    stderr.settle(STDERR_SETTLE).await;
                }
                Err(ConnectError::new(error, session.diagnosis()))
            }
        }
    }

    /// Opens a session with the server at `url`. `client` decides what may be reached;
    /// `headers` go with every request.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn over_http(
        url: Url,
        headers: &[(String, Secret)],
        client: GuardedClient,
        options: ConnectOptions,
    ) -> Result<Self, ConnectError> {
        let fail = |error| ConnectError::new(error, String::new());
        let headers = OwnerHeaders::new(headers).map_err(fail)?;
        client.check_url(&url).map_err(|error| fail(McpError::Net(error)))?;
        let max_message_bytes = options.max_message_bytes;
        // The address goes without what might be a credential in it: the library logs it.
        let shown = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        let connect = || {
            // Nothing is written beside the protocol here, so nothing is kept of it.
            let session = Session::new(0);
            let http =
                GuardedHttp::new(client.clone(), url.clone(), headers.clone(), session.clone(), max_message_bytes);
            let mut config = StreamableHttpClientTransportConfig::with_uri(shown.as_str());
            config.max_sse_event_size = max_message_bytes;
            config.max_concurrent_requests = options.max_requests_in_flight;
            (StreamableHttpClientTransport::with_client(http, config), Failures { session, max_message_bytes })
        };
        let opened = handshake::over_http(connect, options.lifecycle, options.handshake_limit).await;
        let (service, info, failures) = opened.map_err(fail)?;
        Ok(Self::new(service, info, failures, options, None))
    }

    fn new(
        service: Service,
        info: ServerInfo,
        failures: Failures,
        options: ConnectOptions,
        stderr: Option<StderrReader>,
    ) -> Self {
        let peer = service.peer().clone();
        let session = failures.session.clone();
        let subscribes = info.announces_tool_changes && !is_older_era(&info);
        let subscription = subscribes.then(|| Subscription::start(peer.clone(), session.clone()));
        Self {
            peer,
            service: parking_lot::Mutex::new(Some(service)),
            info,
            session,
            failures,
            list_limits: options.list_limits,
            in_flight: Arc::new(Semaphore::new(options.max_requests_in_flight)),
            max_in_flight: options.max_requests_in_flight,
            _stderr: stderr,
            _subscription: subscription,
        }
    }

    /// What the server says of itself.
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// The end of what the program wrote beside the protocol, on either output. It may hold
    /// anything: show it to the owner, never to a model or a log.
    #[must_use]
    pub fn diagnosis(&self) -> String {
        self.session.diagnosis()
    }

    /// Hears of changes to the tools from now on.
    #[must_use]
    pub fn tools_changes(&self) -> ToolsChanges {
        ToolsChanges::new(&self.session)
    }

    /// Waits until the server is gone, and says why. Cancel-safe, and may be called again. A server
    /// over HTTP counts as gone when it could not be reached several times in a row, or ended the
    /// session for good: between requests there is nothing that could break.
    pub async fn closed(&self) -> CloseReason {
        self.session.closed().await
    }

    /// Why the server is gone, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.session.close_reason()
    }

    /// Ends the session: what is queued is written, then the program's input is closed or the HTTP
    /// session deleted. Takes at most some seconds, and may be called again.
    pub async fn close(&self) {
        self.session.close(CloseReason::Requested);
        let service = self.service.lock().take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSE_LIMIT).await;
        }
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// When none comes within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<(), McpError> {
        // The newer era has no ping; there any answer to any question will do.
        let request = if is_older_era(&self.info) {
            ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() })
        } else {
            list_request(None)
        };
        match self.request(request, limit).await {
            Ok(_) | Err(McpError::Refused { .. } | McpError::AnswerTooLarge { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Every tool that can be offered, and why the others cannot.
    ///
    /// # Errors
    /// When a page does not come or is none.
    pub async fn list_tools(&self) -> Result<ToolList, McpError> {
        let limit = self.list_limits.time;
        let deadline = tokio::time::Instant::now() + limit;
        let mut collector = Collector::new(&self.list_limits);
        let mut cursor = None;
        loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let page = match self.request(list_request(cursor), left).await {
                Ok(page) => page,
                Err(McpError::Timeout { .. }) => return Err(McpError::Timeout { seconds: whole_seconds(limit) }),
                Err(McpError::Refused { code: METHOD_NOT_FOUND, .. }) if !self.info.offers_tools => {
                    return Ok(ToolList::default());
                }
                Err(error) => return Err(error),
            };
            cursor = collector.take_page(to_value(&page)?).map_err(|problem| McpError::Malformed { problem })?;
            if cursor.is_none() {
                return Ok(collector.finish());
            }
        }
    }

    /// Calls a tool. Dropping the future gives the call up and tells the server so, as does the
    /// time limit.
    ///
    /// # Errors
    /// When there is no answer of the tool. A tool that says that it failed is an answer.
    pub async fn call_tool(&self, name: &str, input: Value, limits: CallLimits) -> Result<ToolOutput, McpError> {
        let Value::Object(input) = input else { return Err(McpError::InputNotObject) };
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(input);
        if let Some(trace) = trace::current() {
            // Over HTTP it becomes the header, too.
            params.set_traceparent(&trace.to_header());
        }
        match self.request(ClientRequest::CallToolRequest(CallToolRequest::new(params)), limits.time).await? {
            ServerResult::InputRequiredResult(_) => Err(McpError::InputRequired),
            ServerResult::CreateTaskResult(_) => Err(McpError::Malformed {
                problem: "it promises a result for later, which nobody asked for".to_owned(),
            }),
            result => read_output(to_value(&result)?, limits.max_output_bytes)
                .map_err(|problem| McpError::Malformed { problem }),
        }
    }

    async fn request(&self, request: ClientRequest, limit: Duration) -> Result<ServerResult, McpError> {
        if let Some(reason) = self.session.close_reason() {
            return Err(McpError::Closed { reason });
        }
        let permit = Arc::clone(&self.in_flight)
            .try_acquire_owned()
            .map_err(|_| McpError::Busy { limit: self.max_in_flight })?;
        let answered = tokio::time::timeout(limit, async {
            let options = PeerRequestOptions::no_options();
            let handle = self.peer.send_cancellable_request(request, options).await?;
            let mut waiting = Waiting { handle: Some(handle), _permit: permit };
            waiting.answer().await
        });
        match answered.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(self.failures.of_request(error)),
            Err(_) => Err(McpError::Timeout { seconds: whole_seconds(limit) }),
        }
    }
}

/// A request that waits for its answer. Dropped before that, it tells the server that nobody
/// waits any more.
struct Waiting {
    handle: Option<RequestHandle<RoleClient>>,
    _permit: OwnedSemaphorePermit,
}

impl Waiting {
    async fn answer(&mut self) -> Result<ServerResult, rmcp::ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(rmcp::ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        answer.unwrap_or(Err(rmcp::ServiceError::TransportClosed))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let reason = Some("the result is no longer needed".to_owned());
                let _ = tokio::time::timeout(CANCEL_LIMIT, handle.cancel(reason)).await;
            });
        }
    }
}

fn list_request(cursor: Option<String>) -> ClientRequest {
    ClientRequest::ListToolsRequest(ListToolsRequest {
        method: Default::default(),
        params: cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor))),
        extensions: Default::default(),
    })
}

/// The library guesses a result's type from its members, and guesses wrong where a server is
/// careless; the JSON it stands for is what counts.
fn to_value(result: &ServerResult) -> Result<Value, McpError> {
    serde_json::to_value(result).map_err(|_| McpError::Malformed { problem: "it cannot be read".to_owned() })
}

fn is_older_era(info: &ServerInfo) -> bool {
    info.protocol_version.as_str() < ProtocolVersion::NO_INITIALIZE.as_str()
}

fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs_f64().ceil() as u64
}
