//! The operations on devices.

mod pair;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Secret;
use agentd_conversation::chat::Chat;
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_engine::agents::Agent;
use agentd_engine::tools::{Tool, ToolSource};
use agentd_store::{Dialect, Topic, Tx};
use subtle::ConstantTimeEq;

use super::connection::{CallCounts, Connections, Ending, SocketsClosed, device_tools};
use super::error::DeviceError;
use super::model::{Device, DeviceId, is_token};
use super::store;

pub use pair::{IssuedCode, Paired};

/// Notified when a device is removed or connects. Each connection then checks whether it is still the current one.
pub(super) const DEVICES: Topic = Topic::new("devices");

/// A connection at another replica that was not updated for this long is considered closed.
const STALE_AFTER: Duration = Duration::from_secs(90);

struct Inner {
    context: AppContext,
    chat: Chat,
    connections: Connections,
}

/// Service for devices and pairing codes. Cheap to clone.
#[derive(Clone)]
pub struct Devices(Arc<Inner>);

impl std::fmt::Debug for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Devices").field("connected", &self.connected()).finish_non_exhaustive()
    }
}

/// A device as listed by the API.
#[derive(Debug, Clone)]
pub(super) struct ListedDevice {
    pub(super) device: Device,
    pub(super) is_connected: bool,
    /// The name and description of each tool that this daemon offers for the device.
    pub(super) tools: Vec<(String, String)>,
}

impl Devices {
    pub fn new(context: AppContext, chat: Chat) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner { context, chat, connections: Connections::default() })))
    }

    /// Lists all devices, oldest first.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn list(&self) -> Result<Vec<ListedDevice>, DeviceError> {
        let context = &self.0.context;
        let rows = store::list_devices(&mut context.db.read().await?).await?;
        let now = context.clock.now();
        let listed = rows.into_iter().map(|row| {
            let here = self.0.connections.find(&row.device.id);
            let is_elsewhere = context.db.dialect() == Dialect::Postgres
                && row.connected_to.as_deref().is_some_and(|instance| instance != &*context.instance)
                && row.device.last_seen_at.is_some_and(|seen| now.since(seen) < STALE_AFTER);
            let tools = here.as_ref().map(|connection| connection.describe_tools()).unwrap_or_default();
            ListedDevice { device: row.device, is_connected: here.is_some() || is_elsewhere, tools }
        });
        Ok(listed.collect())
    }

    /// Removes a device permanently and closes its connection at this daemon.
    ///
    /// # Errors
    /// `NotFound`, or errors of the store.
    pub async fn revoke(&self, id: &DeviceId) -> Result<(), DeviceError> {
        let removed = id.clone();
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                if !store::delete_device(tx, &removed).await? {
                    return Err(DeviceError::NotFound { id: removed.as_str().chars().take(80).collect() });
                }
                tx.touch(DEVICES);
                Ok(())
            })
            .await?;
        self.0.connections.end(id, Ending::Revoked).await;
        tracing::info!(device = %id, "device removed");
        Ok(())
    }

    /// Returns the device that the token belongs to.
    ///
    /// # Errors
    /// `MissingToken`, `WrongToken`, or errors of the store.
    pub(super) async fn authenticate(&self, token: Option<&Secret>) -> Result<Device, DeviceError> {
        let token = token.ok_or(DeviceError::MissingToken)?;
        if !is_token(token.expose()) {
            return Err(DeviceError::WrongToken);
        }
        let hash = token.sha256();
        let found = store::find_by_token(&mut self.0.context.db.read().await?, &hash).await?;
        let found = found.filter(|row| bool::from(row.token_hash.ct_eq(&hash)));
        found.map(|row| row.device).ok_or(DeviceError::WrongToken)
    }

    /// The number of devices connected to this daemon.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.0.connections.count()
    }

    /// The number of tool calls by outcome since the daemon started.
    #[must_use]
    pub fn call_counts(&self) -> &CallCounts {
        self.0.connections.call_counts()
    }

    /// Closes all connections for shutdown and rejects new ones.
    pub async fn drain(&self) {
        // The guard is leaked so that new connections stay rejected.
        std::mem::forget(self.0.connections.close_all(Ending::ShuttingDown).await);
    }

    /// Closes all connections and rejects new ones until the returned value is dropped.
    pub async fn pause(&self) -> SocketsClosed {
        self.0.connections.close_all(Ending::Paused).await
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn chat(&self) -> &Chat {
        &self.0.chat
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.0.connections
    }
}

impl ToolSource for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    fn tools<'a>(&'a self, _agent: &'a Agent) -> futures_util::future::BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        Box::pin(async { device_tools(&self.0.connections) })
    }
}
