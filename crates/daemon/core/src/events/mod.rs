//! Events of the daemon: the catalogue of event types and the event stream.
//!
//! An event is a row that commits with the change that caused it (`store::Tx::emit`). Hooks read the rows in order
//! with a cursor. The event stream delivers the same rows, and in addition live events that are not stored
//! (`runtime::LiveFeed`), which only the daemon that emits them delivers.
//!
//! Invariants
//! - Every emitted type is in the [`CATALOGUE`]; the outbox of every integration test is checked against it.
//! - Fields of a type's `data` are never removed, because filters and templates refer to them.
//! - One task reads the database for all stream clients. A client that is too slow is disconnected and delays no other.
//!   Without clients, nothing is read.

mod catalogue;
mod category;
mod live_types;
mod model;
mod routes;
mod service;

use crate::parts::{Domain, DomainParts};
use crate::runtime::MetricList;
use routes::routes;

pub use catalogue::{CATALOGUE, Category, EventType, Field, find};
pub use live_types::{LIVE, LiveType};
pub use model::TypeFilter;
pub use service::{Events, EventsError, StreamEvent};

impl Domain for Events {
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
