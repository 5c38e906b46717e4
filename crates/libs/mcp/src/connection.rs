//! Session with one server.

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
use crate::failure::ErrorMapper;
use crate::handshake::{self, Service};
use crate::http::{GuardedHttp, OwnerHeaders};
use crate::session::Session;
use crate::stdio::{StderrReader, StdioTransport};
use crate::tools::{Collector, read_output};
use crate::{
    CallLimits, CloseReason, ConnectError, ConnectOptions, ListLimits, McpError, ServerInfo, ToolList, ToolOutput,
    ToolsChanges,
};

/// Maximum wait for the end of a program's error output after a failed handshake.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum total duration of the library's closing steps.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum time to send the cancellation of a request.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
const METHOD_NOT_FOUND: i32 = -32_601;

/// Standard streams of a running program. This crate neither starts nor ends programs.
#[derive(Debug)]
pub struct StdioStreams<O, I, E> {
    /// Output of the program.
    pub stdout: O,
    /// Input of the program.
    pub stdin: I,
    /// Error output; `None` if it is redirected elsewhere.
    pub stderr: Option<E>,
}

/// Session with a tool server. Dropping it closes it; [`Self::close`] closes it gracefully.
#[derive(Debug)]
pub struct Connection {
    peer: Peer<RoleClient>,
    service: parking_lot::Mutex<Option<Service>>,
    info: ServerInfo,
    session: Session,
    failures: ErrorMapper,
    list_limits: ListLimits,
    in_flight: Arc<Semaphore>,
    max_in_flight: usize,
    _stderr: Option<StderrReader>,
    _subscription: Option<Subscription>,
}

impl Connection {
    /// Opens a session over a program's standard streams. They are used exclusively by the session and closed with it;
    /// the caller ends the program.
    ///
    /// # Errors
    /// Returns the reason, with the end of the program's error output.
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
        let failures = ErrorMapper { session: session.clone(), max_message_bytes: options.max_message_bytes };
        let transport =
            StdioTransport::start(streams.stdout, streams.stdin, session.clone(), options.max_message_bytes);
        let opened = handshake::over_streams(transport, options.lifecycle, &failures, options.handshake_limit).await;
        match opened {
            Ok((service, info)) => Ok(Self::new(service, info, failures, options, stderr)),
            Err(error) => {
                if let Some(stderr) = &mut stderr {
                    stderr.wait_for_end(STDERR_DRAIN_TIMEOUT).await;
                }
                Err(ConnectError::new(error, session.diagnosis()))
            }
        }
    }

    /// Opens a session with the server at `url`. `client` determines which addresses are allowed; `headers` are sent
    /// with every request.
    ///
    /// # Errors
    /// Returns the reason for the failure.
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
        // The address is reduced to its origin, since the library logs it and the rest may contain a credential.
        let shown = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        let connect = || {
            // HTTP has no output apart from the protocol, so none is retained.
            let session = Session::new(0);
            let http =
                GuardedHttp::new(client.clone(), url.clone(), headers.clone(), session.clone(), max_message_bytes);
            let mut config = StreamableHttpClientTransportConfig::with_uri(shown.as_str());
            config.max_sse_event_size = max_message_bytes;
            config.max_concurrent_requests = options.max_requests_in_flight;
            (StreamableHttpClientTransport::with_client(http, config), ErrorMapper { session, max_message_bytes })
        };
        let opened = handshake::over_http(connect, options.lifecycle, options.handshake_limit).await;
        let (service, info, failures) = opened.map_err(fail)?;
        Ok(Self::new(service, info, failures, options, None))
    }

    fn new(
        service: Service,
        info: ServerInfo,
        failures: ErrorMapper,
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

    /// Returns the server's self-description.
    #[must_use]
    pub fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Returns the end of the program's output outside the protocol, from both streams. It may contain anything: show
    /// it to the owner, never to a model or a log.
    #[must_use]
    pub fn diagnosis(&self) -> String {
        self.session.diagnosis()
    }

    /// Subscribes to changes to the tools.
    #[must_use]
    pub fn tools_changes(&self) -> ToolsChanges {
        ToolsChanges::new(&self.session)
    }

    /// Waits until the connection has ended and returns the reason. Cancel-safe; may be called repeatedly. An HTTP
    /// server counts as disconnected if it could not be reached several times in a row or ended the session, since
    /// there is no connection between requests.
    pub async fn closed(&self) -> CloseReason {
        self.session.closed().await
    }

    /// Returns the reason if the connection has ended.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.session.close_reason()
    }

    /// Ends the session: queued messages are written, then the program's input is closed or the HTTP session deleted.
    /// Takes a few seconds at most; may be called repeatedly.
    pub async fn close(&self) {
        self.session.close(CloseReason::Requested);
        let service = self.service.lock().take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSE_TIMEOUT).await;
        }
    }

    /// Checks that the server responds.
    ///
    /// # Errors
    /// Returns an error if no response arrives within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<(), McpError> {
        // The newer protocol has no ping; any response to any request is sufficient.
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

    /// Lists all usable tools, and the reasons why others were skipped.
    ///
    /// # Errors
    /// Returns an error if a page is missing or invalid.
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
            cursor = collector.add_page(to_value(&page)?).map_err(|problem| McpError::Malformed { problem })?;
            if cursor.is_none() {
                return Ok(collector.finish());
            }
        }
    }

    /// Calls a tool. Dropping the future, or exceeding the time limit, cancels the call at the server.
    ///
    /// # Errors
    /// Returns an error if the tool returns no result. A failure reported by the tool itself is a result.
    pub async fn call_tool(&self, name: &str, input: Value, limits: CallLimits) -> Result<ToolOutput, McpError> {
        let Value::Object(input) = input else { return Err(McpError::InputNotObject) };
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(input);
        if let Some(trace) = trace::current() {
            // Over HTTP it also becomes a header.
            params.set_traceparent(&trace.to_header());
        }
        match self.request(ClientRequest::CallToolRequest(CallToolRequest::new(params)), limits.time).await? {
            ServerResult::InputRequiredResult(_) => Err(McpError::InputRequired),
            ServerResult::CreateTaskResult(_) => {
                Err(McpError::Malformed { problem: "it is a deferred result, which was not requested".to_owned() })
            }
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
            let mut waiting = PendingRequest { handle: Some(handle), _permit: permit };
            waiting.answer().await
        });
        match answered.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(self.failures.request_error(error)),
            Err(_) => Err(McpError::Timeout { seconds: whole_seconds(limit) }),
        }
    }
}

/// Request that awaits its response. If dropped earlier, it cancels the request at the server.
struct PendingRequest {
    handle: Option<RequestHandle<RoleClient>>,
    _permit: OwnedSemaphorePermit,
}

impl PendingRequest {
    async fn answer(&mut self) -> Result<ServerResult, rmcp::ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(rmcp::ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        answer.unwrap_or(Err(rmcp::ServiceError::TransportClosed))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let reason = Some("the result is no longer needed".to_owned());
                let _ = tokio::time::timeout(CANCEL_TIMEOUT, handle.cancel(reason)).await;
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

/// Serializes a result. The library guesses a result's type from its members, sometimes wrongly, so only the JSON is
/// used.
fn to_value(result: &ServerResult) -> Result<Value, McpError> {
    serde_json::to_value(result).map_err(|_| McpError::Malformed { problem: "it cannot be parsed".to_owned() })
}

fn is_older_era(info: &ServerInfo) -> bool {
    info.protocol_version.as_str() < ProtocolVersion::NO_INITIALIZE.as_str()
}

fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs_f64().ceil() as u64
}
