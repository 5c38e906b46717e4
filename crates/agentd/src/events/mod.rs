//! What happens in the daemon that others may react to: the names of all events, when each fires,
//! and what its data holds.
//!
//! An event is a row that commits with the change that caused it (`store::Tx::emit`); hooks read
//! the rows in order by a cursor.
//!
//! Invariants
//! - Nobody emits a type that is not in the [`CATALOGUE`]: a test holds the outbox of every other
//!   test against it.
//! - `data` of a type only ever grows: filters and templates name its fields.
//!
//! Deliberately absent: who listens (`hooks`).

mod catalogue;

pub use catalogue::{CATALOGUE, Category, EventType, Field, find};
