//! One browser that the owner and the agents drive: Chromium of the machine, behind a filtering proxy.
//!
//! Invariants
//! - There is one session. The first action starts it, 15 minutes without use or `POST /close` end it, and a Chromium
//!   that has ended is started anew by the next action, whose answer says so.
//! - Whatever a page loads goes through a proxy of its own (`net::FilteringProxy`), which holds it to the rules for
//!   what a page can steer, and to the lists of the browser's settings, as they are at that moment.
//! - What an action answers has happened; what could not be done is an error with what was missing.
//! - The owner and each agent have an active tab of their own; cookies are those of the one session.
//! - What a page says reaches an agent between marks that nobody outside can know.
//! - No Chromium outlives the daemon.
//!
//! Where things go: what is done with the session is a file in `service/`, as `impl Browser`, that gets the session
//! from `Browser::session` (starting it) or `Browser::running` (if there is one); its operations are a file in
//! `routes/` with a line in `routes/mod.rs`.
//!
//! Deliberately absent: how Chromium is driven (`agentd-browser`), and which addresses are private (`agentd-net`).

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
use agentd_engine::tools::JoinsBuiltin;

use routes::routes;
use worker::CloseIdle;

pub use error::BrowserError;
pub use model::{ActionName, Actor, BrowserAction, KeptStep, RecordingId, RecordingState, RecordingSummary};
pub use service::{Acted, Browser, BrowserDependencies, Session};
pub use settings::BrowserSettings;
pub use tools::BrowserTools;

impl Domain for Browser {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(CloseIdle::new(self.clone()))],
            metrics: MetricList::default(),
            bindings: vec![Binding::new::<dyn JoinsBuiltin>(Arc::new(BrowserTools::new(self)))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Processes, self, async |browser, _| {
                browser.close().await;
            })],
        }
    }
}
