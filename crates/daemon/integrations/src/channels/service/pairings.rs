//! Pairing of unknown senders, and owners.

use agentd_automation::notify::{Notification, NotifyError, Target};
use agentd_base::Page;
use agentd_chat_platforms::{IncomingMessage, Platform};
use agentd_store::{Read, StoreError, Tx};

use super::{Channels, single_line};
use crate::channels::error::ChannelError;
use crate::channels::model::{
    ApprovedSender, ApprovedSenders, CODE_LIFETIME, ChannelSettings, MAX_OPEN_CODES, MessageDetails,
    PAIRING_LIMIT_NOTICE_INTERVAL, Pairing, new_code,
};
use crate::channels::store;

impl Channels {
    /// Sends an unknown sender a pairing code, unless there is an open one, and notifies the owner. If all codes of the
    /// platform are in use, the oldest one is withdrawn.
    pub(super) async fn offer_pairing(
        &self,
        tx: &mut Tx,
        platform: Platform,
        message: &IncomingMessage,
    ) -> Result<(), StoreError> {
        let now = tx.clock().now();
        let known = store::find_pairing(tx, platform, Some(&message.sender.id), None).await?;
        if known.is_some_and(|known| known.expires_at > now) {
            return Ok(());
        }
        let is_full = store::count_pairings(tx, platform, now).await? >= MAX_OPEN_CODES;
        if is_full {
            if self.0.evictions.admit(&platform, now).is_err() {
                return Ok(());
            }
            store::delete_oldest_pairing(tx, platform, now).await?;
        }
        let pairing = Pairing {
            platform,
            code: new_code(&self.0.context.entropy),
            sender: message.sender.clone(),
            reply_to: message.reply_to.clone(),
            is_refused: false,
            requested_at: now,
            expires_at: now + CODE_LIFETIME,
        };
        store::insert_pairing(tx, &pairing).await?;
        let text = format!(
            "You are not approved to use this agent yet. Your pairing code is `{}`. Send it to the owner, who can \
             approve you with it. It is valid for one hour.",
            pairing.code
        );
        let details = MessageDetails::new(pairing.reply_to.clone());
        let key = format!("pairing:{}:{}", platform.id(), pairing.code);
        self.send_in(tx, platform, &details, &text, key, None).await?;
        match is_full {
            false => self.notify_of_pairing(tx, &pairing).await,
            true if store::record_pairing_limit(tx, platform, PAIRING_LIMIT_NOTICE_INTERVAL).await? => {
                self.notify_of_pairing_limit(tx, &pairing).await
            }
            true => Ok(()),
        }
    }

    async fn notify_of_pairing(&self, tx: &mut Tx, pairing: &Pairing) -> Result<(), StoreError> {
        let (platform, code) = (pairing.platform.id(), &pairing.code);
        let (name, id) = (single_line(&pairing.sender.name), single_line(&pairing.sender.id));
        let body = format!(
            "An unknown sender on {platform} wants to talk to your agent: `{name}` (id `{id}`).\n\nIf you know the \
             sender, approve the request with `agentd channels approve {platform} {code}` or POST \
             /api/channels/{platform}/pairings/{code}/approve. Otherwise, ignore this message; the code expires in one \
             hour."
        );
        self.notify_operator(tx, &format!("New sender on {platform}"), body, format!("pairing-owner:{platform}:{code}"))
            .await
    }

    async fn notify_of_pairing_limit(&self, tx: &mut Tx, pairing: &Pairing) -> Result<(), StoreError> {
        let (platform, code) = (pairing.platform.id(), &pairing.code);
        let body = format!(
            "Many unknown senders on {platform} write to your agent. The newest {MAX_OPEN_CODES} pairing codes are open; \
             older ones were withdrawn, and you are not notified of each new one. `agentd channels pairings` lists the \
             open ones. To stop this, set `sender_policy` of the channel to `allowlist`."
        );
        self.notify_operator(
            tx,
            &format!("Many unknown senders on {platform}"),
            body,
            format!("pairing-limit:{platform}:{code}"),
        )
        .await
    }

    /// Notifies the target of proactive messages, or the owner by email if that is configured.
    async fn notify_operator(&self, tx: &mut Tx, subject: &str, body: String, key: String) -> Result<(), StoreError> {
        let settings = &self.0.dependencies.settings;
        let wanted = settings.proactive().delivery.as_deref().and_then(|target| target.parse::<Target>().ok());
        let email = || settings.email().enabled.then(|| Target::Email(String::new()));
        let Some(target) = wanted.or_else(email) else { return Ok(()) };
        let message = Notification::new(target, subject, body).idempotency_key(key);
        match self.0.dependencies.notify.enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(NotifyError::Store(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "failed to notify of unknown senders");
                Ok(())
            }
        }
    }

    /// Returns a page of open codes, newest first, and their total number.
    ///
    /// # Errors
    /// The database fails.
    pub async fn pairings(&self, page: Page) -> Result<(Vec<Pairing>, u64), ChannelError> {
        let now = self.0.context.clock.now();
        let pairings = store::list_pairings(&mut self.0.context.db.read().await?, now).await?;
        let total = pairings.len() as u64;
        let skipped = usize::try_from(page.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        Ok((pairings.into_iter().skip(skipped).take(limit).collect(), total))
    }

    /// Approves the sender of this code and notifies the sender. The first sender of a platform without an owner
    /// becomes its owner.
    ///
    /// # Errors
    /// `PairingNotFound`, or the database fails.
    pub async fn approve(&self, platform: Platform, code: &str) -> Result<ApprovedSender, ChannelError> {
        let (this, code) = (self.clone(), code.trim().to_ascii_uppercase());
        let allowed = self.allowed_senders(platform).await?;
        let work = async move |tx: &mut Tx| {
            let pairing = open_pairing(tx, platform, &code).await?;
            let is_first = !store::has_senders(tx, platform).await?;
            let approved = store::insert_sender(tx, platform, &pairing.sender, false).await?;
            store::delete_pairing(tx, platform, &pairing.sender.id).await?;
            let is_owner = is_first && find_owner(tx, platform, &allowed).await?.is_none();
            let mut text = "You have been approved. How can I help? Send `/help` to see the commands.".to_owned();
            if is_owner {
                store::put_owner(tx, platform, &pairing.sender.id).await?;
                text.push_str("\n\nYou are the owner of this channel: only you can approve actions of the agent.");
            }
            let details = MessageDetails::new(pairing.reply_to.clone());
            let key = format!("paired:{}:{}", platform.id(), pairing.code);
            this.send_in(tx, platform, &details, &text, key, None).await?;
            Ok::<_, ChannelError>(ApprovedSender { is_owner, ..approved })
        };
        self.0.context.db.write(work).await
    }

    /// Refuses the sender of this code, who is not notified and gets no other code until it expires.
    ///
    /// # Errors
    /// `PairingNotFound`, or the database fails.
    pub async fn refuse(&self, platform: Platform, code: &str) -> Result<(), ChannelError> {
        let code = code.trim().to_ascii_uppercase();
        let work = async move |tx: &mut Tx| {
            let pairing = open_pairing(tx, platform, &code).await?;
            Ok::<_, ChannelError>(store::update_refused(tx, platform, &pairing.sender.id).await?)
        };
        self.0.context.db.write(work).await
    }

    /// Returns the approved senders and the owner.
    ///
    /// # Errors
    /// The database fails.
    pub async fn senders(&self, platform: Platform) -> Result<ApprovedSenders, ChannelError> {
        let allowed = self.allowed_senders(platform).await?;
        let mut read = self.0.context.db.read_snapshot().await?;
        let owner_id = find_owner(&mut read, platform, &allowed).await?;
        let senders = store::list_senders(&mut read, platform, owner_id.as_deref()).await?;
        Ok(ApprovedSenders { senders, owner_id })
    }

    /// Makes an approved or allowed sender the owner; `None` removes the owner, so that chats cannot decide approvals.
    ///
    /// # Errors
    /// `SenderNotFound`, or the database fails.
    pub async fn set_owner(&self, platform: Platform, sender: Option<String>) -> Result<(), ChannelError> {
        let allowed = self.allowed_senders(platform).await?;
        let work = async move |tx: &mut Tx| {
            let Some(sender) = &sender else { return Ok(store::delete_owner(tx, platform).await?) };
            if !allowed.contains(sender) && !store::find_sender(tx, platform, sender).await? {
                return Err(ChannelError::sender_not_found(sender));
            }
            Ok(store::put_owner(tx, platform, sender).await?)
        };
        self.0.context.db.write(work).await
    }

    /// Removes an approved sender, who becomes unknown. A removed owner loses that role.
    ///
    /// # Errors
    /// `SenderNotFound`, or the database fails.
    pub async fn remove_sender(&self, platform: Platform, sender: &str) -> Result<(), ChannelError> {
        let sender = sender.to_owned();
        let work = async move |tx: &mut Tx| {
            if !store::delete_sender(tx, platform, &sender).await? {
                return Err(ChannelError::sender_not_found(&sender));
            }
            if store::find_owner(tx, platform).await?.as_deref() == Some(sender.as_str()) {
                store::delete_owner(tx, platform).await?;
            }
            Ok(())
        };
        self.0.context.db.write(work).await
    }

    async fn allowed_senders(&self, platform: Platform) -> Result<Vec<String>, ChannelError> {
        Ok(self.0.dependencies.settings.get::<ChannelSettings>().await?.rules(platform).allowed_senders)
    }
}

/// Returns the owner, unless the owner may no longer write.
async fn find_owner(read: &mut Read, platform: Platform, allowed: &[String]) -> Result<Option<String>, StoreError> {
    let Some(owner) = store::find_owner(read, platform).await? else { return Ok(None) };
    let is_trusted = allowed.contains(&owner) || store::find_sender(read, platform, &owner).await?;
    Ok(is_trusted.then_some(owner))
}

async fn open_pairing(tx: &mut Tx, platform: Platform, code: &str) -> Result<Pairing, ChannelError> {
    let now = tx.clock().now();
    let found = store::find_pairing(tx, platform, None, Some(code)).await?;
    let not_found = || ChannelError::PairingNotFound { code: code.chars().take(80).collect() };
    found.filter(|pairing| pairing.expires_at > now && !pairing.is_refused).ok_or_else(not_found)
}
