//! Sandbox settings of the owner, and execution of code for agents.
//!
//! Invariants
//! - Code runs under the current settings at its start; a change needs no restart.
//! - Without a sandbox, code is rejected unless the owner chose `none` explicitly; the rest of the daemon keeps
//!   working.
//! - Network access, if permitted, goes through a filtering proxy with the rules for agents.

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
