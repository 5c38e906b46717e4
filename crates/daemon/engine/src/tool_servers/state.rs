//! State of servers, and call statistics.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_sandbox::Tier;

use super::error::Failure;
use super::link::ServerStatus;
use super::listing::{Listing, OfferedTool, ServerIdentity, SkippedTool};
use super::load::LoadedListing;
use super::model::ToolServer;

/// State of a server on this daemon.
#[derive(Debug, Clone)]
pub struct ToolServerState {
    pub server: Arc<ToolServer>,
    /// Names of variables or headers without a value.
    pub missing: BTreeSet<String>,
    pub status: ServerStatus,
    pub failure: Option<Failure>,
    /// `None` if the server was never asked for its tools.
    pub identity: Option<ServerIdentity>,
    pub tools: Vec<Arc<OfferedTool>>,
    pub left_out: Vec<SkippedTool>,
    pub cut_short: Option<String>,
    pub listed_at: Option<Timestamp>,
    pub connected_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub retry_at: Option<Timestamp>,
    pub losses: u64,
    /// Process id of the sandbox around the program.
    pub process_id: Option<u32>,
    pub tier: Option<Tier>,
    /// End of the program's error output.
    pub stderr_tail: String,
}

/// Result of a test.
#[derive(Debug)]
pub struct TestReport {
    pub duration: Duration,
    pub outcome: Result<(Listing, Vec<Arc<OfferedTool>>), Failure>,
    pub stderr_tail: String,
}

/// Number of calls since the daemon started, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCounts {
    pub ok: u64,
    pub failed: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum CallOutcome {
    Ok,
    Failed,
    TimedOut,
    Cancelled,
}

#[derive(Debug, Default)]
pub(super) struct Calls([AtomicU64; 4]);

/// Counts a call on drop, including abandoned calls.
pub(super) struct CountedCall {
    calls: Arc<Calls>,
    pub(super) outcome: CallOutcome,
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.calls.0[self.outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Calls {
    /// Starts a call. A call dropped without an outcome counts as cancelled.
    pub(super) fn begin(self: &Arc<Self>) -> CountedCall {
        CountedCall { calls: Arc::clone(self), outcome: CallOutcome::Cancelled }
    }

    pub(super) fn counts(&self) -> CallCounts {
        let count = |outcome: CallOutcome| self.0[outcome as usize].load(Ordering::Relaxed);
        CallCounts {
            ok: count(CallOutcome::Ok),
            failed: count(CallOutcome::Failed),
            timed_out: count(CallOutcome::TimedOut),
            cancelled: count(CallOutcome::Cancelled),
        }
    }
}

impl ToolServerState {
    /// Creates a state from stored data, without a session.
    pub(super) fn unconnected(server: &Arc<ToolServer>, known: Option<&LoadedListing>) -> Self {
        Self {
            server: Arc::clone(server),
            missing: BTreeSet::new(),
            status: if server.enabled { ServerStatus::Disconnected } else { ServerStatus::Disabled },
            failure: None,
            identity: known.map(|known| known.listing.server.clone()),
            tools: known.map(|known| known.tools.clone()).unwrap_or_default(),
            left_out: known.map(|known| known.left_out.clone()).unwrap_or_default(),
            cut_short: known.and_then(|known| known.listing.cut_short.clone()),
            listed_at: known.map(|known| known.listed_at),
            connected_at: None,
            last_used_at: None,
            retry_at: None,
            losses: 0,
            process_id: None,
            tier: None,
            stderr_tail: String::new(),
        }
    }

    /// Creates the state of a new registration for a stored response.
    #[must_use]
    pub fn of_registration(server: &ToolServer) -> Self {
        Self::unconnected(&Arc::new(server.clone()), None)
    }
}
