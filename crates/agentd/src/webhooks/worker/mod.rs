//! Beginning turns for deliveries, and forgetting what has had its time.

mod purge;
mod start;

pub use purge::PurgeDeliveries;
pub use start::StartTurns;
