//! What can be done with webhooks.

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

/// Deliveries that one daemon holds while they wait for a permit; more than this stay for others, and for later.
const MOST_HELD: usize = 128;
/// Where secrets are kept, each under the id of its webhook.
const VAULT_SCOPE: &str = "webhooks";

/// A webhook that was just made: the only time that its secret is seen.
#[derive(Debug, Clone)]
pub struct CreatedWebhook {
    pub webhook: Webhook,
    pub secret: Secret,
}

/// A webhook with what requests to it are verified with.
#[derive(Debug, Clone)]
pub(super) struct KnownWebhook {
    pub(super) webhook: Webhook,
    pub(super) secret: Option<Secret>,
}

/// Every webhook, the oldest first.
#[derive(Debug)]
pub(super) struct KnownWebhooks {
    list: Vec<Arc<KnownWebhook>>,
    by_id: HashMap<WebhookId, usize>,
}

impl KnownWebhooks {
    fn find(&self, id: &WebhookId) -> Option<&Arc<KnownWebhook>> {
        self.by_id.get(id).and_then(|at| self.list.get(*at))
    }
}

struct Inner {
    context: AppContext,
    vault: Vault,
    agents: Agents,
    engine: Engine,
    base_url: String,
    known: Snapshot<KnownWebhooks>,
    admission: RateLimiter<WebhookId>,
    counts: OutcomeCounts,
    /// For deliveries whose turns are about to begin here.
    queue: WorkQueue,
    /// Webhooks that got something since it was last looked how much they keep; `None`: nobody knows.
    fed: Mutex<Option<BTreeSet<WebhookId>>>,
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
    /// `base_url` is how the daemon is reached from outside, without a slash at the end.
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
            queue: WorkQueue::new(context, QUEUE, MOST_HELD),
            fed: Mutex::default(),
            purge_wake: Arc::default(),
        })))
    }

    /// Where requests for a webhook go.
    #[must_use]
    pub fn url(&self, id: &WebhookId) -> String {
        format!("{}/api/webhooks/{id}/receive", self.0.base_url)
    }

    /// What became of requests since the daemon started, by outcome.
    #[must_use]
    pub fn request_counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.read()
    }

    /// Waits until nothing waits for a permit here any more, `limit` at most: when the daemon drains, what waits
    /// is given back for others, or for the next start.
    pub async fn drain(&self, limit: Duration) {
        self.0.queue.drain(limit).await;
    }

    /// How many turns wait for their beginning.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn waiting_turns(&self) -> Result<u64, WebhookError> {
        let stats = self.0.context.db.read().await?.queue_stats(QUEUE).await?;
        Ok(stats.pending + stats.leased)
    }

    /// Makes a webhook. A secret that is not given is made, too.
    ///
    /// # Errors
    /// `Invalid` with every bad field, an unknown agent, `TooMany`, or the store's refusal.
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
        let (here, made) = (self.clone(), CreatedWebhook { webhook, secret });
        context
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_webhooks(tx).await? >= MAX_WEBHOOKS {
                    return Err(WebhookError::TooMany);
                }
                here.require_living(tx, &agent).await?;
                store::insert_webhook(tx, &made.webhook).await?;
                here.0.vault.put(tx, VAULT_SCOPE, made.webhook.id.as_str(), &made.secret).await?;
                recorder.record(tx, &made).await?;
                Ok(made.clone())
            })
            .await
    }

    /// Changes a webhook; answers it, and whether it has a secret then.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every bad field, an unknown agent, or the store's refusal.
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
                here.require_living(tx, &agent).await?;
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

    /// Every webhook, the oldest first, and whether each has a secret.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn list(&self) -> Result<Vec<(Webhook, bool)>, WebhookError> {
        let known = self.known().await?;
        Ok(known.list.iter().map(|known| (known.webhook.clone(), known.secret.is_some())).collect())
    }

    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn get(&self, id: &WebhookId) -> Result<(Webhook, bool), WebhookError> {
        let known = self.find_known(id).await?;
        Ok((known.webhook.clone(), known.secret.is_some()))
    }

    /// Deletes a webhook with its deliveries. Turns that have not begun do not begin.
    ///
    /// # Errors
    /// `NotFound`, or the store's refusal.
    pub async fn delete(&self, id: &WebhookId) -> Result<(), WebhookError> {
        let (here, gone) = (self.clone(), id.clone());
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                if !store::hide_webhook(tx, &gone, now).await? {
                    return Err(WebhookError::not_found(gone.as_str()));
                }
                here.0.vault.clear(tx, VAULT_SCOPE, gone.as_str()).await?;
                Ok(())
            })
            .await?;
        self.0.admission.forget(id);
        self.0.purge_wake.notify_one();
        Ok(())
    }

    /// Whom a change names.
    async fn resolve(&self, agent: &Patch<String>) -> Result<Patch<AgentId>, WebhookError> {
        Ok(match agent {
            Patch::Keep => Patch::Keep,
            Patch::Clear => Patch::Clear,
            Patch::Set(name) => Patch::Set(self.0.agents.get(name).await?.id.clone()),
        })
    }

    async fn require_living(&self, tx: &mut Tx, agent: &Patch<AgentId>) -> Result<(), WebhookError> {
        let Patch::Set(id) = agent else { return Ok(()) };
        if self.0.agents.is_alive(tx, id).await? {
            return Ok(());
        }
        Err(agentd_engine::agents::AgentError::NotFound { name: id.to_string() }.into())
    }

    async fn known(&self) -> Result<Arc<KnownWebhooks>, WebhookError> {
        let vault = self.0.vault.clone();
        self.0.known.get(async move |read: &mut Read| load(&vault, read).await).await
    }

    pub(super) async fn find_known(&self, id: &WebhookId) -> Result<Arc<KnownWebhook>, WebhookError> {
        let known = self.known().await?;
        known.find(id).cloned().ok_or_else(|| WebhookError::not_found(id.as_str()))
    }

    /// Webhooks that may keep too much. Asked once, they are forgotten here.
    pub(super) async fn take_fed(&self) -> Result<BTreeSet<WebhookId>, WebhookError> {
        if let Some(fed) = self.0.fed.lock().as_mut() {
            return Ok(std::mem::take(fed));
        }
        // The first time since the start: any of them.
        let all = self.known().await?.by_id.keys().cloned().collect();
        *self.0.fed.lock() = Some(BTreeSet::new());
        Ok(all)
    }

    pub(super) fn note_fed(&self, webhook: &WebhookId) {
        if let Some(fed) = self.0.fed.lock().as_mut()
            && fed.len() < 2 * MAX_WEBHOOKS
        {
            fed.insert(webhook.clone());
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

async fn load(vault: &Vault, read: &mut Read) -> Result<KnownWebhooks, WebhookError> {
    let mut list = Vec::new();
    for webhook in store::list_webhooks(read).await? {
        let secret = match vault.get_in(read, VAULT_SCOPE, webhook.id.as_str()).await {
            Ok(secret) => secret,
            // One secret that does not open must not take the other webhooks down.
            Err(error @ VaultError::Unsealable { .. }) => {
                tracing::warn!(webhook = %webhook.id, %error, "a webhook takes nothing until it has a secret again");
                None
            }
            Err(error) => return Err(error.into()),
        };
        list.push(Arc::new(KnownWebhook { webhook, secret }));
    }
    let by_id = list.iter().enumerate().map(|(at, known)| (known.webhook.id.clone(), at)).collect();
    Ok(KnownWebhooks { list, by_id })
}

impl Webhooks {
    /// What is wrong with a change whatever webhook it is for.
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

/// The changed webhook, with every bad field of the change at once.
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
