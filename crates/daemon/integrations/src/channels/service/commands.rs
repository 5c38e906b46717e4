//! What people ask the daemon itself for.

use agentd_engine::engine::cancel_in_conversation;
use agentd_store::{Lease, StoreError, Tx};

use super::{Channels, MessageDetails};
use crate::channels::error::ChannelError;
use crate::channels::model::{ChannelMessage, Command, MessageEnd};
use crate::channels::store;

const HELP: &str = "Write what you want to know, and I answer here.\n\n- `/new` begins a new conversation: I forget what was \
                    said in this one.\n- `/stop` ends what I am doing.\n- `approve 123456` and `reject 123456` \
                    decide an approval by its code, if you are the owner.\n- `/help` shows this.";

impl Channels {
    /// Carries a command out, with the end of the queue's item.
    pub(crate) async fn run_command(
        &self,
        lease: &Lease,
        message: ChannelMessage,
        command: Command,
    ) -> Result<(), ChannelError> {
        let decided = match command {
            Command::Decide { is_approved, code } => self.decide_by_code(&message, code, is_approved).await?,
            Command::New | Command::Stop | Command::Help => String::new(),
        };
        let (this, lease) = (self.clone(), lease.clone());
        let work = async move |tx: &mut Tx| {
            tx.complete(&lease).await?;
            let text = match command {
                Command::Help => HELP,
                Command::New => {
                    store::delete_conversation(tx, message.platform, &message.chat).await?;
                    "A new conversation begins with your next message."
                }
                Command::Stop => {
                    if let Some(going) = store::find_conversation(tx, message.platform, &message.chat).await? {
                        cancel_in_conversation(tx, &going).await?;
                    }
                    "I stop."
                }
                Command::Decide { .. } => &decided,
            };
            store::update_ended(tx, &message.id, MessageEnd::Answered, None).await?;
            let details = MessageDetails::new(message.reply_to.clone());
            this.send_in(tx, message.platform, &details, text, format!("channel:{}", message.id), None).await
        };
        Ok(self.0.context.db.write::<_, StoreError, _>(work).await?)
    }
}
