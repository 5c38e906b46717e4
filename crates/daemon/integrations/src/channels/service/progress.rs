//! Saying of a turn that takes long that it goes on.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_engine::engine::{SessionId, TurnActivity};
use agentd_store::{StoreError, Tx};

use super::Channels;
use crate::channels::error::ChannelError;
use crate::channels::model::{ChannelMessage, MessageDetails};
use crate::channels::store;

/// After so long whoever asked hears that the turn goes on.
const LONG: Duration = Duration::from_secs(60);

impl Channels {
    /// Says once of each turn that runs for long, since it began or since what it asked was answered, what it does.
    /// Answers of how many it did, and when the next one is due.
    ///
    /// # Errors
    /// The store's refusal.
    pub(crate) async fn report_progress(&self) -> Result<(u64, Option<Timestamp>), ChannelError> {
        let now = self.0.context.clock.now();
        let mut read = self.0.context.db.read().await?;
        let running = store::list_running(&mut read).await?;
        let keys: Vec<String> = running.iter().map(|(message, _)| key_of(message)).collect();
        let told = self.0.uses.notify.outcomes(&mut read, &keys).await?;
        drop(read);
        let (mut said, mut next_due) = (0, None::<Timestamp>);
        for (message, session) in running {
            if told.contains_key(&key_of(&message)) {
                continue;
            }
            // No turn begins before its message comes.
            let mut due = message.received_at + LONG;
            if due <= now {
                let Some(activity) = self.0.uses.engine.activity(&session).await? else { continue };
                // The question stands in the chat.
                if activity.is_waiting {
                    continue;
                }
                due = activity.since + LONG;
                if due <= now {
                    said += self.say_progress(session, &activity).await?;
                    continue;
                }
            }
            next_due = Some(next_due.map_or(due, |next| next.min(due)));
        }
        Ok((said, next_due))
    }

    async fn say_progress(&self, session: SessionId, activity: &TurnActivity) -> Result<u64, ChannelError> {
        let this = self.clone();
        let text = match &activity.tool {
            Some(tool) => format!("Still working: running `{}`.", tool.replace('`', "")),
            None => "Still working on it.".to_owned(),
        };
        let work = async move |tx: &mut Tx| {
            // Its answer may be on its way by now.
            let Some(message) = store::find_running(tx, session.as_str()).await? else { return Ok(0) };
            let details = MessageDetails::new(message.reply_to.clone());
            this.send_in(tx, message.platform, &details, &text, key_of(&message), None).await?;
            Ok::<_, StoreError>(1)
        };
        Ok(self.0.context.db.write(work).await?)
    }
}

/// Each turn's own, so that of several daemons one says it.
fn key_of(message: &ChannelMessage) -> String {
    format!("channel:{}:progress", message.id)
}
