//! Work without a user: the scheduler, hooks, webhooks, proactive turns, notifications.

pub mod hooks;
pub mod notify;
pub mod proactive;
pub mod scheduler;
pub mod webhooks;
