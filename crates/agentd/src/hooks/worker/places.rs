//! The places of the two lanes. A request that takes long moves to a place of its own kind, so that receivers that hang
//! take none from those that answer.

use std::time::Duration;

use tokio::sync::Notify;

use super::{OTHERS_AT_ONCE, REQUESTS_AT_ONCE, SLOW_REQUESTS_AT_ONCE};
use crate::ground::{Place, Places};
use crate::hooks::model::Action;
use crate::hooks::store::queue::Lane;

/// What a place is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request of a hook.
    Request,
    /// Code, and what the daemon knows how to do.
    Other,
}

impl Kind {
    pub(super) fn of(action: &Action) -> Self {
        match action {
            Action::Http(_) => Self::Request,
            Action::Python(_) | Action::Builtin(_) | Action::Broken(_) => Self::Other,
        }
    }
}

/// Every place there is.
#[derive(Debug)]
pub(in crate::hooks) struct LanePlaces {
    deliveries: Places,
    slow_deliveries: Places,
    inline: Places,
    slow_inline: Places,
    others: Places,
}

impl Default for LanePlaces {
    fn default() -> Self {
        Self {
            deliveries: Places::new(REQUESTS_AT_ONCE),
            slow_deliveries: Places::new(SLOW_REQUESTS_AT_ONCE),
            inline: Places::new(REQUESTS_AT_ONCE),
            slow_inline: Places::new(SLOW_REQUESTS_AT_ONCE),
            others: Places::new(OTHERS_AT_ONCE),
        }
    }
}

impl LanePlaces {
    /// What is queued is a request, or cannot be sent at all.
    pub(super) fn of(&self, lane: Lane, kind: Kind) -> &Places {
        match (lane, kind) {
            (Lane::Deliveries, _) => &self.deliveries,
            (Lane::Executions, Kind::Request) => &self.inline,
            (Lane::Executions, Kind::Other) => &self.others,
        }
    }

    /// Gives the place of a request that takes long to what is quicker, as far as there are places for slow ones.
    pub(in crate::hooks) fn make_room(&self, lane: Lane, place: &mut Option<Place>) {
        let slow = match lane {
            Lane::Deliveries => &self.slow_deliveries,
            Lane::Executions => &self.slow_inline,
        };
        if place.is_some()
            && let Some(slow) = slow.try_take()
        {
            *place = Some(slow);
        }
    }

    fn lane(&self, lane: Lane) -> Vec<&Places> {
        match lane {
            Lane::Deliveries => vec![&self.deliveries, &self.slow_deliveries],
            Lane::Executions => vec![&self.inline, &self.slow_inline, &self.others],
        }
    }

    pub(super) fn taken(&self, lane: Lane) -> usize {
        self.lane(lane).into_iter().map(Places::taken).sum()
    }

    /// See [`Places::settle`].
    pub(super) async fn settle(&self, lane: Lane, wake: &Notify, longest: Duration) -> bool {
        Places::settle_any(&self.lane(lane), Some(wake), longest).await
    }

    /// Waits until no place is taken, at most for `limit`; answers whether that is so.
    pub(in crate::hooks) async fn drain(&self, limit: Duration) -> bool {
        let all = [Lane::Deliveries, Lane::Executions].into_iter().flat_map(|lane| self.lane(lane));
        let drained = futures_util::future::join_all(all.map(|places| places.drain(limit))).await;
        drained.into_iter().all(|is_empty| is_empty)
    }
}
