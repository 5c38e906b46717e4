//! Beginning turns for deliveries, and forgetting what has had its time.

mod purge;
mod start;

pub(super) use purge::PurgeDeliveries;
pub(super) use start::StartTurns;
