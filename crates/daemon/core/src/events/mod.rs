//! What happens in the daemon that others may react to: the names of all events, when each fires,
//! and what its data holds; and following them as they happen.
//!
//! An event is a row that commits with the change that caused it (`store::Tx::emit`); hooks read
//! the rows in order by a cursor. Whoever follows reads the same rows, and hears besides of what is not worth a row
//! (`runtime::LiveFeed`), from the daemon that does it alone.
//!
//! Invariants
//! - Nobody emits a type that is not in the [`CATALOGUE`]: a test holds the outbox of every other
//!   test against it.
//! - `data` of a type only ever grows: filters and templates name its fields.
//! - Followers wait for the database together, and keep nobody waiting: one that is too slow is cut off. Without
//!   followers nothing is read.
//!
//! Deliberately absent: who reacts (`hooks`).

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
