//! Browser of the owner and the agents: the machine's Chromium behind a filtering proxy.
//!
//! Invariants
//! - There is at most one session. The first action starts it; `POST /close` or 15 minutes without use end it. If
//!   Chromium has ended, the next action restarts it and reports that.
//! - All requests of pages go through the session's own proxy (`net::FilteringProxy`), which enforces the rules for
//!   untrusted requests and the lists of the browser settings, as currently configured.
//! - A successful response means that the action has happened; a failure names what was missing.
//! - The owner and each agent have their own active tab; cookies are shared in the session.
//! - Text of a page reaches an agent enclosed in markers that outsiders cannot guess.
//! - No Chromium process outlives the daemon.
//!
//! Structure: each group of operations is a file in `service/` as `impl Browser` and a file in `routes/` that is listed
//! in `routes/mod.rs`. `Browser::session` starts the session if necessary; `Browser::running` returns it if it exists.
//!
//! Not part of this module: controlling Chromium (`agentd-browser`) and classifying addresses (`agentd-net`).

mod error;
mod files;
mod model;
mod routes;
mod service;
mod settings;
mod store;
mod stream;
mod tools;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, MetricList};
use agentd_engine::tools::BuiltinToolProvider;

use routes::routes;
use worker::CloseIdle;

pub use error::BrowserError;
pub use model::{ActionName, Actor, BrowserAction, RecordingId, RecordingState, RecordingSummary, StoredStep};
pub use service::{Browser, BrowserDependencies, PerformedAction, Session};
pub use settings::BrowserSettings;
pub use tools::BrowserTools;

impl Domain for Browser {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(CloseIdle::new(self.clone()))],
            metrics: MetricList::default(),
            bindings: vec![Binding::new::<dyn BuiltinToolProvider>(Arc::new(BrowserTools::new(self)))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, self, async |browser, _| {
                browser.close().await;
            })],
        }
    }
}
