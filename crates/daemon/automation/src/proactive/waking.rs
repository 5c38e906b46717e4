//! Waking the owner's devices when something waits for an answer, for whoever has no page open, and taking that away
//! from them when it is answered.

use std::collections::HashSet;
use std::time::Duration;

use agentd_base::{DomainError, Timestamp};
use agentd_core::runtime::NextDue;
use agentd_engine::engine::{Approval, ApprovalId};
use agentd_store::{StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::service::Proactive;
use crate::notify::{Notification, NotificationStatus, NotifyError, PushDetails, StillWaits, Target};

/// Whoever looks at the page answers sooner.
const MOMENT: Duration = Duration::from_secs(3);
const MOST_APPROVALS: u32 = 1_000;

impl StillWaits for Proactive {
    fn still_waits<'a>(&'a self, about: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.engine().approvals().waits(about.into()).boxed()
    }
}

/// The approvals that devices were woken for and that waited at the last look; `None` before the first one.
pub(super) type WokenFor = Option<HashSet<ApprovalId>>;

fn key(approval: &ApprovalId) -> String {
    format!("wake:{approval}")
}

/// By which a device knows the message about an approval.
fn tag(approval: &ApprovalId) -> String {
    format!("approval:{approval}")
}

fn answered_key(approval: &ApprovalId) -> String {
    format!("answered:{approval}")
}

impl Proactive {
    /// Wakes the devices for what has waited for a moment, for each approval once, and takes away what is answered.
    /// Answers how often, and when the next one has waited.
    pub(super) async fn look_at_approvals(&self, woken_for: &mut WokenFor) -> Result<(u64, Timestamp), NotifyError> {
        let (approvals, notify) = (self.engine().approvals(), self.notify());
        let mut read = self.context().db.read().await?;
        if !notify.push().has_devices(&mut read).await? {
            *woken_for = None;
            return Ok((0, NextDue::NEVER));
        }
        let waiting = approvals.waiting(&mut read, MOST_APPROVALS).await?;
        let waiting_ids: HashSet<ApprovalId> = waiting.iter().map(|approval| approval.id.clone()).collect();
        let answered: Vec<ApprovalId> = match woken_for.take() {
            Some(before) => before.difference(&waiting_ids).cloned().collect(),
            // What was answered while nobody looked.
            None => approvals.answered(&mut read, MOST_APPROVALS).await?,
        };
        let keys = waiting_ids.iter().map(key).chain(answered.iter().flat_map(|id| [key(id), answered_key(id)]));
        let outcomes = notify.outcomes(&mut read, &keys.collect::<Vec<_>>()).await?;
        drop(read);
        let was_sent = |id: &ApprovalId| matches!(outcomes.get(&key(id)), Some((NotificationStatus::Sent, _)));
        let mut told = 0;
        for id in answered.iter().filter(|id| was_sent(id) && !outcomes.contains_key(&answered_key(id))) {
            told += u64::from(self.take_away(id).await?);
        }
        let now = self.context().clock.now();
        let wakes = self.settings().proactive().push_approvals;
        let (mut next, mut standing) = (NextDue::NEVER, HashSet::new());
        for approval in waiting {
            let ripe = approval.requested_at + MOMENT;
            if !outcomes.contains_key(&key(&approval.id)) {
                if !wakes || ripe > now {
                    next = if wakes { next.min(ripe) } else { next };
                    continue;
                }
                self.wake_for(&approval).await?;
                told += 1;
            }
            standing.insert(approval.id);
        }
        *woken_for = Some(standing);
        Ok((told, next))
    }

    /// Replaces the message about an approval by one that goes away by itself; answers whether that was called for.
    async fn take_away(&self, id: &ApprovalId) -> Result<bool, NotifyError> {
        // There may be more that wait than are looked at.
        if self.engine().approvals().waits(id.clone()).await? {
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
        self.tell_devices(message, details).await?;
        Ok(true)
    }

    async fn wake_for(&self, approval: &Approval) -> Result<(), NotifyError> {
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
        self.tell_devices(message, details).await
    }

    async fn tell_devices(&self, message: Notification, details: PushDetails) -> Result<(), NotifyError> {
        let message = message.details(serde_json::to_value(details).unwrap_or_default());
        let notify = self.notify().clone();
        let sent = self.context().db.write(async move |tx: &mut Tx| notify.enqueue(tx, &message).await).await;
        match sent {
            Err(NotifyError::Store(error)) => return Err(error.into()),
            // Whoever looks for the message finds why it is not there.
            Err(error) => tracing::error!(code = error.code(), %error, "devices are not told of an approval"),
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
