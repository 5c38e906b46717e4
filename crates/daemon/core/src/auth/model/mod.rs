//! What credentials are, and the rules about them.

mod account;
mod bootstrap;
mod key;
mod throttle;

pub use account::{LoggedIn, LoginOrigin, User, UserAgent, UserId, UserSession, UserSessionId};
pub(super) use account::{check_account, password_proof};
pub use bootstrap::BootstrapState;
pub(super) use bootstrap::{AnonymousAccess, By, Closed, Refusal};
pub use key::{ApiKey, IssuedKey, IssuedTicket, KeyId, NewKey, TicketId};
pub(super) use key::{
    PAGE_SECRET_PREFIX, SESSION_PREFIX, TICKET_PREFIX, check_bootstrap_key, is_key, is_page_secret, is_session,
    is_ticket, scope_name, scope_of,
};
pub use throttle::Network;
pub(super) use throttle::{LoginPolicy, Standing, evaluate};
