//! Setup wizard: the steps from an empty daemon to one that answers, over HTTP.
//!
//! Each step does the same as its regular endpoint and stores no state of its own; progress is derived from the
//! account, the providers, the agents and the keys. Steps can be done in any order or skipped. They are public until
//! the first API key exists; after that they require full access, and `complete` can only succeed once.
//!
//! The wizard offers nothing that the regular endpoints do not.

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
