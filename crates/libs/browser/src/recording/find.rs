//! Search for a recorded element on the current page.

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;

use super::model::{Alternative, AlternativeKind, MatchResult, RecordedTarget};
use crate::BrowserError;
use crate::action::locate::{Matches, pause};
use crate::selector::{Selector, shortened};
use crate::shared::COMMAND_TIMEOUT;
use crate::snapshot::Pin;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// Element that was found by a selector other than the first, or that was renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub parameter: String,
    pub recorded: String,
    pub used: String,
    /// Other change of the element.
    pub change: Option<String>,
}

/// Selector that did not identify the element, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    pub selector: String,
    pub result: String,
}

/// Recorded element as found on the current page.
pub(super) struct LocatedTarget<'t> {
    pub(super) element: Element,
    pub(super) pin: Pin<'t>,
    pub(super) drift: Option<Drift>,
}

impl Tab {
    /// Waits for the element. `tried` receives the results of the last attempt.
    pub(super) async fn find_target(
        &self,
        target: &RecordedTarget,
        deadline: Deadline,
        tried: &mut Vec<Tried>,
    ) -> Result<LocatedTarget<'_>, BrowserError> {
        for attempt in 0.. {
            pause(attempt, deadline).await;
            if attempt > 0 && deadline.is_over() {
                break;
            }
            tried.clear();
            if let Some(found) = self.find_target_once(target, tried).await? {
                return Ok(found);
            }
        }
        Err(BrowserError::NotActionable {
            selector: target.description(),
            missing: "no element matches the recorded one with certainty".to_owned(),
            waited_ms: deadline.waited_ms(),
        })
    }

    /// Searches once.
    pub(super) async fn find_target_once(
        &self,
        target: &RecordedTarget,
        tried: &mut Vec<Tried>,
    ) -> Result<Option<LocatedTarget<'_>>, BrowserError> {
        let frames = self.candidate_frames(target);
        for alternative in &target.alternatives {
            let mut report = |result: String| tried.push(Tried { selector: alternative.selector.clone(), result });
            let element = match self.by_alternative(&frames, target, alternative).await? {
                Matches::None => {
                    report("matches nothing".to_owned());
                    continue;
                }
                Matches::Many(count) => {
                    report(format!("matches {count} elements"));
                    continue;
                }
                Matches::One(element) => element,
            };
            let Some(element) = self.subject_of(&element).await? else { continue };
            let Some(compared) = self.compare_element(&element, &target.fingerprint).await? else { continue };
            let change = match target.fingerprint.compare(&compared, alternative.kind) {
                MatchResult::Other(why) => {
                    report(format!("matches an element that {why}"));
                    continue;
                }
                MatchResult::Renamed(change) => Some(change),
                MatchResult::Same => None,
            };
            let Some(pin) = self.pin(&element).await? else { continue };
            let first = target.alternatives.first().filter(|first| *first != alternative || change.is_some());
            let drift = first.map(|first| Drift {
                parameter: target.parameter.clone(),
                recorded: first.selector.clone(),
                used: alternative.selector.clone(),
                change,
            });
            return Ok(Some(LocatedTarget { element, pin, drift }));
        }
        Ok(None)
    }

    /// Returns the frames that may contain the element.
    fn candidate_frames(&self, target: &RecordedTarget) -> Vec<FrameId> {
        let Some(url) = &target.frame_url else { return vec![self.main_frame()] };
        let main = self.main_frame();
        let mut frames = self.state.borrow().frame_ids();
        frames.retain(|frame| *frame != main);
        let same: Vec<FrameId> =
            frames.iter().filter(|frame| self.frame_url(frame).as_ref() == Some(url)).cloned().collect();
        if same.is_empty() { frames } else { same }
    }

    async fn by_alternative(
        &self,
        frames: &[FrameId],
        target: &RecordedTarget,
        alternative: &Alternative,
    ) -> Result<Matches, BrowserError> {
        let found = if alternative.kind == AlternativeKind::Label {
            self.by_label(frames, target).await
        } else {
            let selector = &alternative.selector;
            match Selector::parse(selector) {
                Ok(parsed) if !parsed.is_transient() => self.matches(frames, &parsed, selector).await,
                Ok(_) | Err(_) => return Ok(Matches::None),
            }
        };
        match found {
            // An invalid selector in a recording file matches nothing.
            Err(BrowserError::Invalid(_)) => Ok(Matches::None),
            other => other,
        }
    }

    async fn by_label(&self, frames: &[FrameId], target: &RecordedTarget) -> Result<Matches, BrowserError> {
        let fingerprint = &target.fingerprint;
        let arguments = [
            json!(fingerprint.tag),
            json!(fingerprint.kind),
            json!(fingerprint.label),
            json!(fingerprint.keys),
            json!(fingerprint.levels),
        ]
        .map(Argument::Value);
        let searched =
            join_all(frames.iter().map(|frame| self.invoke_raw(frame, "called", &arguments, false, COMMAND_TIMEOUT)))
                .await;
        let (mut one, mut count) = (None, 0);
        for (frame, found) in frames.iter().zip(searched) {
            let Invoked::Done(found) = found? else { continue };
            match (found.object_id, self.session_of(frame)) {
                (Some(object), Some(session)) => {
                    one = Some(Element { frame: frame.clone(), session, object });
                    count += 1;
                }
                _ => count += found.value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
            }
        }
        Ok(match (one, count) {
            (Some(element), 1) => Matches::One(element),
            (_, 0) => Matches::None,
            (_, count) => Matches::Many(count),
        })
    }
}

/// Replaces pin numbers in an error by the names that users know.
pub(super) fn with_target_names(error: BrowserError, names: &[(String, String)]) -> BrowserError {
    let name = |selector: String| {
        // A point may follow the number.
        let pin = selector.split(' ').next();
        names
            .iter()
            .find(|(pinned, _)| pin == Some(pinned))
            .map_or_else(|| selector.clone(), |(_, name)| shortened(name))
    };
    match error {
        BrowserError::NotActionable { selector, missing, waited_ms } => {
            BrowserError::NotActionable { selector: name(selector), missing, waited_ms }
        }
        BrowserError::StaleRef { selector, what } => BrowserError::StaleRef { selector: name(selector), what },
        BrowserError::Ambiguous { selector, count } => BrowserError::Ambiguous { selector: name(selector), count },
        BrowserError::Invalid(text) => BrowserError::Invalid(
            names.iter().fold(text, |text, (pinned, name)| text.replace(pinned, &shortened(name))),
        ),
        other => other,
    }
}
