//! SQL of the domain. Hashes go in and out as 32 bytes; no plaintext reaches this module.

pub(super) mod accounts;
pub(super) mod bootstrap;
pub(super) mod failures;
pub(super) mod keys;
pub(super) mod sessions;
pub(super) mod tickets;

use agentd_base::Timestamp;
use agentd_store::{Read, StoreError, args};

/// SHA-256 hash of a key, token or ticket.
pub(super) type Hash = [u8; 32];

/// Whether any row can be purged. Checked first, so that an idle daemon writes nothing.
pub(super) async fn has_expired(
    read: &mut Read,
    failures_before: Timestamp,
    max_failures: u32,
) -> Result<bool, StoreError> {
    let now = read.clock().now();
    let row = read
        .fetch_one(
            "SELECT (SELECT COUNT(*) FROM (SELECT 1 AS one FROM user_sessions WHERE expires_at <= $1 LIMIT 1) AS s) \
             + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM auth_tickets WHERE expires_at <= $1 LIMIT 1) AS t) \
             + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM login_failures WHERE failed_at <= $2 LIMIT 1) AS f) \
             + (SELECT COUNT(*) FROM (SELECT 1 AS one FROM login_failures LIMIT 1 OFFSET $3) AS m) AS expired",
            args![now, failures_before, max_failures],
        )
        .await?;
    Ok(row.get::<i64>("expired")? > 0)
}
