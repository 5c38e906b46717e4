//! Waking the owner's devices when something waits for an answer, for whoever has no page open.

use std::time::Duration;

use agentd_base::{DomainError, Timestamp};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::service::Proactive;
use crate::engine::{Approval, ApprovalId};
use crate::notify::{Notification, NotifyError, PushDetails, StillWaits, Target};
use crate::runtime::NextDue;

/// Whoever looks at the page answers sooner.
const MOMENT: Duration = Duration::from_secs(3);
const MOST_APPROVALS: u32 = 1_000;

impl StillWaits for Proactive {
    fn still_waits<'a>(&'a self, about: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.engine().approvals().waits(about.into()).boxed()
    }
}

fn key(approval: &ApprovalId) -> String {
    format!("wake:{approval}")
}

impl Proactive {
    /// Wakes the devices for what has waited for a moment; for each approval once. Answers for how many, and when the
    /// next one has.
    pub(super) async fn wake_for_approvals(&self) -> Result<(u64, Timestamp), NotifyError> {
        let idle = (0, NextDue::NEVER);
        if !self.settings().proactive().push_approvals {
            return Ok(idle);
        }
        let mut read = self.context().db.read().await?;
        if !self.notify().push().has_devices(&mut read).await? {
            return Ok(idle);
        }
        let waiting = self.engine().approvals().waiting(&mut read, MOST_APPROVALS).await?;
        let now = self.context().clock.now();
        let (ripe, young): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|approval| approval.requested_at + MOMENT <= now);
        let next = young.iter().map(|approval| approval.requested_at + MOMENT).min().unwrap_or(NextDue::NEVER);
        let keys: Vec<String> = ripe.iter().map(|approval| key(&approval.id)).collect();
        let told = self.notify().outcomes(&mut read, &keys).await?;
        drop(read);
        let mut woken = 0;
        for approval in ripe.iter().filter(|approval| !told.contains_key(&key(&approval.id))) {
            self.wake_for(approval).await?;
            woken += 1;
        }
        Ok((woken, next))
    }

    async fn wake_for(&self, approval: &Approval) -> Result<(), NotifyError> {
        let agent = self.agents().get(approval.agent_id.as_str()).await;
        let name = agent.map_or_else(|_| approval.agent_id.to_string(), |agent| agent.svc_name.clone());
        let (subject, body) = question(&name, &approval.tool, &self.settings().interface().language);
        let details = PushDetails {
            url: format!("/approvals?id={}", approval.id),
            tag: format!("approval:{}", approval.id),
            is_urgent: true,
            expires_at: Some(approval.expires_at),
            about: Some(approval.id.to_string()),
        };
        let message = Notification::new(Target::Push(String::new()), subject, body)
            .idempotency_key(key(&approval.id))
            .agent(approval.agent_id.as_str())
            .details(serde_json::to_value(details).unwrap_or_default());
        let notify = self.notify().clone();
        let sent = self.context().db.write(async move |tx: &mut Tx| notify.enqueue(tx, &message).await).await;
        match sent {
            Err(NotifyError::Store(error)) => return Err(error.into()),
            // Whoever looks for the message finds why it is not there.
            Err(error) => tracing::error!(code = error.code(), %error, "nobody is woken for an approval"),
            Ok(_) => {}
        }
        Ok(())
    }
}

/// What is to happen is for who answers alone: a lock screen shows the tool.
fn question(agent: &str, tool: &str, language: &str) -> (String, String) {
    match language.starts_with("de") {
        true => (format!("{agent} bittet um Freigabe"), format!("Darf {agent} {tool} benutzen?")),
        false => (format!("{agent} asks for approval"), format!("May {agent} use {tool}?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_in_the_owners_language() {
        assert_eq!(question("ada", "shell", "de-AT").0, "ada bittet um Freigabe");
        assert_eq!(question("ada", "shell", "fr"), ("ada asks for approval".into(), "May ada use shell?".into()));
    }
}
