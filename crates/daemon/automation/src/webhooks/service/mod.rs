//! Management of webhooks.

mod deliveries;
mod receive;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{FieldProblem, Patch, Secret, SecretUpdate, Timestamp};
use agentd_core::parts::Detached;
use agentd_core::rate_limit::{OutcomeCounts, RateLimiter};
use agentd_core::runtime::{AppContext, WorkQueue};
use agentd_core::vault::{Vault, VaultError};
use agentd_engine::agents::{AgentId, Agents};
use agentd_engine::engine::Engine;
use agentd_store::{Read, Recorder, Snapshot, Tx};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::WebhookError;
use super::model::{LIMITS, MAX_WEBHOOKS, QUEUE, Webhook, WebhookChange, WebhookId, new_secret, secret_problem};
use super::store;

pub use receive::ReceivedRequest;

/// Maximum number of deliveries that one daemon holds while they wait for a permit. Further deliveries are left for
/// other daemons, or for later.
const MAX_HELD_DELIVERIES: usize = 128;
/// Vault scope of the secrets, which are named by the id of their webhook.
const VAULT_SCOPE: &str = "webhooks";

/// A newly created webhook with its secret, which is not shown again.
#[derive(Debug, Clone)]
pub struct CreatedWebhook {
    pub webhook: Webhook,
    pub secret: Secret,
}

/// A cached webhook with its secret.
#[derive(Debug, Clone)]
pub(super) struct CachedWebhook {
    pub(super) webhook: Webhook,
    pub(super) secret: Option<Secret>,
}

/// Cache of all webhooks, oldest first.
#[derive(Debug)]
pub(super) struct WebhookCache {
    list: Vec<Arc<CachedWebhook>>,
    by_id: HashMap<WebhookId, usize>,
}

impl WebhookCache {
    fn find(&self, id: &WebhookId) -> Option<&Arc<CachedWebhook>> {
        self.by_id.get(id).and_then(|at| self.list.get(*at))
    }
}

struct Inner {
    context: AppContext,
    vault: Vault,
    agents: Agents,
    engine: Engine,
    base_url: String,
    known: Snapshot<WebhookCache>,
    admission: RateLimiter<WebhookId>,
    counts: OutcomeCounts,
    /// Deliveries whose turns this daemon is starting.
    queue: WorkQueue,
    /// Webhooks with new deliveries since the last check of their limits. `None` before the first check.
    to_trim: Mutex<Option<BTreeSet<WebhookId>>>,
    purge_wake: Arc<Notify>,
}

/// Inbound webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks(Arc<Inner>);

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").field("queue", &self.0.queue).finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Creates the service. `base_url` is the public URL of the daemon without a trailing slash.
    pub fn new(context: &AppContext, vault: Vault, agents: Agents, engine: Engine, base_url: String) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            context: context.clone(),
            vault,
            agents,
            engine,
            base_url,
            known: Snapshot::new(&context.db, &[store::WEBHOOKS]),
            admission: RateLimiter::new(LIMITS),
            counts: OutcomeCounts::default(),
            queue: WorkQueue::new(context, QUEUE, MAX_HELD_DELIVERIES),
            to_trim: Mutex::default(),
            purge_wake: Arc::default(),
        })))
    }

    /// Returns the URL that receives the requests of a webhook.
    #[must_use]
    pub fn url(&self, id: &WebhookId) -> String {
        format!("{}/api/webhooks/{id}/receive", self.0.base_url)
    }

    /// Returns the number of requests since the daemon started, by outcome.
    #[must_use]
    pub fn request_counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.read()
    }

    /// Waits up to `timeout` until no delivery waits for a permit. A drain releases waiting deliveries for other
    /// daemons, or for the next start.
    pub async fn drain(&self, timeout: Duration) {
        self.0.queue.drain(timeout).await;
    }

    /// Returns the number of turns waiting to start.
    ///
    /// # Errors
    /// A store error.
    pub async fn waiting_turns(&self) -> Result<u64, WebhookError> {
        let stats = self.0.context.db.read().await?.queue_stats(QUEUE).await?;
        Ok(stats.pending + stats.leased)
    }

    /// Creates a webhook. A secret is generated if none is given.
    ///
    /// # Errors
    /// `Invalid` with every invalid field, an unknown agent, `TooMany`, or a store error.
    pub async fn create(
        &self,
        wanted: WebhookChange,
        recorder: Recorder<CreatedWebhook>,
    ) -> Result<CreatedWebhook, WebhookError> {
        let context = &self.0.context;
        let now = context.clock.now();
        let agent = self.resolve(&wanted.agent).await?;
        let blank = Webhook {
            id: WebhookId::generate(&context.ids),
            name: String::new(),
            agent_id: None,
            prompt_template: None,
            tools: Vec::new(),
            enabled: true,
            disabled_reason: None,
            created_at: now,
            updated_at: now,
        };
        let webhook = checked(&blank, &wanted, &agent, now)?;
        let secret = match wanted.secret {
            Patch::Set(SecretUpdate::New(secret)) => secret,
            _ => new_secret(context.entropy.bytes()),
        };
        let (here, created) = (self.clone(), CreatedWebhook { webhook, secret });
        context
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_webhooks(tx).await? >= MAX_WEBHOOKS {
                    return Err(WebhookError::TooMany);
                }
                here.require_existing_agent(tx, &agent).await?;
                store::insert_webhook(tx, &created.webhook).await?;
                here.0.vault.put(tx, VAULT_SCOPE, created.webhook.id.as_str(), &created.secret).await?;
                recorder.record(tx, &created).await?;
                Ok(created.clone())
            })
            .await
    }

    /// Changes a webhook. Returns it, and whether it has a secret.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every invalid field, an unknown agent, or a store error.
    pub async fn update(&self, id: &WebhookId, change: WebhookChange) -> Result<(Webhook, bool), WebhookError> {
        let agent = self.resolve(&change.agent).await?;
        let (here, id) = (self.clone(), id.clone());
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_webhook(tx, &id).await?;
                let before = found.ok_or_else(|| WebhookError::not_found(id.as_str()))?;
                let webhook = checked(&before, &change, &agent, tx.clock().now())?;
                here.require_existing_agent(tx, &agent).await?;
                store::update_webhook(tx, &webhook).await?;
                let vault = &here.0.vault;
                match &change.secret {
                    Patch::Keep | Patch::Set(SecretUpdate::Shown(_)) => {}
                    Patch::Clear => vault.clear(tx, VAULT_SCOPE, id.as_str()).await?,
                    Patch::Set(SecretUpdate::New(secret)) => vault.put(tx, VAULT_SCOPE, id.as_str(), secret).await?,
                }
                let has_secret = vault.contains(tx, VAULT_SCOPE, id.as_str()).await?;
                Ok((webhook, has_secret))
            })
            .await
    }

    /// Returns all webhooks, oldest first, and whether each has a secret.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self) -> Result<Vec<(Webhook, bool)>, WebhookError> {
        let known = self.known().await?;
        Ok(known.list.iter().map(|known| (known.webhook.clone(), known.secret.is_some())).collect())
    }

    /// Returns a webhook, and whether it has a secret.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &WebhookId) -> Result<(Webhook, bool), WebhookError> {
        let known = self.find_cached(id).await?;
        Ok((known.webhook.clone(), known.secret.is_some()))
    }

    /// Deletes a webhook with its deliveries. Pending turns do not start.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn delete(&self, id: &WebhookId) -> Result<(), WebhookError> {
        let (here, deleted) = (self.clone(), id.clone());
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                if !store::mark_webhook_deleted(tx, &deleted, now).await? {
                    return Err(WebhookError::not_found(deleted.as_str()));
                }
                here.0.vault.clear(tx, VAULT_SCOPE, deleted.as_str()).await?;
                Ok(())
            })
            .await?;
        self.0.admission.forget(id);
        self.0.purge_wake.notify_one();
        Ok(())
    }

    /// Resolves the agent named by a change.
    async fn resolve(&self, agent: &Patch<String>) -> Result<Patch<AgentId>, WebhookError> {
        Ok(match agent {
            Patch::Keep => Patch::Keep,
            Patch::Clear => Patch::Clear,
            Patch::Set(name) => Patch::Set(self.0.agents.get(name).await?.id.clone()),
        })
    }

    async fn require_existing_agent(&self, tx: &mut Tx, agent: &Patch<AgentId>) -> Result<(), WebhookError> {
        let Patch::Set(id) = agent else { return Ok(()) };
        if self.0.agents.is_alive(tx, id).await? {
            return Ok(());
        }
        Err(agentd_engine::agents::AgentError::NotFound { name: id.to_string() }.into())
    }

    async fn known(&self) -> Result<Arc<WebhookCache>, WebhookError> {
        let vault = self.0.vault.clone();
        self.0.known.get(async move |read: &mut Read| load(&vault, read).await).await
    }

    pub(super) async fn find_cached(&self, id: &WebhookId) -> Result<Arc<CachedWebhook>, WebhookError> {
        let known = self.known().await?;
        known.find(id).cloned().ok_or_else(|| WebhookError::not_found(id.as_str()))
    }

    /// Takes the webhooks whose limits must be checked.
    pub(super) async fn take_webhooks_to_trim(&self) -> Result<BTreeSet<WebhookId>, WebhookError> {
        if let Some(to_trim) = self.0.to_trim.lock().as_mut() {
            return Ok(std::mem::take(to_trim));
        }
        // The first call since the start returns all webhooks.
        let all = self.known().await?.by_id.keys().cloned().collect();
        *self.0.to_trim.lock() = Some(BTreeSet::new());
        Ok(all)
    }

    pub(super) fn mark_for_trimming(&self, webhook: &WebhookId) {
        if let Some(to_trim) = self.0.to_trim.lock().as_mut()
            && to_trim.len() < 2 * MAX_WEBHOOKS
        {
            to_trim.insert(webhook.clone());
        }
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn agents(&self) -> &Agents {
        &self.0.agents
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn queue(&self) -> &WorkQueue {
        &self.0.queue
    }

    pub(super) fn purge_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.purge_wake)
    }
}

async fn load(vault: &Vault, read: &mut Read) -> Result<WebhookCache, WebhookError> {
    let mut list = Vec::new();
    for webhook in store::list_webhooks(read).await? {
        let secret = match vault.get_in(read, VAULT_SCOPE, webhook.id.as_str()).await {
            Ok(secret) => secret,
            // One secret that cannot be decrypted must not prevent the other webhooks from loading.
            Err(error @ VaultError::Unsealable { .. }) => {
                tracing::warn!(webhook = %webhook.id, %error, "failed to decrypt webhook secret; requests are rejected");
                None
            }
            Err(error) => return Err(error.into()),
        };
        list.push(Arc::new(CachedWebhook { webhook, secret }));
    }
    let by_id = list.iter().enumerate().map(|(at, known)| (known.webhook.id.clone(), at)).collect();
    Ok(WebhookCache { list, by_id })
}

impl Webhooks {
    /// Validates a change independently of the webhook it applies to.
    pub(super) fn problems(&self, change: &WebhookChange) -> Vec<FieldProblem> {
        let now = self.0.context.clock.now();
        let any = Webhook {
            id: WebhookId::from("webhook"),
            name: "any".to_owned(),
            agent_id: None,
            prompt_template: None,
            tools: Vec::new(),
            enabled: true,
            disabled_reason: None,
            created_at: now,
            updated_at: now,
        };
        match checked(&any, change, &Patch::Keep, now) {
            Err(WebhookError::Invalid { problems }) => problems,
            _ => Vec::new(),
        }
    }
}

/// Applies and validates a change.
///
/// # Errors
/// `Invalid` with all invalid fields.
fn checked(
    before: &Webhook,
    change: &WebhookChange,
    agent: &Patch<AgentId>,
    now: Timestamp,
) -> Result<Webhook, WebhookError> {
    let webhook = before.changed(change, agent, now);
    let mut problems = webhook.check().err().unwrap_or_default();
    if let Patch::Set(SecretUpdate::New(secret)) = &change.secret
        && let Some(message) = secret_problem(secret)
    {
        problems.push(FieldProblem { field: "secret".to_owned(), message });
    }
    if problems.is_empty() { Ok(webhook) } else { Err(WebhookError::Invalid { problems }) }
}
