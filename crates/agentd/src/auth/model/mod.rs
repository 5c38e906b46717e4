//! What credentials are, and the rules about them.

mod account;
mod bootstrap;
mod key;
mod throttle;

pub use account::{LoggedIn, User, UserId, UserSessionId, check_account};
pub use bootstrap::{BootstrapState, By, Closed, Doors, Refusal};
pub use key::{SESSION_PREFIX, ApiKey, IssuedKey, IssuedTicket, KeyId, NewKey, TicketId, check_bootstrap_key, is_key, is_session, scope_name, scope_of};
pub use throttle::{LoginPolicy, Network, Standing, judge};
