//! Push notifications about pending approvals, for owners without an open page, and their withdrawal once answered.

use std::collections::HashSet;
use std::time::Duration;

use agentd_base::{DomainError, Timestamp};
use agentd_core::runtime::NextDue;
use agentd_engine::engine::{Approval, ApprovalId};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::service::Proactive;
use crate::notify::{Notification, NotificationStatus, NotifyError, PendingCheck, PushDetails, Target};

/// Delay before devices are notified. An owner with an open page responds sooner.
const NOTIFY_DELAY: Duration = Duration::from_secs(3);
const MAX_APPROVALS: u32 = 1_000;

impl PendingCheck for Proactive {
    fn is_pending<'a>(&'a self, about: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.engine().approvals().is_pending(about.into()).boxed()
    }
}

/// Approvals that devices were notified about and that were pending at the last check; `None` before the first check.
pub(super) type NotifiedApprovals = Option<HashSet<ApprovalId>>;

fn key(approval: &ApprovalId) -> String {
    format!("wake:{approval}")
}

/// Returns the tag that identifies the message about an approval on a device.
fn tag(approval: &ApprovalId) -> String {
    format!("approval:{approval}")
}

fn answered_key(approval: &ApprovalId) -> String {
    format!("answered:{approval}")
}

impl Proactive {
    /// Notifies devices once about each pending approval, and withdraws messages about answered ones. Returns the
    /// number of messages, and when the next approval is due.
    pub(super) async fn notify_about_approvals(
        &self,
        notified_before: &mut NotifiedApprovals,
    ) -> Result<(u64, Timestamp), NotifyError> {
        let (approvals, notify) = (self.engine().approvals(), self.notify());
        let mut read = self.context().db.read().await?;
        if !notify.push().has_devices(&mut read).await? {
            *notified_before = None;
            return Ok((0, NextDue::NEVER));
        }
        let waiting = approvals.list_pending(&mut read, MAX_APPROVALS).await?;
        let waiting_ids: HashSet<ApprovalId> = waiting.iter().map(|approval| approval.id.clone()).collect();
        let answered: Vec<ApprovalId> = match notified_before.take() {
            Some(before) => before.difference(&waiting_ids).cloned().collect(),
            // Approvals answered before the first check.
            None => approvals.list_decided(&mut read, MAX_APPROVALS).await?,
        };
        let keys = waiting_ids.iter().map(key).chain(answered.iter().flat_map(|id| [key(id), answered_key(id)]));
        let outcomes = notify.outcomes(&mut read, &keys.collect::<Vec<_>>()).await?;
        drop(read);
        let was_sent = |id: &ApprovalId| matches!(outcomes.get(&key(id)), Some((NotificationStatus::Sent, _)));
        let mut sent = 0;
        for id in answered.iter().filter(|id| was_sent(id) && !outcomes.contains_key(&answered_key(id))) {
            sent += u64::from(self.withdraw(id).await?);
        }
        let now = self.context().clock.now();
        let is_enabled = self.settings().proactive().push_approvals;
        let (mut next, mut notified) = (NextDue::NEVER, HashSet::new());
        for approval in waiting {
            let due = approval.requested_at + NOTIFY_DELAY;
            if !outcomes.contains_key(&key(&approval.id)) {
                if !is_enabled || due > now {
                    next = if is_enabled { next.min(due) } else { next };
                    continue;
                }
                self.notify_about(&approval).await?;
                sent += 1;
            }
            notified.insert(approval.id);
        }
        *notified_before = Some(notified);
        Ok((sent, next))
    }

    /// Replaces the message about an approval with one that closes itself. Returns false if the approval is still
    /// pending.
    async fn withdraw(&self, id: &ApprovalId) -> Result<bool, NotifyError> {
        // The approval may still be pending if the list of pending approvals was truncated.
        if self.engine().approvals().is_pending(id.clone()).await? {
            return Ok(false);
        }
        let details = PushDetails {
            url: "/approvals?tab=answered".to_owned(),
            tag: tag(id),
            is_silent: true,
            takes_away: Some(key(id)),
            ..PushDetails::default()
        };
        let subject = match self.settings().interface().language.starts_with("de") {
            true => "Die Freigabe ist erledigt",
            false => "The approval is settled",
        };
        let message = Notification::new(Target::Push(String::new()), subject, "").idempotency_key(answered_key(id));
        self.enqueue_push(message, details).await?;
        Ok(true)
    }

    async fn notify_about(&self, approval: &Approval) -> Result<(), NotifyError> {
        let agent = self.agents().get(approval.agent_id.as_str()).await;
        let name = agent.map_or_else(|_| approval.agent_id.to_string(), |agent| agent.svc_name.clone());
        let (subject, body) = question(&name, &approval.tool, &self.settings().interface().language);
        let details = PushDetails {
            url: format!("/approvals?id={}", approval.id),
            tag: tag(&approval.id),
            is_urgent: true,
            expires_at: Some(approval.expires_at),
            about: Some(approval.id.to_string()),
            ..PushDetails::default()
        };
        let message = Notification::new(Target::Push(String::new()), subject, body)
            .idempotency_key(key(&approval.id))
            .agent(approval.agent_id.as_str());
        self.enqueue_push(message, details).await
    }

    async fn enqueue_push(&self, message: Notification, details: PushDetails) -> Result<(), NotifyError> {
        let message = message.details(serde_json::to_value(details).unwrap_or_default());
        let notify = self.notify().clone();
        let sent = self.context().db.write(async move |tx: &mut Tx| notify.enqueue(tx, &message).await).await;
        match sent {
            Err(NotifyError::Store(error)) => return Err(error.into()),
            // The approval stays pending regardless, so the failure is only logged.
            Err(error) => tracing::error!(code = error.code(), %error, "failed to enqueue approval push message"),
            Ok(_) => {}
        }
        Ok(())
    }
}

/// Returns the subject and body of a message. They name only the tool, because a lock screen may show them.
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
    fn question_uses_the_interface_language() {
        assert_eq!(question("ada", "shell", "de-AT").0, "ada bittet um Freigabe");
        assert_eq!(question("ada", "shell", "fr"), ("ada asks for approval".into(), "May ada use shell?".into()));
    }
}
