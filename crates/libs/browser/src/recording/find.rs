//! Finding what was recorded on a page as it is now.

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;

use super::model::{Alternative, AlternativeKind, Judgement, RecordedTarget};
use crate::BrowserError;
use crate::action::locate::{Matches, pause};
use crate::selector::{Selector, shortened};
use crate::shared::QUICK;
use crate::snapshot::Pin;
use crate::tab::{Argument, Deadline, Element, FrameId, Invoked, Tab};

/// An element that was found by another selector than the first, or that is called something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub parameter: String,
    pub recorded: String,
    pub used: String,
    /// What else has changed about it.
    pub change: Option<String>,
}

/// A selector that was of no use, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    pub selector: String,
    pub result: String,
}

/// The element that was recorded, as it is now.
pub(super) struct Found<'t> {
    pub(super) element: Element,
    pub(super) pin: Pin<'t>,
    pub(super) drift: Option<Drift>,
}

impl Tab {
    /// Waits for the element. `tried` holds what the last look came to.
    pub(super) async fn find_again(
        &self,
        target: &RecordedTarget,
        deadline: Deadline,
        tried: &mut Vec<Tried>,
    ) -> Result<Found<'_>, BrowserError> {
        for look in 0.. {
            pause(look, deadline).await;
            if look > 0 && deadline.is_over() {
                break;
            }
            tried.clear();
            if let Some(found) = self.look_for(target, tried).await? {
                return Ok(found);
            }
        }
        Err(BrowserError::NotActionable {
            selector: target.description(),
            missing: "no element is certain to be the one that was recorded".to_owned(),
            waited_ms: deadline.waited_ms(),
        })
    }

    /// Looks once.
    pub(super) async fn look_for(
        &self,
        target: &RecordedTarget,
        tried: &mut Vec<Tried>,
    ) -> Result<Option<Found<'_>>, BrowserError> {
        let frames = self.frames_like(target);
        for alternative in &target.alternatives {
            let mut say = |result: String| tried.push(Tried { selector: alternative.selector.clone(), result });
            let element = match self.by_alternative(&frames, target, alternative).await? {
                Matches::None => {
                    say("matches nothing".to_owned());
                    continue;
                }
                Matches::Many(count) => {
                    say(format!("matches {count} elements"));
                    continue;
                }
                Matches::One(element) => element,
            };
            let Some(element) = self.subject_of(&element).await? else { continue };
            let Some(compared) = self.compared(&element, &target.fingerprint).await? else { continue };
            let change = match target.fingerprint.judge(&compared, alternative.kind) {
                Judgement::Other(why) => {
                    say(format!("finds an element that {why}"));
                    continue;
                }
                Judgement::Renamed(change) => Some(change),
                Judgement::Same => None,
            };
            let Some(pin) = self.pin(&element).await? else { continue };
            let first = target.alternatives.first().filter(|first| *first != alternative || change.is_some());
            let drift = first.map(|first| Drift {
                parameter: target.parameter.clone(),
                recorded: first.selector.clone(),
                used: alternative.selector.clone(),
                change,
            });
            return Ok(Some(Found { element, pin, drift }));
        }
        Ok(None)
    }

    /// The frames that it may be in.
    fn frames_like(&self, target: &RecordedTarget) -> Vec<FrameId> {
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
                Ok(parsed) if !parsed.is_passing() => self.matches(frames, &parsed, selector).await,
                Ok(_) | Err(_) => return Ok(Matches::None),
            }
        };
        match found {
            // Something in a file that is no selector here finds nothing.
            Err(BrowserError::Invalid(_)) => Ok(Matches::None),
            other => other,
        }
    }

    async fn by_label(&self, frames: &[FrameId], target: &RecordedTarget) -> Result<Matches, BrowserError> {
        let it = &target.fingerprint;
        let arguments =
            [json!(it.tag), json!(it.kind), json!(it.label), json!(it.keys), json!(it.levels)].map(Argument::Value);
        let searched =
            join_all(frames.iter().map(|frame| self.invoke_raw(frame, "called", &arguments, false, QUICK))).await;
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

/// An error about an element under a number, with what people know it by.
pub(super) fn renamed(error: BrowserError, names: &[(String, String)]) -> BrowserError {
    let name = |selector: String| {
        // A point may stand behind it.
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
