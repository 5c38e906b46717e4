//! Pairing: creating codes and exchanging a code for a device token.

use std::net::IpAddr;
use std::time::Duration;

use agentd_base::{Secret, Timestamp};
use agentd_core::auth::Network;
use agentd_store::{Recorder, StoreError, Tx};
use subtle::{Choice, ConstantTimeEq};

use super::Devices;
use crate::devices::error::DeviceError;
use crate::devices::model::{
    CODE_TTL, Device, DeviceId, FAILURE_WINDOW, MAX_DEVICES, MAX_FAILURES_PER_NETWORK, MAX_OPEN_CODES,
    MAX_WRONG_ATTEMPTS, NewDevice, PairingCodeId, TOKEN_PREFIX, code_from, code_hash, evaluate, find_free_slug,
};
use crate::devices::store;

/// A newly created pairing code. The plaintext code is not stored.
#[derive(Debug, Clone)]
pub struct IssuedCode {
    pub id: PairingCodeId,
    pub code: Secret,
    pub expires_at: Timestamp,
    pub expires_in: Duration,
}

/// A newly paired device. The plaintext token is not stored.
#[derive(Debug, Clone)]
pub struct Paired {
    pub device: Device,
    pub token: Secret,
}

/// The outcome of a pairing attempt. A failed attempt is stored, too, so it must not roll back the transaction.
enum PairingOutcome {
    Paired(Paired),
    Wrong,
    TooMany(Duration),
}

impl Devices {
    /// Creates a code that pairs one device within five minutes.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn create_code(&self, recorder: Recorder<IssuedCode>) -> Result<IssuedCode, DeviceError> {
        let context = self.context();
        let code = loop {
            if let Some(code) = code_from(u32::from_le_bytes(context.entropy.bytes())) {
                break code;
            }
        };
        let issued = IssuedCode {
            id: PairingCodeId::generate(&context.ids),
            code: Secret::new(code),
            expires_at: context.clock.now() + CODE_TTL,
            expires_in: CODE_TTL,
        };
        context
            .db
            .write(async move |tx: &mut Tx| {
                let hash = code_hash(&issued.id, issued.code.expose());
                store::insert_code(tx, &issued.id, &hash, issued.expires_at).await?;
                store::trim_codes(tx, MAX_OPEN_CODES).await?;
                recorder.record(tx, &issued).await?;
                Ok(issued.clone())
            })
            .await
    }

    /// Pairs a device. `address` is the address of the client, `None` on the daemon's private socket.
    ///
    /// # Errors
    /// `Invalid`, `WrongCode`, `TooManyTries`, `TooManyDevices`, or errors of the store.
    pub(crate) async fn pair(
        &self,
        address: Option<IpAddr>,
        code: Secret,
        new: NewDevice,
        recorder: Recorder<Paired>,
    ) -> Result<Paired, DeviceError> {
        new.check().into_result().map_err(DeviceError::Invalid)?;
        let context = self.context();
        let network = Network::from_address(address).to_string();
        let failure = context.ids.next_ulid();
        let candidate = Paired {
            device: Device {
                id: DeviceId::generate(&context.ids),
                name: new.name.trim().to_owned(),
                slug: String::new(),
                platform: new.platform.trim().to_owned(),
                metadata: new.metadata,
                created_at: context.clock.now(),
                last_seen_at: None,
            },
            token: context.entropy.secret(TOKEN_PREFIX),
        };
        let outcome = context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                let since = now - FAILURE_WINDOW;
                let failures = store::list_failures(tx, &network, since, MAX_FAILURES_PER_NETWORK).await?;
                if let Some(retry_after) = evaluate(&failures, now) {
                    return Ok(PairingOutcome::TooMany(retry_after));
                }
                if !redeem_code(tx, code.expose()).await? {
                    store::insert_failure(tx, &failure, &network).await?;
                    return Ok(PairingOutcome::Wrong);
                }
                let slugs = store::list_slugs(tx).await?;
                if slugs.len() >= MAX_DEVICES {
                    return Err(DeviceError::TooManyDevices { limit: MAX_DEVICES });
                }
                let mut paired = candidate.clone();
                paired.device.slug = find_free_slug(&paired.device.name, &slugs)
                    .ok_or(DeviceError::TooManyDevices { limit: MAX_DEVICES })?;
                store::insert_device(tx, &paired.device, &paired.token.sha256()).await?;
                recorder.record(tx, &paired).await?;
                Ok(PairingOutcome::Paired(paired))
            })
            .await?;
        match outcome {
            PairingOutcome::Paired(paired) => {
                tracing::info!(device = %paired.device.id, name = paired.device.name, "device paired");
                Ok(paired)
            }
            PairingOutcome::Wrong => Err(DeviceError::WrongCode),
            PairingOutcome::TooMany(retry_after) => Err(DeviceError::TooManyTries { retry_after }),
        }
    }
}

/// Deletes the matching code, or counts a wrong attempt against all open codes.
async fn redeem_code(tx: &mut Tx, code: &str) -> Result<bool, StoreError> {
    let open = store::list_open_codes(tx).await?;
    let mut used = false;
    // Every code is compared, so that the timing reveals nothing.
    let fits: Vec<Choice> = open.iter().map(|open| open.hash.ct_eq(&code_hash(&open.id, code))).collect();
    for (open, fits) in open.iter().zip(fits) {
        if bool::from(fits) {
            used |= store::delete_code(tx, &open.id).await?;
        }
    }
    if used {
        return Ok(true);
    }
    if open.iter().any(|open| open.wrong_tries + 1 >= MAX_WRONG_ATTEMPTS) {
        tracing::warn!("too many wrong pairing codes; voiding all open codes");
        store::trim_codes(tx, 0).await?;
    } else if !open.is_empty() {
        store::count_wrong_try(tx).await?;
    }
    Ok(false)
}
