//! Letting strangers in.

use agentd_base::Page;
use agentd_chat_platforms::{IncomingMessage, Platform};
use agentd_store::{StoreError, Tx};

use super::{Channels, MessageDetails};
use crate::channels::error::ChannelError;
use crate::channels::model::{ApprovedSender, CODE_LIFE, MAX_OPEN_CODES, Pairing, new_code};
use crate::channels::store;
use crate::notify::{Notification, NotifyError, Target};

/// What a stranger is called in what the owner gets; longer names are cut.
const MAX_NAME_CHARACTERS: usize = 100;

impl Channels {
    /// Gives a stranger a code, unless they have one, and tells the owner.
    pub(super) async fn offer_pairing(
        &self,
        tx: &mut Tx,
        platform: Platform,
        message: &IncomingMessage,
    ) -> Result<(), StoreError> {
        let now = tx.clock().now();
        let known = store::find_pairing(tx, platform, Some(&message.sender.id), None).await?;
        if known.is_some_and(|known| known.expires_at > now)
            || store::count_pairings(tx, platform, now).await? >= MAX_OPEN_CODES
        {
            return Ok(());
        }
        let pairing = Pairing {
            platform,
            code: new_code(&self.0.context.entropy),
            sender: message.sender.clone(),
            reply_to: message.reply_to.clone(),
            is_refused: false,
            requested_at: now,
            expires_at: now + CODE_LIFE,
        };
        store::insert_pairing(tx, &pairing).await?;
        let text = format!(
            "This agent does not know you yet. Your code is `{}`. Tell it to the owner, who lets you in with it; it is \
             good for an hour.",
            pairing.code
        );
        let details = MessageDetails { address: pairing.reply_to.clone(), approval_id: None };
        let key = format!("pairing:{}:{}", platform.id(), pairing.code);
        self.send_in(tx, platform, &details, &text, key, None).await?;
        self.tell_owner(tx, &pairing).await
    }

    /// By where proactive messages go, or else by email where that is set up.
    async fn tell_owner(&self, tx: &mut Tx, pairing: &Pairing) -> Result<(), StoreError> {
        let settings = &self.0.uses.settings;
        let wanted = settings.proactive().delivery.as_deref().and_then(|target| target.parse::<Target>().ok());
        let email = || settings.email().enabled.then(|| Target::Email(String::new()));
        let Some(target) = wanted.or_else(email) else { return Ok(()) };
        let platform = pairing.platform.id();
        // Whoever it is chose these.
        let plain =
            |text: &str| text.chars().filter(|c| *c != '`' && !c.is_control()).take(MAX_NAME_CHARACTERS).collect();
        let (name, id): (String, String) = (plain(&pairing.sender.name), plain(&pairing.sender.id));
        let body = format!(
            "Somebody on {platform} wants to talk to your agent: `{name}`, whose id there is `{id}`.\n\nIf you know them, \
             let them in: `agentd channels approve {platform} {code}`, or POST \
             /api/channels/{platform}/pairings/{code}/approve. Otherwise do nothing; the code ends within an hour.",
            code = pairing.code,
        );
        let message = Notification::new(target, format!("Somebody new on {platform}"), body)
            .idempotency_key(format!("pairing-owner:{platform}:{}", pairing.code));
        match self.0.uses.notify.enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(NotifyError::Store(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "the owner cannot be told of somebody who wants to be let in");
                Ok(())
            }
        }
    }

    /// Open codes, the newest first, and how many there are.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn pairings(&self, page: Page) -> Result<(Vec<Pairing>, u64), ChannelError> {
        let now = self.0.context.clock.now();
        let pairings = store::list_pairings(&mut self.0.context.db.read().await?, now).await?;
        let total = pairings.len() as u64;
        let skipped = usize::try_from(page.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        Ok((pairings.into_iter().skip(skipped).take(limit).collect(), total))
    }

    /// Lets the stranger in who has this code, and says so to them.
    ///
    /// # Errors
    /// `PairingNotFound`, or the store's refusal.
    pub async fn approve(&self, platform: Platform, code: &str) -> Result<ApprovedSender, ChannelError> {
        let (this, code) = (self.clone(), code.trim().to_ascii_uppercase());
        let work = async move |tx: &mut Tx| {
            let pairing = open_pairing(tx, platform, &code).await?;
            let approved = store::insert_sender(tx, platform, &pairing.sender).await?;
            store::delete_pairing(tx, platform, &pairing.sender.id).await?;
            let details = MessageDetails { address: pairing.reply_to.clone(), approval_id: None };
            let text = "You are let in: what do you want to know? `/help` tells what else there is.";
            let key = format!("paired:{}:{}", platform.id(), pairing.code);
            this.send_in(tx, platform, &details, text, key, None).await?;
            Ok::<_, ChannelError>(approved)
        };
        self.0.context.db.write(work).await
    }

    /// Refuses whoever has this code: they are not told, and get no other one for the rest of its hour.
    ///
    /// # Errors
    /// `PairingNotFound`, or the store's refusal.
    pub async fn refuse(&self, platform: Platform, code: &str) -> Result<(), ChannelError> {
        let code = code.trim().to_ascii_uppercase();
        let work = async move |tx: &mut Tx| {
            let pairing = open_pairing(tx, platform, &code).await?;
            Ok::<_, ChannelError>(store::update_refused(tx, platform, &pairing.sender.id).await?)
        };
        self.0.context.db.write(work).await
    }

    /// Those whom the owner let in.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn senders(&self, platform: Platform) -> Result<Vec<ApprovedSender>, ChannelError> {
        Ok(store::list_senders(&mut self.0.context.db.read().await?, platform).await?)
    }

    /// From now on they are a stranger again.
    ///
    /// # Errors
    /// `SenderNotFound`, or the store's refusal.
    pub async fn remove_sender(&self, platform: Platform, sender: &str) -> Result<(), ChannelError> {
        let sender = sender.to_owned();
        let work = async move |tx: &mut Tx| {
            if store::delete_sender(tx, platform, &sender).await? {
                return Ok(());
            }
            Err(ChannelError::SenderNotFound { id: sender.chars().take(80).collect() })
        };
        self.0.context.db.write(work).await
    }
}

async fn open_pairing(tx: &mut Tx, platform: Platform, code: &str) -> Result<Pairing, ChannelError> {
    let now = tx.clock().now();
    let found = store::find_pairing(tx, platform, None, Some(code)).await?;
    let not_found = || ChannelError::PairingNotFound { code: code.chars().take(80).collect() };
    found.filter(|pairing| pairing.expires_at > now && !pairing.is_refused).ok_or_else(not_found)
}
