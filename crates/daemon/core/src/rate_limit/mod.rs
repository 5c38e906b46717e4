//! Letting in what comes from outside to those of its own credentials: signed requests, messages of platforms.
//!
//! The way in is one, whatever it comes through:
//! 1. The domain verifies who sent it, over the raw bytes; nothing is counted or kept before.
//! 2. [`RateLimiter::admit`] bounds how often one sender and all together may come, and [`RateLimiter::check_backlog`] how
//!    much may wait to be worked off.
//! 3. In one transaction the domain claims the sender's id of the message, stores it, emits its event and enqueues
//!    what is to be done. What came before is answered with what it was then.
//! 4. Success is answered after the commit, and the [`Outcome`] is counted.
//!
//! Deliberately absent: verification and rows, which differ from domain to domain.

mod gate;
mod outcome;
mod rate;

pub use gate::{Limits, RateLimiter, Refusal};
pub use outcome::{Outcome, OutcomeCounts};
pub use rate::Rate;
