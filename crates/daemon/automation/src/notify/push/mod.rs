//! `push:`: devices that are woken by Web Push (RFC 8030), also where no page is open.
//!
//! A browser subscribes with the daemon's public key, and gives an address at the push service of whoever made it, and
//! two keys of its own. What is sent there only that browser can read.
//!
//! Invariants
//! - Addresses come from browsers, so they lead to public hosts over https; to others only where
//!   `security.allowed_hosts` names them, and without https only on this machine.
//! - A message to all is a message to each, enqueued in one transaction under keys of their own: each device has one
//!   of it, whoever is killed where.
//! - What a push service has forgotten is forgotten here. What nobody waits for any more is not sent, and taken away
//!   from the devices that show it.
//! - A push service that does not answer is left alone for a while, so that no other message waits for it.
//! - Addresses and keys lie in the vault: who knows them can send to the device, or be told where it is.
//!
//! Deliberately absent: what is worth waking somebody for (`proactive` for approvals, `alerts` for alerts).

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

use model::{Keys, MAX_ENDPOINT, MOST_DEVICES, endpoint_fault, shown_agent};
pub use model::{NewSubscription, PushDetails, PushSubscription, PushSubscriptionId};
use silent::SilentServices;

use super::error::NotifyError;

/// Of the daemon's own key.
const KEY_SCOPE: &str = "push";
const KEY_NAME: &str = "vapid_key";
const KEYS_LOST: &str = "the keys of the device are lost; switch it off and on again on it";
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// The name of a subscription in the scope of its device.
const KEYS: &str = "subscription";

/// Knows whether what a push message is about still waits for the owner.
pub trait StillWaits: Send + Sync {
    /// `about` is [`PushDetails::about`].
    fn still_waits<'a>(&'a self, about: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;
}

struct Inner {
    context: AppContext,
    settings: Settings,
    client: GuardedClient,
    base_url: String,
    time_limit: Duration,
    silent: SilentServices,
    waiting: OnceLock<Arc<dyn StillWaits>>,
}

/// The devices that are woken. Cheap to clone.
#[derive(Clone)]
pub struct Push(Arc<Inner>);

impl std::fmt::Debug for Push {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Push").finish_non_exhaustive()
    }
}

/// A device as messages are sent to it.
struct Device {
    id: PushSubscriptionId,
    endpoint: Url,
    receiver: Receiver,
}

impl Push {
    /// `time_limit`: how long a push service may take to answer, where that is less than usual.
    pub(super) fn new(context: &AppContext, settings: Settings, base_url: String, time_limit: Duration) -> Self {
        let client = GuardedClient::new(settings.policy(), Trust::Steered);
        let (context, silent, waiting) = (context.clone(), SilentServices::default(), OnceLock::new());
        let time_limit = time_limit.min(TIME_LIMIT);
        Self(Arc::new(Inner { context, settings, client, base_url, time_limit, silent, waiting }))
    }

    /// Sets who knows what still waits. Called while the daemon is composed.
    pub fn set_waiting(&self, waiting: Arc<dyn StillWaits>) {
        let _ = self.0.waiting.set(waiting);
    }

    /// Whether there is a device to wake.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn has_devices(&self, read: &mut Read) -> Result<bool, StoreError> {
        Ok(store::count(read).await? > 0)
    }

    /// The key that this daemon signs with, made when it is first asked for.
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

    /// What browsers subscribe with.
    ///
    /// # Errors
    /// It cannot be opened, or the database is away.
    pub async fn public_key(&self) -> Result<String, NotifyError> {
        Ok(self.key().await?.public_key())
    }

    /// The newest first.
    ///
    /// # Errors
    /// What the database refuses.
    pub async fn list(&self) -> Result<Vec<PushSubscription>, NotifyError> {
        Ok(store::list(&mut self.0.context.db.read().await?).await?)
    }

    /// What is wrong with a new subscription, everything at once; or its keys.
    fn checked(&self, new: &NewSubscription) -> Result<(Url, Keys), NotifyError> {
        let mut problems = Problems::new();
        let url = Url::parse(new.endpoint.expose()).ok().filter(|_| new.endpoint.expose().len() <= MAX_ENDPOINT);
        let fault = match &url {
            None => Some("must be a url of at most 2048 characters".to_owned()),
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

    /// Wakes a device from now on. One that is known by its address gets the new keys.
    ///
    /// # Errors
    /// `Invalid` with every bad field, `TooManyDevices`, or what the database refuses.
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
            user_agent: shown_agent(&new.user_agent),
            created_at: self.0.context.clock.now(),
            last_success_at: None,
            last_failure_at: None,
            last_error: None,
        };
        let keep = async move |tx: &mut Tx| {
            let known = store::find_by_endpoint(tx, &subscription.endpoint_sha256).await?;
            if known.is_none() && store::count(tx).await? >= MOST_DEVICES {
                return Err(NotifyError::TooManyDevices { most: MOST_DEVICES });
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

    /// Wakes a device no more.
    ///
    /// # Errors
    /// `DeviceNotFound`, or what the database refuses.
    pub async fn remove(&self, id: &PushSubscriptionId) -> Result<(), NotifyError> {
        let id = id.clone();
        let removed = self.0.context.db.write(async move |tx: &mut Tx| store::delete(tx, &id).await).await?;
        if removed { Ok(()) } else { Err(NotifyError::DeviceNotFound) }
    }

    /// A device with its address and keys.
    ///
    /// # Errors
    /// `DeviceNotFound`; `NotPushed` where its keys are lost, as after a restore without secrets.
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

    /// Whom a push service may write to about this daemon.
    fn contact(&self) -> String {
        let email = self.0.settings.profile().email.clone();
        match (email.is_empty(), self.0.base_url.starts_with("https://")) {
            (false, _) => format!("mailto:{email}"),
            (true, true) => self.0.base_url.clone(),
            (true, false) => "mailto:agentd@localhost".to_owned(),
        }
    }

    fn unreadable(error: &NotifyError) -> String {
        format!("the device cannot be read ({}): {error}", error.code())
    }
}
