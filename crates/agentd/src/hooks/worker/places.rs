//! The places of the two queues. A request that takes long moves to a place of its own kind, so that receivers that hang
//! take none from those that answer.

use std::time::Duration;

use tokio::sync::Notify;

use super::{OTHERS_AT_ONCE, REQUESTS_AT_ONCE, SLOW_REQUESTS_AT_ONCE};
use crate::ground::{Place, Places};
use crate::hooks::model::Action;
use crate::hooks::store::queue::QueueKind;

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
pub(in crate::hooks) struct QueuePlaces {
    deliveries: Places,
    slow_deliveries: Places,
    inline: Places,
    slow_inline: Places,
    others: Places,
}

impl Default for QueuePlaces {
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

impl QueuePlaces {
    /// What is queued is a request, or cannot be sent at all.
    pub(super) fn of(&self, queue: QueueKind, kind: Kind) -> &Places {
        match (queue, kind) {
            (QueueKind::Deliveries, _) => &self.deliveries,
            (QueueKind::Executions, Kind::Request) => &self.inline,
            (QueueKind::Executions, Kind::Other) => &self.others,
        }
    }

    /// Gives the place of a request that takes long to what is quicker, as far as there are places for slow ones.
    pub(in crate::hooks) fn make_room(&self, queue: QueueKind, place: &mut Option<Place>) {
        let slow = match queue {
            QueueKind::Deliveries => &self.slow_deliveries,
            QueueKind::Executions => &self.slow_inline,
        };
        if place.is_some()
            && let Some(slow) = slow.try_take()
        {
            *place = Some(slow);
        }
    }

    fn queue(&self, queue: QueueKind) -> Vec<&Places> {
        match queue {
            QueueKind::Deliveries => vec![&self.deliveries, &self.slow_deliveries],
            QueueKind::Executions => vec![&self.inline, &self.slow_inline, &self.others],
        }
    }

    pub(super) fn taken(&self, queue: QueueKind) -> usize {
        self.queue(queue).into_iter().map(Places::taken).sum()
    }

    /// See [`Places::settle`].
    pub(super) async fn settle(&self, queue: QueueKind, wake: &Notify, longest: Duration) -> bool {
        Places::settle_any(&self.queue(queue), Some(wake), longest).await
    }

    /// Waits until no place is taken, at most for `limit`; answers whether that is so.
    pub(in crate::hooks) async fn drain(&self, limit: Duration) -> bool {
        let all = [QueueKind::Deliveries, QueueKind::Executions].into_iter().flat_map(|queue| self.queue(queue));
        let drained = futures_util::future::join_all(all.map(|places| places.drain(limit))).await;
        drained.into_iter().all(|is_empty| is_empty)
    }
}
