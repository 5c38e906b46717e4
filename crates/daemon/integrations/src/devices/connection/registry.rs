//! The registry of device connections at this daemon.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::{CallCounts, Connection, Ending};
use crate::devices::model::DeviceId;

/// A device that does not receive its close frame within this time is disconnected.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Default)]
struct State {
    /// One per device, so its size is limited by the number of devices.
    open: HashMap<DeviceId, Arc<Connection>>,
    /// New connections are rejected while this is not empty.
    closers: Vec<Ending>,
}

/// Registry of connected devices. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    counts: CallCounts,
    /// Held while a connection is stored in the database and in this registry, so that both agree.
    joining: tokio::sync::Mutex<()>,
}

/// While this exists, no device socket is open and new ones are rejected.
pub struct SocketsClosed {
    connections: Connections,
    ending: Ending,
}

impl fmt::Debug for SocketsClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketsClosed").finish_non_exhaustive()
    }
}

impl Drop for SocketsClosed {
    fn drop(&mut self) {
        let mut state = self.connections.0.state.lock();
        if let Some(ours) = state.closers.iter().position(|ending| *ending == self.ending) {
            state.closers.remove(ours);
        }
    }
}

impl Connections {
    pub(crate) async fn join(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.joining.lock().await
    }

    /// Registers a connection; a previous connection of the device is closed.
    ///
    /// # Errors
    /// The reason why connections are rejected at present.
    pub(crate) fn enter(&self, connection: &Arc<Connection>) -> Result<(), Ending> {
        let mut state = self.0.state.lock();
        if let Some(ending) = state.closers.first() {
            return Err(*ending);
        }
        if let Some(previous) = state.open.insert(connection.device.id.clone(), Arc::clone(connection)) {
            previous.close(Ending::Replaced);
        }
        Ok(())
    }

    /// Removes a connection, unless another connection has replaced it.
    pub(crate) fn leave(&self, connection: &Connection) {
        let mut state = self.0.state.lock();
        if state.open.get(&connection.device.id).is_some_and(|open| open.id == connection.id) {
            state.open.remove(&connection.device.id);
        }
    }

    pub(crate) fn find(&self, id: &DeviceId) -> Option<Arc<Connection>> {
        self.0.state.lock().open.get(id).cloned()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.state.lock().open.len()
    }

    pub(crate) fn call_counts(&self) -> &CallCounts {
        &self.0.counts
    }

    /// Closes the connection of a device at this daemon, if any, and waits for at most [`CLOSE_TIMEOUT`].
    pub(crate) async fn end(&self, id: &DeviceId, ending: Ending) {
        // A connection in the process of being registered already updated its row; waiting for the lock makes it
        // visible here.
        let _joining = self.join().await;
        if let Some(connection) = self.find(id) {
            close(&connection, ending).await;
        }
    }

    /// Closes every connection and waits until they are closed.
    pub(crate) async fn close_all(&self, ending: Ending) -> SocketsClosed {
        let open: Vec<Arc<Connection>> = {
            let mut state = self.0.state.lock();
            state.closers.push(ending);
            state.open.values().cloned().collect()
        };
        let closed = SocketsClosed { connections: self.clone(), ending };
        join_all(open.iter().map(|connection| close(connection, ending))).await;
        closed
    }

    pub(crate) fn open(&self) -> Vec<Arc<Connection>> {
        self.0.state.lock().open.values().cloned().collect()
    }
}

async fn close(connection: &Connection, ending: Ending) {
    connection.close(ending);
    if tokio::time::timeout(CLOSE_TIMEOUT, connection.closed.cancelled()).await.is_err() {
        tracing::warn!(device = %connection.device.id, "device socket close timed out");
    }
}
