//! The setup wizard: the few steps from an empty daemon to one that answers, over HTTP.
//!
//! Every step does what its own endpoint elsewhere does and keeps no state of its own: what is done
//! is read from the account, the providers, the agents and the keys. Steps may come in any order and
//! be left out. Each is open to anyone only until the first API key exists; afterwards it needs a
//! full credential, except that `complete` can never be done twice.
//!
//! Deliberately absent: anything that a credential could not do by the ordinary endpoints.

mod error;
mod model;
mod routes;
mod service;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::MetricList;

use routes::routes;

pub use error::SetupError;
pub use model::{Progress, Step};
pub use service::{ProviderChoice, Setup};

impl Domain for Setup {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: Vec::new(),
            metrics: MetricList::default(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}
