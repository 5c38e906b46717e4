//! Connection and request errors. Messages name what the owner can change; the server's error output is only available
//! from [`crate::Connection::diagnosis`] and [`ConnectError::diagnosis`].

use std::fmt;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_net::NetError;

/// Reason why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// The connection was closed with [`crate::Connection::close`] or dropped.
    Requested,
    /// The program closed its standard output, usually because it exited.
    OutputClosed,
    /// The program closed its standard input.
    InputClosed,
    /// The program did not read its standard input within the write timeout.
    NotReading,
    /// Reading from the program failed.
    ReadFailed,
    /// The server was unreachable several times in a row.
    Unreachable,
    /// The HTTP session ended and no new session could be opened.
    SessionLost,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requested => "it was disconnected",
            Self::OutputClosed => "the program ended or closed its output",
            Self::InputClosed => "the program closed its input",
            Self::NotReading => "the program stopped reading its input",
            Self::ReadFailed => "reading from the program failed",
            Self::Unreachable => "the server could not be reached several times in a row",
            Self::SessionLost => "the server ended the session",
        })
    }
}

/// Error of a tool server connection.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error(
        "the tool server did not finish the handshake within {seconds} seconds; if it is still being downloaded or \
         started, connect again"
    )]
    HandshakeTimeout { seconds: u64 },
    #[error("the tool server closed the connection during the handshake: {reason}; see its error output")]
    EndedInHandshake { reason: CloseReason },
    #[error("the tool server rejected the handshake: {message}")]
    HandshakeRefused { message: String },
    #[error("the server does not speak MCP: {problem}")]
    NotMcp { problem: String },
    #[error("the tool server uses protocol version {offered}, which is not supported")]
    UnsupportedVersion { offered: String },
    #[error("the tool server requires a credential (HTTP {status}); add or correct it in `headers`")]
    Unauthorized { status: u16 },
    #[error("no MCP endpoint found at this URL (HTTP {status}); the path of streamable HTTP servers is often /mcp")]
    NoEndpoint { status: u16 },
    #[error("the URL returned a redirect (HTTP {status}); register the URL of its target")]
    Redirect { status: u16 },
    #[error("the tool server returned HTTP {status}")]
    HttpStatus { status: u16 },
    #[error("the header `{name}` cannot be sent: {problem}")]
    Header { name: String, problem: &'static str },
    #[error("the request to the tool server failed")]
    Net(#[source] NetError),
    #[error("the tool server is not connected: {reason}")]
    Closed { reason: CloseReason },
    #[error("limit of concurrent requests to this tool server reached ({limit}); retry later")]
    Busy { limit: usize },
    #[error("the tool server did not answer within {seconds} seconds; the request was cancelled")]
    Timeout { seconds: u64 },
    #[error("the tool server rejected the request (code {code}): {message}")]
    Refused { code: i32, message: String },
    #[error("the request is too large (limit {limit_bytes} bytes); send less data")]
    RequestTooLarge { limit_bytes: usize },
    #[error("the tool server's response is too large (limit {limit_bytes} bytes) or nested too deeply")]
    AnswerTooLarge { limit_bytes: usize },
    #[error("the tool server's response is not valid: {problem}")]
    Malformed { problem: String },
    #[error("the tool requires user input during the call, which is not supported")]
    InputRequired,
    #[error("the input of a tool must be a JSON object")]
    InputNotObject,
}

impl DomainError for McpError {
    fn kind(&self) -> ErrorKind {
        let field =
            |name: &str| ErrorKind::Invalid(vec![FieldProblem { field: name.to_owned(), message: self.to_string() }]);
        match self {
            Self::Header { name, .. } => field(&format!("headers.{name}")),
            Self::InputNotObject => field("input"),
            Self::RequestTooLarge { .. } => ErrorKind::TooLarge,
            Self::Net(error) => error.kind(),
            Self::Closed { .. } => ErrorKind::Conflict,
            Self::Busy { .. } => ErrorKind::TooMany(std::time::Duration::from_secs(1)),
            _ => ErrorKind::Upstream,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::HandshakeTimeout { .. } => "tool_server_handshake_timeout",
            Self::EndedInHandshake { .. } => "tool_server_ended",
            Self::HandshakeRefused { .. } => "tool_server_refused_handshake",
            Self::NotMcp { .. } => "not_a_tool_server",
            Self::UnsupportedVersion { .. } => "protocol_version_not_supported",
            Self::Unauthorized { .. } => "tool_server_unauthorized",
            Self::NoEndpoint { .. } => "tool_server_endpoint_missing",
            Self::Redirect { .. } => "tool_server_redirects",
            Self::HttpStatus { .. } => "tool_server_http_status",
            Self::Header { .. } => "header_invalid",
            Self::Net(error) => error.code(),
            Self::Closed { .. } => "tool_server_not_connected",
            Self::Busy { .. } => "tool_server_busy",
            Self::Timeout { .. } => "tool_server_timeout",
            Self::Refused { .. } => "tool_server_refused",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::AnswerTooLarge { .. } => "answer_too_large",
            Self::Malformed { .. } => "answer_malformed",
            Self::InputRequired => "input_required",
            Self::InputNotObject => "input_not_an_object",
        }
    }
}

/// Failure to connect, with the program's preceding output.
#[derive(Debug)]
pub struct ConnectError {
    error: McpError,
    diagnosis: String,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// Represents its [`McpError`], whose message it displays; the source chain continues below that.
impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl ConnectError {
    pub(crate) fn new(error: McpError, diagnosis: String) -> Self {
        Self { error, diagnosis }
    }

    #[must_use]
    pub fn error(&self) -> &McpError {
        &self.error
    }

    /// Returns the end of the program's error output and of its standard output outside the protocol. It may contain
    /// anything: show it to the owner, never to a model or a log.
    #[must_use]
    pub fn diagnosis(&self) -> &str {
        &self.diagnosis
    }
}

impl DomainError for ConnectError {
    fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    fn code(&self) -> &'static str {
        self.error.code()
    }
}
