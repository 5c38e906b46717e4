//! Filter between a server and the protocol library.
//!
//! The library starts a task for each request and notification from the server, logs them, and accepts responses to
//! cancelled requests. The filter forwards only expected messages: one response per pending request, and messages of a
//! subscription. Requests of the server are answered here. Everything else is dropped and charged to the rate budget,
//! so that a flood is read slowly.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, ErrorCode, ErrorData, Implementation, ServerJsonRpcMessage, ServerNotification,
    ServerRequest, ServerResult,
};
use rmcp::transport::Transport;
use tokio::task::JoinSet;

use crate::CloseReason;
use crate::message::numeric_id;
use crate::session::Session;
use crate::text::truncate;

/// Maximum number of concurrent replies to the server's own requests; further requests are not answered.
const MAX_REPLIES: usize = 16;
const MAX_INSTRUCTIONS: usize = 16 * 1024;
const MAX_NAME: usize = 200;

/// Transport that forwards only expected messages.
pub(crate) struct MessageFilter<T> {
    inner: T,
    session: Session,
    replies: JoinSet<()>,
}

impl<T: Transport<RoleClient> + 'static> MessageFilter<T> {
    pub(crate) fn new(inner: T, session: Session) -> Self {
        Self { inner, session, replies: JoinSet::new() }
    }

    fn reply(&mut self, reply: ClientJsonRpcMessage) {
        while self.replies.try_join_next().is_some() {}
        if self.replies.len() < MAX_REPLIES {
            let sent = self.inner.send(reply);
            self.replies.spawn(async move {
                // A server that does not accept the reply bears the consequences.
                let _ = sent.await;
            });
        }
    }

    /// Returns the message if the library should receive it.
    fn filter(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match message {
            ServerJsonRpcMessage::Response(mut response) => {
                if !numeric_id(&response.id).is_some_and(|id| self.session.take_pending(id)) {
                    return None;
                }
                trim(&mut response.result);
                Some(ServerJsonRpcMessage::Response(response))
            }
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) => numeric_id(id)
                    .is_some_and(|id| self.session.take_pending(id))
                    .then_some(ServerJsonRpcMessage::Error(error)),
                None => self.assign_to_pending(error.error),
            },
            ServerJsonRpcMessage::Request(request) => {
                let reply = match request.request {
                    ServerRequest::PingRequest(_) => {
                        ClientJsonRpcMessage::response(ClientResult::empty(()), request.id)
                    }
                    _ => ClientJsonRpcMessage::error(
                        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client offers nothing to servers", None),
                        Some(request.id),
                    ),
                };
                self.reply(reply);
                None
            }
            ServerJsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ToolListChangedNotification(_) => {
                    self.session.record_tools_change();
                    None
                }
                ServerNotification::SubscriptionsAcknowledgedNotification(_) => {
                    self.session.has_subscription().then_some(ServerJsonRpcMessage::Notification(notification))
                }
                ServerNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref().and_then(numeric_id)?;
                    self.session.take_subscription(id).then_some(ServerJsonRpcMessage::Notification(notification))
                }
                _ => None,
            },
        }
    }

    /// Assigns an error without an id, which means that a request could not be read, to the only pending request, if
    /// there is exactly one.
    fn assign_to_pending(&self, error: ErrorData) -> Option<ServerJsonRpcMessage> {
        let id = self.session.single_pending()?;
        self.session.take_pending(id);
        Some(ServerJsonRpcMessage::error(error, Some(rmcp::model::RequestId::Number(id))))
    }
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for MessageFilter<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.session.record_outgoing(&message);
        let id = match &message {
            ClientJsonRpcMessage::Request(request) => numeric_id(&request.id),
            _ => None,
        };
        let session = self.session.clone();
        let sent = self.inner.send(message);
        async move {
            let sent = sent.await;
            if sent.is_err()
                && let Some(id) = id
            {
                session.take_pending(id);
            }
            sent
        }
    }

    /// Cancel-safe.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            self.session.budget().wait().await;
            let session = self.session.clone();
            let message = tokio::select! {
                biased;
                _ = session.closed() => return None,
                message = self.inner.receive() => message,
            };
            let Some(message) = message else {
                self.session.close(CloseReason::SessionLost);
                return None;
            };
            match self.filter(message) {
                Some(message) => return Some(message),
                None => self.session.budget().charge_message(0),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.session.close(CloseReason::Requested);
        self.replies.abort_all();
        self.inner.close().await
    }
}

impl<T> Drop for MessageFilter<T> {
    fn drop(&mut self) {
        // A panic in the library's task drops the filter; pending requests must not wait for it.
        if std::thread::panicking() {
            self.session.close(CloseReason::SessionLost);
        }
    }
}

/// Limits the server's self-description, which the library logs and retains.
fn trim(result: &mut ServerResult) {
    let (instructions, capabilities) = match result {
        ServerResult::InitializeResult(result) => {
            trim_implementation(&mut result.server_info);
            result.meta = None;
            (&mut result.instructions, &mut result.capabilities)
        }
        ServerResult::DiscoverResult(result) => {
            let server_info = result.server_info();
            result.meta = None;
            if let Some(mut server_info) = server_info {
                trim_implementation(&mut server_info);
                result.set_server_info(server_info);
            }
            result.supported_versions.truncate(32);
            (&mut result.instructions, &mut result.capabilities)
        }
        _ => return,
    };
    if let Some(instructions) = instructions {
        truncate(instructions, MAX_INSTRUCTIONS);
    }
    capabilities.experimental = None;
    capabilities.extensions = None;
    capabilities.logging = None;
    capabilities.completions = None;
}

fn trim_implementation(server: &mut Implementation) {
    truncate(&mut server.name, MAX_NAME);
    truncate(&mut server.version, MAX_NAME);
    if let Some(title) = &mut server.title {
        truncate(title, MAX_NAME);
    }
    server.description = None;
    server.icons = None;
    server.website_url = None;
}
