//! Automation: the scheduler, hooks, inbound webhooks, proactive turns and notifications.

pub mod hooks;
pub mod notify;
pub mod proactive;
pub mod scheduler;
pub mod webhooks;
