//! Providers: setting them up, choosing a model, and counting what it used.

mod budget;
mod key;
mod prices;
mod resolve;
mod setup;
mod tracked;
mod usage;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use agentd_base::Clock;
use agentd_base::id::IdGenerator;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Recorder};
use agentd_core::settings::Settings;
use agentd_core::vault::{Vault, VaultError};
use agentd_llm::{ModelError, Vendor, VendorBackend};
use agentd_net::{GuardedClient, Trust};
use agentd_store::{Db, Read, Snapshot, Tx};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::error::ProviderError;
use super::local::LocalOptions;
use super::model::{LOCAL, Outcome, PriceTable, known_ids};
use super::store;
pub use budget::{PlannedCall, Reservation};
pub use key::PreparedProvider;

/// The vault's scope for keys.
const KEYS: &str = "providers";

/// A vendor that was set up, with what its calls are made of.
struct Configured {
    vendor: Vendor,
    has_key: bool,
    default_model: String,
    /// Why it cannot be called although it was set up: its key does not open.
    backend: Result<Arc<VendorBackend>, String>,
}

struct Inner {
    db: Db,
    clock: Clock,
    recorder: Recorder,
    ids: IdGenerator,
    settings: Settings,
    vault: Vault,
    local: LocalOptions,
    client: GuardedClient,
    /// What ships with the daemon, and the file before it.
    prices: PriceTable,
    /// With what was set over HTTP before both.
    price_table: Snapshot<PriceTable>,
    /// Names under which this process has set tokens aside. At most one a turn.
    reservations: Mutex<BTreeSet<String>>,
    /// Held by who is next when others give tokens back.
    waiting: tokio::sync::Mutex<()>,
    draining: CancellationToken,
    /// In the documented order.
    configured: Snapshot<Vec<Configured>>,
    /// What the last call of each provider said, as far as this process made it. At most nine.
    outcomes: Mutex<HashMap<&'static str, Outcome>>,
}

/// The providers. Cheap to clone.
#[derive(Clone)]
pub struct Providers(Arc<Inner>);

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Providers")
    }
}

/// The id as the program writes it.
fn canonical(id: &str) -> Result<&'static str, ProviderError> {
    if id == LOCAL {
        return Ok(LOCAL);
    }
    let unknown = || ProviderError::Unknown { id: id.chars().take(64).collect(), known: known_ids() };
    Vendor::from_id(id).map(Vendor::id).ok_or_else(unknown)
}

impl Providers {
    /// Costs nothing until the first call.
    pub fn new(context: &AppContext, settings: Settings, local: LocalOptions, prices: PriceTable) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            db: context.db.clone(),
            clock: context.clock.clone(),
            recorder: context.recorder.clone(),
            ids: context.ids.clone(),
            vault: settings.vault().clone(),
            client: GuardedClient::new(settings.policy(), Trust::Owner),
            configured: Snapshot::new(&context.db, &[store::PROVIDERS]),
            price_table: Snapshot::new(&context.db, &[store::prices::PRICES]),
            reservations: Mutex::default(),
            waiting: tokio::sync::Mutex::default(),
            draining: context.draining.clone(),
            outcomes: Mutex::default(),
            settings,
            local,
            prices,
        })))
    }

    /// Ends the process of the model inside.
    pub async fn shut_down(&self) {
        self.0.local.model.shutdown().await;
    }

    /// Notes what a call said of its provider. Only a change is written. Backends of
    /// [`Self::resolve`] do so by themselves.
    pub async fn report_outcome(&self, provider: &str, result: Result<(), &ModelError>) {
        self.report_outcome_of(provider, None, result).await;
    }

    /// As [`Self::report_outcome`]; of the model inside, which file was asked.
    async fn report_outcome_of(&self, provider: &str, file: Option<String>, result: Result<(), &ModelError>) {
        let now = self.0.clock.now();
        let outcome = match result {
            Ok(()) => Some(Outcome::good(now)),
            Err(error) => Outcome::of_call(error, now),
        };
        if let (Ok(id), Some(outcome)) = (canonical(provider), outcome) {
            self.note(id, outcome.of_file(file)).await;
        }
    }

    async fn note(&self, id: &'static str, outcome: Outcome) {
        let before = self.0.outcomes.lock().insert(id, outcome.clone());
        let is_same = before.is_some_and(|before| before.status == outcome.status && before.message == outcome.message);
        if is_same || id == LOCAL {
            return;
        }
        let written =
            self.0.db.write_relaxed(async move |tx: &mut Tx| store::update_outcome(tx, id, &outcome).await).await;
        if let Err(error) = written {
            tracing::warn!(provider = id, %error, "the state of a provider could not be written");
        }
    }

    async fn configured(&self) -> Result<Arc<Vec<Configured>>, ProviderError> {
        let (vault, client) = (self.0.vault.clone(), self.0.client.clone());
        self.0.configured.get(async move |read: &mut Read| load(&vault, &client, read).await).await
    }
}

async fn load(vault: &Vault, client: &GuardedClient, read: &mut Read) -> Result<Vec<Configured>, ProviderError> {
    let rows = store::list_providers(read).await?;
    let mut configured = Vec::new();
    for vendor in Vendor::ALL {
        let Some(row) = rows.iter().find(|row| row.id == vendor.id()) else { continue };
        let base_url = row.base_url.as_deref().and_then(|url| Url::parse(url).ok());
        let (has_key, key) = match vault.get_in(read, KEYS, vendor.id()).await {
            Ok(key) => (key.is_some(), Ok(key)),
            // One key that does not open must not take the others down.
            Err(error @ VaultError::Unsealable { .. }) => (true, Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        if !has_key && base_url.is_none() {
            // A backup without its secrets was restored.
            continue;
        }
        configured.push(Configured {
            vendor,
            has_key,
            default_model: row.default_model.clone().unwrap_or_else(|| vendor.default_model().to_owned()),
            backend: key.map(|key| Arc::new(VendorBackend::new(vendor, client.clone(), base_url, key))),
        });
    }
    Ok(configured)
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
