//! Authentication and authorization: the account, API keys, sessions, tickets, and anonymous access until the first key
//! exists.
//!
//! Invariants
//! - Keys, session tokens, page secrets and tickets are stored only as SHA-256 hashes, passwords only as argon2id
//!   hashes.
//! - The first account and the first key are each claimed by one row: of concurrent requests on any replica, exactly
//!   one succeeds, and a claim is never released.
//! - A credential that was revoked, rotated or logged out is rejected by every later request, on every replica.
//! - A page session needs its cookie and its page secret; neither alone is a credential, and its token is never a
//!   Bearer token. Other sessions are never valid as a cookie.
//! - A page session can create keys, handle backups with secrets and change safety settings only within ten minutes
//!   after the password was confirmed (`web::PasswordProof`). The login itself does not count.
//! - No request is trusted because of its source address.
//!
//! | state | register | first key | setup | everything else |
//! |---|---|---|---|---|
//! | no account, no key | anyone* | anyone* | anyone* | 401 with the next step |
//! | account, no key | 409 | anyone* | anyone* | 401 with the next step |
//! | no account, a key was created | full credential | full credential | full credential | credential |
//! | account, a key was created | 409 | full credential | full credential | credential |
//!
//! \* unless anonymous access is closed: by `SVC_API_KEY_REQUIRED`, 15 minutes after the start if the daemon listens on
//! a non-loopback address, or for a page of another origin. The private socket always has access.
//!
//! There is no password reset by email and there are no roles. Devices have their own tokens.

mod error;
mod model;
mod routes;
mod service;
mod store;
mod worker;

use crate::parts::{Domain, DomainParts};
use crate::runtime::{Family, MetricList, PurgeWorker, Sample};
use routes::routes;
use worker::CredentialUseWriter;

pub use error::AuthError;
pub use model::Network;
pub use model::{
    ApiKey, BootstrapState, IssuedKey, IssuedTicket, KeyId, LoggedIn, LoginOrigin, NewKey, TicketId, User, UserAgent,
    UserId, UserSession, UserSessionId,
};
pub use routes::{CreatedKey, RegisterRequest, RegisteredUser, SessionDelivery, SetCookies};
pub use service::{Auth, AuthOptions, CREDENTIALS};

impl Domain for Auth {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(CredentialUseWriter(self.clone())), Box::new(PurgeWorker(self.clone()))],
            metrics: self.metrics(),
            bindings: Vec::new(),
            shutdown: Vec::new(),
        }
    }
}

impl Auth {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_active_sessions", "Active login sessions.");
        metrics.read(family, self, async |auth| Ok(Sample::one(u64::try_from(auth.active_sessions().await?)?)));
        metrics
    }
}
