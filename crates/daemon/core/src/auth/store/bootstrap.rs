//! Claims of the first account and the first key.

use agentd_store::{Read, StoreError, Tx, args};

use crate::auth::model::BootstrapState;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    FirstUser,
    FirstKey,
}

impl Claim {
    fn name(self) -> &'static str {
        match self {
            Self::FirstUser => "first_user",
            Self::FirstKey => "first_key",
        }
    }
}

pub(crate) async fn get_state(read: &mut Read) -> Result<BootstrapState, StoreError> {
    let rows = read.fetch_all("SELECT claim FROM bootstrap_claims", args![]).await?;
    let mut state = BootstrapState::FRESH;
    for row in rows {
        match row.get::<String>("claim")?.as_str() {
            "first_user" => state.needs_setup = false,
            _ => state.bootstrap_mode = false,
        }
    }
    Ok(state)
}

/// Inserts a claim for `claimed_by`; `false` if it was claimed before.
pub(crate) async fn insert_claim(tx: &mut Tx, claim: Claim, claimed_by: &str) -> Result<bool, StoreError> {
    let now = tx.clock().now();
    let inserted = tx
        .execute(
            "INSERT INTO bootstrap_claims (claim, claimed_by, claimed_at) VALUES ($1, $2, $3) \
             ON CONFLICT (claim) DO NOTHING",
            args![claim.name(), claimed_by, now],
        )
        .await?;
    Ok(inserted == 1)
}
