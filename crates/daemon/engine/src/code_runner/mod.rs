//! The sandbox as the daemon uses it: the owner's settings, and running code for an agent.
//!
//! Invariants
//! - Code runs under the settings in force when it starts; a change needs no restart.
//! - Without a sandbox code is refused, unless the owner chose `none` by hand; everything else of
//!   the daemon works all the same.
//! - The network, where the owner allows it, is a filtering proxy that follows the rules for what
//!   an agent steers.

mod interpreter;
mod outcome;
mod python;
mod routes;
mod runner;
mod settings;
mod worker;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;

use routes::{CodeRunnerRoutes, routes};
use worker::CheckSandbox;

pub use interpreter::Interpreter;
pub use outcome::CodeOutcome;
pub(crate) use outcome::READ_BYTES;
pub use python::{PythonAnswer, PythonError, PythonJob};
pub use runner::{CodeError, CodeRunner, INIT_SUBCOMMAND, SandboxState};
pub(crate) use settings::SandboxPatch;
pub use settings::{SandboxBackend, SandboxSettings};

impl Domain for CodeRunner {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes()
                .with_state(CodeRunnerRoutes { runner: self.clone(), settings: self.all_settings().clone() }),
            workers: vec![Box::new(CheckSandbox(self.clone()))],
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
