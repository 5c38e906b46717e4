//! Opening a session: which handshakes are tried, in which order, and what comes of them.

use std::time::Duration;

use agentd_base::visible::strip_tags;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, ServerPeerInfo};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient};
use serde::Serialize;

use crate::failure::Failures;
use crate::gate::Gate;
use crate::message::{MALFORMED, TOO_LARGE};
use crate::text::one_line;
use crate::{Lifecycle, McpError};

pub(crate) type Service = RunningService<RoleClient, Agentd>;

/// A published version older than those that the library names; it differs in nothing used here.
const FIRST_VERSION: &str = "2024-10-07";

/// What this client says of itself. It offers servers nothing: no sampling, no roots, no
/// elicitation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agentd;

impl ClientHandler for Agentd {
    fn get_info(&self) -> ClientConfig {
        // The version that `initialize` names; `server/discover` is told its own.
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerInfo {
    pub name: String,
    pub title: Option<String>,
    pub version: String,
    /// Such as `2025-11-25`.
    pub protocol_version: String,
    /// How to use the server, in its own words; at most 16 KiB.
    pub instructions: Option<String>,
    pub offers_tools: bool,
    /// It says when its tools change.
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

/// Tries the handshakes of `lifecycle` over one pair of streams, which outlive a refusal.
pub(crate) async fn over_streams<T>(
    transport: T,
    lifecycle: Lifecycle,
    failures: &Failures,
    limit: Duration,
) -> Result<(Service, ServerInfo), McpError>
where
    T: Transport<RoleClient> + Clone + Sync + 'static,
{
    let serve =
        |mode| serve_client_with_lifecycle(Agentd, Gate::new(transport.clone(), failures.session.clone()), mode);
    within(limit, async {
        let first = if lifecycle == Lifecycle::Discover { discover() } else { ClientLifecycleMode::Initialize };
        match serve(first).await {
            Ok(service) => checked(service).await,
            Err(refusal) if lifecycle == Lifecycle::Auto && is_refusal(&refusal) => {
                match serve(discover()).await {
                    Ok(service) => checked(service).await,
                    // A server of neither era: what it said to the first is what it means.
                    Err(error) if is_refusal(&error) => Err(failures.of_handshake(refusal)),
                    Err(error) => Err(failures.of_handshake(error)),
                }
            }
            Err(error) => Err(failures.of_handshake(error)),
        }
    })
    .await
}

/// As [`over_streams`], with a transport and a session made anew for each try; what belongs to the
/// one that worked is handed back.
pub(crate) async fn over_http<T>(
    connect: impl Fn() -> (T, Failures),
    lifecycle: Lifecycle,
    limit: Duration,
) -> Result<(Service, ServerInfo, Failures), McpError>
where
    T: Transport<RoleClient> + Sync + 'static,
{
    let attempt = async |mode| {
        let (transport, failures) = connect();
        match serve_client_with_lifecycle(Agentd, Gate::new(transport, failures.session.clone()), mode).await {
            Ok(service) => checked(service).await.map(|(service, info)| (service, info, failures)),
            Err(error) => Err(failures.of_handshake(error)),
        }
    };
    within(limit, async {
        let first = match lifecycle {
            Lifecycle::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Lifecycle::Initialize => ClientLifecycleMode::Initialize,
            Lifecycle::Discover => discover(),
        };
        match attempt(first).await {
            // Some servers of the older era answer the newer handshake with anything at all.
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

/// Whether the server itself said no, in so many words.
fn is_refusal(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::JsonRpcError(error) if ![TOO_LARGE, MALFORMED].contains(&error.code))
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
}

async fn within<T>(limit: Duration, handshake: impl Future<Output = Result<T, McpError>>) -> Result<T, McpError> {
    tokio::time::timeout(limit, handshake)
        .await
        .unwrap_or(Err(McpError::HandshakeTimeout { seconds: limit.as_secs_f64().ceil() as u64 }))
}

/// Refuses a server that claims a version that does not exist.
async fn checked(service: Service) -> Result<(Service, ServerInfo), McpError> {
    let Some(info) = service.peer().peer_info() else {
        return Err(McpError::NotMcp { problem: "it says nothing of itself".to_owned() });
    };
    let version = &info.protocol_version;
    if !ProtocolVersion::KNOWN_VERSIONS.contains(version) && version.as_str() != FIRST_VERSION {
        let offered = one_line(version.as_str(), 40);
        let _ = service.cancel().await;
        return Err(McpError::UnsupportedVersion { offered });
    }
    Ok((service, ServerInfo::new(&info)))
}
