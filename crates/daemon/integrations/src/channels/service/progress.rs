//! Progress messages of long turns.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_engine::engine::{SessionId, TurnActivity};
use agentd_store::{StoreError, Tx};

use super::Channels;
use crate::channels::error::ChannelError;
use crate::channels::model::{ChannelMessage, MessageDetails};
use crate::channels::store;

/// Time after which a running turn is reported.
const REPORT_AFTER: Duration = Duration::from_secs(60);

impl Channels {
    /// Reports each long-running turn once, measured from its start or its last answered question. Returns the number
    /// of reports and when the next one is due.
    ///
    /// # Errors
    /// The database fails.
    pub(crate) async fn report_progress(&self) -> Result<(u64, Option<Timestamp>), ChannelError> {
        let now = self.0.context.clock.now();
        let mut read = self.0.context.db.read().await?;
        let running = store::list_running(&mut read).await?;
        let keys: Vec<String> = running.iter().map(|(message, _)| progress_key(message)).collect();
        let reported = self.0.dependencies.notify.outcomes(&mut read, &keys).await?;
        drop(read);
        let (mut report_count, mut next_due) = (0, None::<Timestamp>);
        for (message, session) in running {
            if reported.contains_key(&progress_key(&message)) {
                continue;
            }
            // A turn never starts before its message arrives.
            let mut due = message.received_at + REPORT_AFTER;
            if due <= now {
                let Some(activity) = self.0.dependencies.engine.activity(&session).await? else { continue };
                // The question is already visible in the chat.
                if activity.is_waiting {
                    continue;
                }
                due = activity.since + REPORT_AFTER;
                if due <= now {
                    report_count += self.send_progress(session, &activity).await?;
                    continue;
                }
            }
            next_due = Some(next_due.map_or(due, |next| next.min(due)));
        }
        Ok((report_count, next_due))
    }

    async fn send_progress(&self, session: SessionId, activity: &TurnActivity) -> Result<u64, ChannelError> {
        let this = self.clone();
        let text = match &activity.tool {
            Some(tool) => format!("Still working: running `{}`.", tool.replace('`', "")),
            None => "Still working on it.".to_owned(),
        };
        let work = async move |tx: &mut Tx| {
            // The turn may have ended meanwhile.
            let Some(message) = store::find_running(tx, session.as_str()).await? else { return Ok(0) };
            let details = MessageDetails::new(message.reply_to.clone());
            this.send_in(tx, message.platform, &details, &text, progress_key(&message), None).await?;
            Ok::<_, StoreError>(1)
        };
        Ok(self.0.context.db.write(work).await?)
    }
}

/// Returns the idempotency key, which ensures that only one daemon reports a turn.
fn progress_key(message: &ChannelMessage) -> String {
    format!("channel:{}:progress", message.id)
}
