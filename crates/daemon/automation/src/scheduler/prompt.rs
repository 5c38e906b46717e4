//! What an agent is told when a run begins, and what a person is told when it ends.

use agentd_base::Timestamp;
use agentd_engine::engine::HistoryMessage;
use agentd_schedule::Zone;
use serde_json::json;

use super::markdown;
use super::model::run::{Outcome, cut};
use super::model::{DeliveryRule, Job, Run, RunCause, RunId, RunStatus};
use crate::notify::{BODY_LIMIT, MessageFormat, Notification, Target};

/// Of an output that is sent as JSON, where each byte may become six.
const JSON_OUTPUT_BYTES: usize = 40_000;
/// Of an output that is sent as a page, where each byte may become six, too.
const HTML_OUTPUT_BYTES: usize = 40_000;

/// A time as the owner's clock shows it, and in UTC.
fn told(at: Timestamp, zone: &Zone) -> String {
    if *zone == Zone::UTC {
        return at.to_string();
    }
    format!("{} in {zone} ({at})", zone.wall(at).strftime("%A, %Y-%m-%d %H:%M"))
}

/// The goal, and where the agent finds itself; `zone` is the profile's.
pub(super) fn history(job: &Job, run: &Run, now: Timestamp, zone: &Zone) -> Vec<HistoryMessage> {
    let why = match (run.cause, run.scheduled_for) {
        (RunCause::Schedule, Some(slot)) => format!("as planned for {}", told(slot, zone)),
        (RunCause::Chain, _) => "after the job before it in a chain".to_owned(),
        _ => "because somebody asked for it now".to_owned(),
    };
    let reader = match &job.delivery {
        Some(_) => "Your answer is sent to the owner as it is.",
        None => "Your answer is kept for the owner.",
    };
    let note = format!(
        "You were started by the scheduler for the job \"{}\", {why}. It is {}. Nobody reads along and nobody can \
         answer questions: do what is asked, then answer with the result alone. {reader}",
        job.name,
        told(now, zone)
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
        MessageFormat::Markdown => text,
        // What a failure says is no Markdown.
        MessageFormat::Text if is_success => markdown::as_text(&text),
        MessageFormat::Text => text,
        MessageFormat::Html => as_page(&text, is_success),
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
    let message = Notification::new(target, subject, body).format(rule.format);
    Some(message.idempotency_key(message_key(&run.id)).agent(run.agent_id.as_str()))
}

/// What the message about the end of a run is found by.
pub(super) fn message_key(run: &RunId) -> String {
    format!("run:{run}")
}

/// What was said as a page: of an output that would be too large, its beginning, as it is.
fn as_page(text: &str, is_markdown: bool) -> String {
    if !is_markdown {
        return markdown::plain_as_html(text);
    }
    let page = markdown::as_html(text);
    if page.len() <= BODY_LIMIT { page } else { markdown::plain_as_html(&cut(text, HTML_OUTPUT_BYTES)) }
}
