//! What an agent is told when a run begins, and what a person is told when it ends.

use agentd_base::Timestamp;
use serde_json::json;

use super::model::run::{Outcome, cut};
use super::model::{DeliveryRule, Job, Run, RunCause, RunStatus};
use crate::engine::HistoryMessage;
use crate::notify::{MessageFormat, Notification, Target};

/// Of an output that is sent as JSON, where each byte may become six.
const JSON_OUTPUT_BYTES: usize = 40_000;

/// The goal, and where the agent finds itself.
pub(super) fn history(job: &Job, run: &Run, now: Timestamp) -> Vec<HistoryMessage> {
    let why = match (run.cause, run.scheduled_for) {
        (RunCause::Schedule, Some(slot)) => format!("as planned for {slot}"),
        (RunCause::Chain, _) => "after the job before it in a chain".to_owned(),
        _ => "because somebody asked for it now".to_owned(),
    };
    let reader = match &job.delivery {
        Some(_) => "Your answer is sent to the owner as it is.",
        None => "Your answer is kept for the owner.",
    };
    let note = format!(
        "You were started by the scheduler for the job \"{}\", {why}. It is {now}. Nobody reads along and nobody can \
         answer questions: do what is asked, then answer with the result alone. {reader}",
        job.name
    );
    vec![HistoryMessage::Note(note), HistoryMessage::User(job.goal.clone())]
}

/// The message about the end of a run; `None`: nobody is to be told.
pub(super) fn notification(job: &Job, run: &Run, rule: &DeliveryRule, outcome: &Outcome) -> Option<Notification> {
    let is_success = match outcome.status {
        RunStatus::Success => true,
        RunStatus::Failed | RunStatus::Timeout => false,
        RunStatus::Pending | RunStatus::Running | RunStatus::Cancelled | RunStatus::Skipped => return None,
    };
    // It was checked when it was saved.
    let target: Target = rule.channel.parse().ok()?;
    let subject = if is_success { job.name.clone() } else { format!("{} failed", job.name) };
    let text = match (is_success, &outcome.output, &outcome.error) {
        (true, Some(output), _) => output.clone(),
        (true, None, _) => "The job is done; it had nothing to say.".to_owned(),
        (false, _, Some(error)) => format!("The job \"{}\" failed: {error}", job.name),
        (false, _, None) => format!("The job \"{}\" failed.", job.name),
    };
    let body = match rule.format {
        MessageFormat::Markdown | MessageFormat::Text => text,
        MessageFormat::Html => as_html(&text),
        MessageFormat::Json => json!({
            "job_id": job.id,
            "job": job.name,
            "run_id": run.id,
            "status": outcome.status,
            "scheduled_for": run.scheduled_for,
            "output": outcome.output.as_deref().map(|output| cut(output, JSON_OUTPUT_BYTES)),
            "error": outcome.error,
        })
        .to_string(),
    };
    let key = format!("run:{}", run.id);
    Some(Notification::new(target, subject, body).format(rule.format).idempotency_key(key).agent(run.agent_id.as_str()))
}

/// Text as a page that shows it as it is.
fn as_html(text: &str) -> String {
    let mut page = String::with_capacity(text.len() + 32);
    page.push_str("<p>");
    for character in text.chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\n' => page.push_str("<br>\n"),
            other => page.push(other),
        }
    }
    page.push_str("</p>");
    page
}
