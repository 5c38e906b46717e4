//! Credentials and their rules.

mod account;
mod bootstrap;
mod key;
mod throttle;

pub use account::{LoggedIn, LoginOrigin, User, UserAgent, UserId, UserSession, UserSessionId};
pub(super) use account::{check_account, password_proof};
pub use bootstrap::BootstrapState;
pub(super) use bootstrap::{AnonymousAccess, ClosedReason, Refusal, Requester};
pub use key::{ApiKey, IssuedKey, IssuedTicket, KeyId, NewKey, TicketId};
pub(super) use key::{
    PAGE_SECRET_PREFIX, SESSION_PREFIX, TICKET_PREFIX, is_key, is_page_secret, is_session, is_ticket,
    is_valid_bootstrap_key, parse_scope, scope_name,
};
pub use throttle::Network;
pub(super) use throttle::{AttemptDecision, LoginPolicy, evaluate};
