//! Admission of inbound messages that carry their own credentials: signed requests, messages of chat platforms.
//!
//! All of them take the same steps:
//! 1. The domain verifies the sender over the raw bytes. Nothing is counted or stored before.
//! 2. [`RateLimiter::admit`] enforces the rates per sender and in total, [`RateLimiter::check_backlog`] the limit on
//!    the backlog.
//! 3. In one transaction, the domain claims the sender's message id, stores the message, emits its event and enqueues
//!    its work. A repeated message gets the original response.
//! 4. The domain responds after the commit and counts the [`Outcome`].
//!
//! Verification and tables differ between domains and are not part of this module.

mod limiter;
mod outcome;
mod rate;

pub use limiter::{Limits, RateLimiter, Refusal};
pub use outcome::{Outcome, OutcomeCounts};
pub use rate::Rate;
