//! Pairing: a code for the owner, a token for the device.

use std::net::IpAddr;
use std::time::Duration;

use agentd_base::{Secret, Timestamp};
use agentd_core::auth::Network;
use agentd_store::{Recorder, StoreError, Tx};
use subtle::{Choice, ConstantTimeEq};

use super::Devices;
use crate::devices::error::DeviceError;
use crate::devices::model::{
    CODE_TTL, Device, DeviceId, FAILURE_WINDOW, MOST_DEVICES, MOST_FAILURES_OF_A_NETWORK, MOST_OPEN_CODES,
    MOST_WRONG_TRIES, NewDevice, PairingCodeId, TOKEN_PREFIX, code_from, code_hash, evaluate, free_slug,
};
use crate::devices::store;

/// A code that was just made: the only time that it is seen.
#[derive(Debug, Clone)]
pub struct IssuedCode {
    pub id: PairingCodeId,
    pub code: Secret,
    pub expires_at: Timestamp,
    pub expires_in: Duration,
}

/// A device that was just paired: the only time that its token is seen.
#[derive(Debug, Clone)]
pub struct Paired {
    pub device: Device,
    pub token: Secret,
}

/// What became of a code that was tried. A refusal is stored, too, so it is no error of the
/// transaction.
enum Tried {
    Paired(Paired),
    Wrong,
    TooMany(Duration),
}

impl Devices {
    /// Makes a code that pairs one device within five minutes.
    ///
    /// # Errors
    /// The store's refusal.
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
                store::trim_codes(tx, MOST_OPEN_CODES).await?;
                recorder.record(tx, &issued).await?;
                Ok(issued.clone())
            })
            .await
    }

    /// Pairs a device. `address` is the client's; `None` on the daemon's private socket.
    ///
    /// # Errors
    /// `Invalid`, `WrongCode`, `TooManyTries`, `TooManyDevices`, or the store's refusal.
    pub(crate) async fn pair(
        &self,
        address: Option<IpAddr>,
        code: Secret,
        new: NewDevice,
        recorder: Recorder<Paired>,
    ) -> Result<Paired, DeviceError> {
        new.check().into_result().map_err(DeviceError::Invalid)?;
        let context = self.context();
        let network = Network::of(address).to_string();
        let failure = context.ids.next_ulid();
        let fresh = Paired {
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
        let tried = context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                let since = now - FAILURE_WINDOW;
                let failures = store::list_failures(tx, &network, since, MOST_FAILURES_OF_A_NETWORK).await?;
                if let Some(retry_after) = evaluate(&failures, now) {
                    return Ok(Tried::TooMany(retry_after));
                }
                if !use_up(tx, code.expose()).await? {
                    store::insert_failure(tx, &failure, &network).await?;
                    return Ok(Tried::Wrong);
                }
                let slugs = store::list_slugs(tx).await?;
                if slugs.len() >= MOST_DEVICES {
                    return Err(DeviceError::TooManyDevices { limit: MOST_DEVICES });
                }
                let mut paired = fresh.clone();
                paired.device.slug = free_slug(&paired.device.name, &slugs)
                    .ok_or(DeviceError::TooManyDevices { limit: MOST_DEVICES })?;
                store::insert_device(tx, &paired.device, &paired.token.sha256()).await?;
                recorder.record(tx, &paired).await?;
                Ok(Tried::Paired(paired))
            })
            .await?;
        match tried {
            Tried::Paired(paired) => {
                tracing::info!(device = %paired.device.id, name = paired.device.name, "a device was paired");
                Ok(paired)
            }
            Tried::Wrong => Err(DeviceError::WrongCode),
            Tried::TooMany(retry_after) => Err(DeviceError::TooManyTries { retry_after }),
        }
    }
}

/// Uses up the code, or counts a wrong try against every open one.
async fn use_up(tx: &mut Tx, code: &str) -> Result<bool, StoreError> {
    let open = store::list_open_codes(tx).await?;
    let mut used = false;
    // Every code is looked at, whichever fits: the time says nothing.
    let fits: Vec<Choice> = open.iter().map(|open| open.hash.ct_eq(&code_hash(&open.id, code))).collect();
    for (open, fits) in open.iter().zip(fits) {
        if bool::from(fits) {
            used |= store::delete_code(tx, &open.id).await?;
        }
    }
    if used {
        return Ok(true);
    }
    if open.iter().any(|open| open.wrong_tries + 1 >= MOST_WRONG_TRIES) {
        tracing::warn!("too many wrong pairing codes: every open code is void");
        store::trim_codes(tx, 0).await?;
    } else if !open.is_empty() {
        store::count_wrong_try(tx).await?;
    }
    Ok(false)
}
