//! Conversion of the protocol library's errors into [`McpError`].

use rmcp::model::{ErrorData, ProtocolVersion};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::http::HttpFault;
use crate::message::{MALFORMED, TOO_LARGE};
use crate::session::Session;
use crate::stdio::{StdioError, WRITE_QUEUE};
use crate::text::one_line;
use crate::{CloseReason, McpError};

const MAX_MESSAGE: usize = 1_000;

/// Converts the errors of one connection.
#[derive(Debug, Clone)]
pub(crate) struct ErrorMapper {
    pub(crate) session: Session,
    pub(crate) max_message_bytes: usize,
}

impl ErrorMapper {
    pub(crate) fn handshake_error(&self, error: ClientInitializeError) -> McpError {
        match error {
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => self.handshake_error(*fallback),
            ClientInitializeError::JsonRpcError(error) => match self.response_error(error) {
                McpError::Refused { message, .. } => McpError::HandshakeRefused { message },
                other => other,
            },
            ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
                McpError::UnsupportedVersion { offered: versions(&server_supported) }
            }
            ClientInitializeError::ConnectionClosed(_) => match self.session.close_reason() {
                Some(reason) if reason != CloseReason::SessionLost => McpError::EndedInHandshake { reason },
                _ => McpError::NotMcp { problem: "its handshake response ended without a message".to_owned() },
            },
            ClientInitializeError::TransportError { error, .. } => match self.transport_error(&error) {
                McpError::Closed { reason } => McpError::EndedInHandshake { reason },
                McpError::Malformed { problem } => McpError::NotMcp { problem },
                other => other,
            },
            _ => McpError::NotMcp { problem: "its handshake response is not valid".to_owned() },
        }
    }

    pub(crate) fn request_error(&self, error: ServiceError) -> McpError {
        match error {
            ServiceError::McpError(error) => self.response_error(error),
            ServiceError::TransportSend(error) => self.transport_error(&error),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => self.closed_error(),
            _ => McpError::Malformed { problem: "it does not match the request".to_owned() },
        }
    }

    /// Returns the error for a response that will not arrive.
    pub(crate) fn closed_error(&self) -> McpError {
        match self.session.close_reason() {
            Some(reason) => McpError::Closed { reason },
            None => McpError::Malformed { problem: "it ended before the result".to_owned() },
        }
    }

    fn response_error(&self, error: ErrorData) -> McpError {
        match error.code {
            TOO_LARGE => self.answer_too_large(),
            MALFORMED => McpError::Malformed { problem: "it is not valid JSON-RPC".to_owned() },
            code => McpError::Refused { code: code.0, message: one_line(&error.message, MAX_MESSAGE) },
        }
    }

    fn transport_error(&self, error: &DynamicTransportError) -> McpError {
        if let Some(error) = error.error.downcast_ref::<StdioError>() {
            return match error {
                StdioError::TooLarge { limit } => McpError::RequestTooLarge { limit_bytes: *limit },
                StdioError::QueueFull => McpError::Busy { limit: WRITE_QUEUE },
                StdioError::Closed | StdioError::Encode(_) => {
                    McpError::Closed { reason: self.session.close_reason().unwrap_or(CloseReason::InputClosed) }
                }
            };
        }
        match error.error.downcast_ref::<StreamableHttpError<HttpFault>>() {
            Some(StreamableHttpError::Client(fault)) => self.http_error(fault),
            Some(
                StreamableHttpError::SessionExpired
                | StreamableHttpError::ReinitializationFailed(_)
                | StreamableHttpError::SessionRecoveryTimeout
                | StreamableHttpError::MissingSessionIdInResponse,
            ) => {
                self.session.close(CloseReason::SessionLost);
                McpError::Closed { reason: CloseReason::SessionLost }
            }
            Some(StreamableHttpError::Sse(_) | StreamableHttpError::UnexpectedServerResponse(_)) => {
                McpError::Malformed { problem: "its event stream ended prematurely".to_owned() }
            }
            _ => self.closed_error(),
        }
    }

    fn http_error(&self, fault: &HttpFault) -> McpError {
        match fault {
            HttpFault::Net(error) => McpError::Net(error.clone()),
            HttpFault::Status(status @ (401 | 403)) => McpError::Unauthorized { status: *status },
            HttpFault::Status(status @ (404 | 405)) => McpError::NoEndpoint { status: *status },
            HttpFault::Status(status @ 300..=399) => McpError::Redirect { status: *status },
            HttpFault::Status(status) => McpError::HttpStatus { status: *status },
            HttpFault::TooLarge => self.answer_too_large(),
            HttpFault::Malformed => McpError::Malformed { problem: "it is not valid JSON-RPC".to_owned() },
            HttpFault::ContentType => {
                McpError::Malformed { problem: "it is neither JSON nor an event stream".to_owned() }
            }
            HttpFault::RequestTooLarge => McpError::RequestTooLarge { limit_bytes: self.max_message_bytes },
        }
    }

    fn answer_too_large(&self) -> McpError {
        McpError::AnswerTooLarge { limit_bytes: self.max_message_bytes }
    }
}

fn versions(offered: &[ProtocolVersion]) -> String {
    let offered: Vec<&str> = offered.iter().map(ProtocolVersion::as_str).collect();
    match offered.is_empty() {
        true => "(none)".to_owned(),
        false => one_line(&offered.join(", "), 200),
    }
}
