//! Session handshakes: their order, and the conversion of their results.

use std::time::Duration;

use agentd_base::visible::strip_tags;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, ServerPeerInfo};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;

use crate::failure::ErrorMapper;
use crate::message::{MALFORMED, TOO_LARGE};
use crate::message_filter::MessageFilter;
use crate::text::one_line;
use crate::{Lifecycle, McpError};

pub(crate) type Service = RunningService<RoleClient, ClientIdentity>;

/// Published version older than those in the library; it differs in nothing used here.
const FIRST_VERSION: &str = "2024-10-07";

/// Client identity sent to servers. It advertises no capabilities: no sampling, no roots, no elicitation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientIdentity;

impl ClientHandler for ClientIdentity {
    fn get_info(&self) -> ClientConfig {
        // Version used for `initialize`; `server/discover` sends its own.
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Server's self-description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerInfo {
    pub name: String,
    pub title: Option<String>,
    pub version: String,
    /// Protocol version such as `2025-11-25`.
    pub protocol_version: String,
    /// Usage instructions written by the server; at most 16 KiB.
    pub instructions: Option<String>,
    pub offers_tools: bool,
    /// Whether the server announces changes of its tools.
    pub announces_tool_changes: bool,
}

impl ServerInfo {
    fn new(info: &ServerPeerInfo) -> Self {
        let server = info.server_info.as_ref();
        let tools = info.capabilities.tools.as_ref();
        Self {
            name: server.map(|server| one_line(&server.name, 200)).unwrap_or_default(),
            title: server.and_then(|server| server.title.as_deref()).map(|title| one_line(title, 200)),
            version: server.map(|server| one_line(&server.version, 200)).unwrap_or_default(),
            protocol_version: info.protocol_version.as_str().to_owned(),
            instructions: info.instructions.as_deref().map(|text| strip_tags(text).into_owned()),
            offers_tools: tools.is_some(),
            announces_tool_changes: tools.and_then(|tools| tools.list_changed).unwrap_or(false),
        }
    }
}

/// Tries the handshakes of `lifecycle` over one pair of streams, which stay open after a refusal.
pub(crate) async fn over_streams<T>(
    transport: T,
    lifecycle: Lifecycle,
    failures: &ErrorMapper,
    limit: Duration,
) -> Result<(Service, ServerInfo), McpError>
where
    T: Transport<RoleClient> + Clone + Sync + 'static,
{
    let serve = |mode| {
        serve_client_with_lifecycle(
            ClientIdentity,
            MessageFilter::new(transport.clone(), failures.session.clone()),
            mode,
        )
    };
    with_timeout(limit, async {
        let first = if lifecycle == Lifecycle::Discover { discover() } else { ClientLifecycleMode::Initialize };
        match serve(first).await {
            Ok(service) => check_version(service).await,
            Err(refusal) if lifecycle == Lifecycle::Auto && is_refusal(&refusal) => {
                match serve(discover()).await {
                    Ok(service) => check_version(service).await,
                    // A server that supports neither handshake: its first error is the relevant one.
                    Err(error) if is_refusal(&error) => Err(failures.handshake_error(refusal)),
                    Err(error) => Err(failures.handshake_error(error)),
                }
            }
            Err(error) => Err(failures.handshake_error(error)),
        }
    })
    .await
}

/// Tries the handshakes like [`over_streams`], with a new transport and session for each attempt. Returns those of the
/// successful attempt.
pub(crate) async fn over_http<T>(
    connect: impl Fn() -> (T, ErrorMapper),
    lifecycle: Lifecycle,
    limit: Duration,
) -> Result<(Service, ServerInfo, ErrorMapper), McpError>
where
    T: Transport<RoleClient> + Sync + 'static,
{
    let attempt = async |mode| {
        let (transport, failures) = connect();
        match serve_client_with_lifecycle(ClientIdentity, MessageFilter::new(transport, failures.session.clone()), mode)
            .await
        {
            Ok(service) => check_version(service).await.map(|(service, info)| (service, info, failures)),
            Err(error) => Err(failures.handshake_error(error)),
        }
    };
    with_timeout(limit, async {
        let first = match lifecycle {
            Lifecycle::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Lifecycle::Initialize => ClientLifecycleMode::Initialize,
            Lifecycle::Discover => discover(),
        };
        match attempt(first).await {
            // Some servers of the older protocol answer the newer handshake with arbitrary errors.
            Err(McpError::NotMcp { .. } | McpError::HttpStatus { status: 500..=599 })
                if lifecycle == Lifecycle::Auto =>
            {
                attempt(ClientLifecycleMode::Initialize).await
            }
            result => result,
        }
    })
    .await
}

/// Whether the server explicitly refused the handshake.
fn is_refusal(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::JsonRpcError(error) if ![TOO_LARGE, MALFORMED].contains(&error.code))
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
}

async fn with_timeout<T>(limit: Duration, handshake: impl Future<Output = Result<T, McpError>>) -> Result<T, McpError> {
    tokio::time::timeout(limit, handshake)
        .await
        .unwrap_or(Err(McpError::HandshakeTimeout { seconds: limit.as_secs_f64().ceil() as u64 }))
}

/// Rejects a server that claims a non-existent protocol version.
async fn check_version(service: Service) -> Result<(Service, ServerInfo), McpError> {
    let Some(info) = service.peer().peer_info() else {
        return Err(McpError::NotMcp { problem: "it sent no server information".to_owned() });
    };
    let version = &info.protocol_version;
    if !ProtocolVersion::KNOWN_VERSIONS.contains(version) && version.as_str() != FIRST_VERSION {
        let offered = one_line(version.as_str(), 40);
        let _ = service.cancel().await;
        return Err(McpError::UnsupportedVersion { offered });
    }
    Ok((service, ServerInfo::new(&info)))
}
