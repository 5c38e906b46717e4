//! Waiting for what comes about by itself: the one place where a test looks again and again.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// About a minute. Looks are counted, since time may be paused.
const MOST_LOOKS: u32 = 12_000;

/// Looks at something until it is as it should be, in a loop: `let mut eventually = Eventually::new(); while … {
/// eventually.look_again().await; }`.
pub struct Eventually {
    looks: u32,
    asked_at: &'static Location<'static>,
}

impl Eventually {
    #[track_caller]
    pub fn new() -> Self {
        Self { looks: 0, asked_at: Location::caller() }
    }

    /// Waits a little. Ends the test when it has looked for a minute.
    pub async fn look_again(&mut self) {
        self.look_again_at(&"nothing of it").await;
    }

    /// As [`look_again`](Self::look_again), and then says what was seen instead.
    pub async fn look_again_at(&mut self, seen: &dyn Debug) {
        self.looks += 1;
        assert!(self.looks < MOST_LOOKS, "what {} waits for does not come about: {seen:?}", self.asked_at);
        tokio::time::sleep(PAUSE).await;
    }
}
