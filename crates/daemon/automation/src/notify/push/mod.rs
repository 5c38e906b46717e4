//! `push:`: Web Push notifications (RFC 8030) to registered devices, even if no page is open.
//!
//! A browser subscribes with the daemon's public key. It provides a URL at the push service of its vendor, and two
//! keys. Only that browser can decrypt the messages.
//!
//! Invariants
//! - Browsers supply the URLs, so only public hosts over HTTPS are permitted. Exceptions are hosts in
//!   `security.allowed_hosts`, and plain HTTP on the local machine.
//! - A message to all devices becomes one message per device, enqueued in one transaction with separate idempotency
//!   keys. Exactly one message is enqueued per device, even after a crash.
//! - A subscription that has expired at its push service is deleted. An obsolete message is not sent, and is withdrawn
//!   from the devices that show it.
//! - A push service that does not respond is suspended for a short time, so that it does not delay other messages.
//! - URLs and keys are stored in the vault, because they permit sending to the device and locating it.
//!
//! Out of scope: the reasons for a notification (`proactive` for approvals, `alerts` for alerts).

mod model;
mod request;
mod silent;
mod store;
mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_base::{DomainError, FieldProblem, Problems, Secret, Timestamp};
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_net::{GuardedClient, Trust};
use agentd_store::{Read, Recorder, StoreError, Tx};
use agentd_web_push::{Receiver, VapidKey};
use futures_util::future::BoxFuture;
use url::Url;

use model::{Keys, MAX_DEVICES, MAX_ENDPOINT, display_agent, endpoint_fault};
pub use model::{NewSubscription, PushDetails, PushSubscription, PushSubscriptionId};
use silent::SilentServices;

use super::error::NotifyError;

/// Vault scope of the daemon's VAPID key.
const KEY_SCOPE: &str = "push";
const KEY_NAME: &str = "vapid_key";
const KEYS_LOST: &str = "the keys of the device are missing; disable and enable push notifications on the device";
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Vault name of a subscription within the scope of its device.
const KEYS: &str = "subscription";

/// Checks whether the subject of a push message is still pending.
pub trait PendingCheck: Send + Sync {
    /// Whether the request identified by [`PushDetails::about`] still waits for the owner.
    fn is_pending<'a>(&'a self, about: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;
}

struct Inner {
    context: AppContext,
    settings: Settings,
    client: GuardedClient,
    base_url: String,
    time_limit: Duration,
    silent: SilentServices,
    pending_check: OnceLock<Arc<dyn PendingCheck>>,
}

/// Service of push devices. Cheap to clone.
#[derive(Clone)]
pub struct Push(Arc<Inner>);

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push").finish_non_exhaustive()
    }
}

/// A device with its URL and keys.
struct Device {
    id: PushSubscriptionId,
    endpoint: Url,
    receiver: Receiver,
}

impl Push {
    /// Creates the service. `time_limit` lowers the default timeout of push requests.
    pub(super) fn new(context: &AppContext, settings: Settings, base_url: String, time_limit: Duration) -> Self {
        let client = GuardedClient::new(settings.policy(), Trust::Untrusted);
        let (context, silent, pending_check) = (context.clone(), SilentServices::default(), OnceLock::new());
        let time_limit = time_limit.min(MAX_REQUEST_TIMEOUT);
        Self(Arc::new(Inner { context, settings, client, base_url, time_limit, silent, pending_check }))
    }

    /// Sets the check for pending requests. Called during composition.
    pub fn set_pending_check(&self, pending_check: Arc<dyn PendingCheck>) {
        let _ = self.0.pending_check.set(pending_check);
    }

    /// Whether any device is registered.
    ///
    /// # Errors
    /// A store error.
    pub async fn has_devices(&self, read: &mut Read) -> Result<bool, StoreError> {
        Ok(store::count(read).await? > 0)
    }

    /// Returns the VAPID key of the daemon, generated on first use.
    async fn key(&self) -> Result<VapidKey, NotifyError> {
        let vault = self.0.settings.vault().clone();
        let kept = match vault.get(KEY_SCOPE, KEY_NAME).await? {
            Some(kept) => kept,
            None => {
                let new = VapidKey::generate(&self.0.context.entropy)?;
                let keep = async move |tx: &mut Tx| match vault.get_in(tx, KEY_SCOPE, KEY_NAME).await? {
                    Some(kept) => Ok(kept),
                    None => {
                        vault.put(tx, KEY_SCOPE, KEY_NAME, &new).await?;
                        Ok::<_, NotifyError>(new.clone())
                    }
                };
                self.0.context.db.write(keep).await?
            }
        };
        Ok(VapidKey::open(&kept)?)
    }

    /// Returns the public key that browsers subscribe with.
    ///
    /// # Errors
    /// The key cannot be decrypted, or a store error.
    pub async fn public_key(&self) -> Result<String, NotifyError> {
        Ok(self.key().await?.public_key())
    }

    /// Returns all devices, newest first.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<PushSubscription>, NotifyError> {
        Ok(store::list(&mut self.0.context.db.read().await?).await?)
    }

    /// Validates a new subscription and returns its URL and keys.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields.
    fn checked(&self, new: &NewSubscription) -> Result<(Url, Keys), NotifyError> {
        let mut problems = Problems::new();
        let url = Url::parse(new.endpoint.expose()).ok().filter(|_| new.endpoint.expose().len() <= MAX_ENDPOINT);
        let fault = match &url {
            None => Some("must be a URL of at most 2048 characters".to_owned()),
            Some(url) => endpoint_fault(url)
                .map(str::to_owned)
                .or_else(|| self.0.client.check_url(url).err().map(|refusal| refusal.to_string())),
        };
        if let Some(fault) = fault {
            problems.add("endpoint", fault);
        }
        let (p256dh, auth) = (new.p256dh.clone(), new.auth.expose().to_owned());
        if let Err((public_key, auth)) = Receiver::parse(&p256dh, &auth, &self.0.context.entropy) {
            for (field, fault) in [("keys.p256dh", public_key), ("keys.auth", auth)] {
                if let Some(fault) = fault {
                    problems.add(field, fault.to_string());
                }
            }
        }
        problems.into_result().map_err(NotifyError::Invalid)?;
        let endpoint = new.endpoint.expose().to_owned();
        let url = url.ok_or_else(|| NotifyError::Invalid(Vec::<FieldProblem>::new()))?;
        Ok((url, Keys { endpoint, p256dh, auth }))
    }

    /// Registers a device. A device with a known address gets the new keys.
    ///
    /// # Errors
    /// `Invalid` with every invalid field, `TooManyDevices`, or a store error.
    pub async fn subscribe(
        &self,
        new: NewSubscription,
        recorder: Recorder<PushSubscription>,
    ) -> Result<PushSubscription, NotifyError> {
        let (url, keys) = self.checked(&new)?;
        let sealed = Secret::new(serde_json::to_string(&keys).unwrap_or_default());
        let vault = self.0.settings.vault().clone();
        let subscription = PushSubscription {
            id: PushSubscriptionId::generate(&self.0.context.ids),
            endpoint_sha256: keys.endpoint_sha256(),
            service: url.origin().ascii_serialization(),
            user_agent: display_agent(&new.user_agent),
            created_at: self.0.context.clock.now(),
            last_success_at: None,
            last_failure_at: None,
            last_error: None,
        };
        let keep = async move |tx: &mut Tx| {
            let known = store::find_by_endpoint(tx, &subscription.endpoint_sha256).await?;
            if known.is_none() && store::count(tx).await? >= MAX_DEVICES {
                return Err(NotifyError::TooManyDevices { most: MAX_DEVICES });
            }
            let id = known.map_or_else(|| subscription.id.clone(), |known| known.id);
            let subscription = PushSubscription { id, ..subscription.clone() };
            store::upsert(tx, &subscription).await?;
            vault.put(tx, &store::secret_scope(&subscription.id), KEYS, &sealed).await?;
            recorder.record(tx, &subscription).await?;
            Ok(subscription)
        };
        self.0.context.db.write(keep).await
    }

    /// Removes a device.
    ///
    /// # Errors
    /// `DeviceNotFound`, or a store error.
    pub async fn remove(&self, id: &PushSubscriptionId) -> Result<(), NotifyError> {
        let id = id.clone();
        let removed = self.0.context.db.write(async move |tx: &mut Tx| store::delete(tx, &id).await).await?;
        if removed { Ok(()) } else { Err(NotifyError::DeviceNotFound) }
    }

    /// Loads a device with its URL and keys.
    ///
    /// # Errors
    /// `DeviceNotFound`, or `NotPushed` if its keys are missing, as after a restore without secrets.
    async fn device(&self, id: &PushSubscriptionId) -> Result<Device, NotifyError> {
        let mut read = self.0.context.db.read_snapshot().await?;
        if !store::contains(&mut read, id).await? {
            return Err(NotifyError::DeviceNotFound);
        }
        let vault = self.0.settings.vault();
        let kept = vault.get_in(&mut read, &store::secret_scope(id), KEYS).await?;
        let keys = kept.and_then(|kept| serde_json::from_str::<Keys>(kept.expose()).ok());
        let device = keys.and_then(|keys| {
            let endpoint = Url::parse(&keys.endpoint).ok()?;
            let receiver = Receiver::parse(&keys.p256dh, &keys.auth, &self.0.context.entropy).ok()?;
            Some(Device { id: id.clone(), endpoint, receiver })
        });
        device.ok_or_else(|| NotifyError::NotPushed(KEYS_LOST.to_owned()))
    }

    fn now(&self) -> Timestamp {
        self.0.context.clock.now()
    }

    /// Returns the contact address for push services (RFC 8292).
    fn contact(&self) -> String {
        let email = self.0.settings.profile().email.clone();
        match (email.is_empty(), self.0.base_url.starts_with("https://")) {
            (false, _) => format!("mailto:{email}"),
            (true, true) => self.0.base_url.clone(),
            (true, false) => "mailto:agentd@localhost".to_owned(),
        }
    }

    fn unreadable(error: &NotifyError) -> String {
        format!("failed to load the device ({}): {error}", error.code())
    }
}
