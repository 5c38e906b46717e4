//! Tickets for connections that a browser opens without custom headers.

use std::time::Duration;

use agentd_store::{Recorder, Tx};
use agentd_web::{Caller, CallerKind};

use super::Auth;
use crate::auth::error::AuthError;
use crate::auth::model::{IssuedTicket, TICKET_PREFIX, TicketId};
use crate::auth::store;

const TICKET_TTL: Duration = Duration::from_secs(30);
const MAX_TICKETS: i64 = 100;

impl Auth {
    /// Creates a ticket that represents the caller's credential for one connection. It expires after 30 seconds, or
    /// with the credential if that is sooner.
    ///
    /// # Errors
    /// `TooManyTickets`, `CredentialGone`, or `Store`.
    pub async fn create_ticket(
        &self,
        caller: Caller,
        recorder: Recorder<IssuedTicket>,
    ) -> Result<IssuedTicket, AuthError> {
        let context = &self.0.context;
        let issued = IssuedTicket {
            id: TicketId::generate(&context.ids),
            ticket: context.entropy.secret(TICKET_PREFIX),
            expires_in_seconds: TICKET_TTL.as_secs(),
        };
        context
            .db
            .write_relaxed(async move |tx: &mut Tx| {
                if !store::tickets::is_credential_valid(tx, &caller).await? {
                    return Err(AuthError::CredentialGone);
                }
                if store::tickets::count_tickets(tx, &caller.credential_id).await? >= MAX_TICKETS {
                    return Err(AuthError::TooManyTickets { limit: MAX_TICKETS, retry_after: TICKET_TTL });
                }
                let mut expires_at = tx.clock().now() + TICKET_TTL;
                if caller.kind == CallerKind::Session
                    && let Some(session_ends_at) = store::sessions::find_expiry(tx, &caller.credential_id).await?
                {
                    expires_at = expires_at.min(session_ends_at);
                }
                store::tickets::insert_ticket(tx, &issued.id, &issued.ticket.sha256(), &caller, expires_at).await?;
                recorder.record(tx, &issued).await?;
                Ok(issued.clone())
            })
            .await
    }
}
