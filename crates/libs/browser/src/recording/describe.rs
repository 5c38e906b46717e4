//! Description of a recorded element.

use serde::Deserialize;
use serde_json::{Value, json};

use super::model::{Alternative, AlternativeKind, Compared, Fingerprint, RecordedTarget};
use crate::BrowserError;
use crate::action::locate::Matches;
use crate::selector::Selector;
use crate::shared::COMMAND_TIMEOUT;
use crate::snapshot::Pin;
use crate::tab::{Argument, Element, FrameId, Invoked, Tab};

/// Maximum length of a name in a selector; longer names are running text.
const MAX_NAME_CHARS: usize = 200;
/// Elements in which a point cannot be replaced by the centre, which a replay would use.
const SURFACE_TAGS: [&str; 8] = ["html", "body", "iframe", "frame", "object", "embed", "canvas", "video"];

#[derive(Debug, Deserialize)]
struct Described {
    fingerprint: Fingerprint,
    alternatives: Vec<Alternative>,
    is_secret: bool,
}

/// Described and pinned element that an action is about to be performed on.
pub(super) struct DescribedTarget<'t> {
    pub(super) pin: Pin<'t>,
    pub(super) target: RecordedTarget,
    /// Whether text typed into it is a secret.
    pub(super) is_secret: bool,
}

impl Tab {
    /// Returns the control that the element belongs to, or the element itself.
    pub(super) async fn subject_of(&self, element: &Element) -> Result<Option<Element>, BrowserError> {
        let arguments = [Argument::Element(element)];
        let Invoked::Done(found) =
            self.invoke_raw(&element.frame, "subject", &arguments, false, COMMAND_TIMEOUT).await?
        else {
            return Ok(None);
        };
        let (frame, session) = (element.frame.clone(), element.session.clone());
        Ok(found.object_id.map(|object| Element { frame, session, object }))
    }

    /// Describes the subject of an element and pins it. Returns `None` if the element disappeared.
    pub(super) async fn describe_target(
        &self,
        element: &Element,
        parameter: &str,
        given: &str,
    ) -> Result<Option<DescribedTarget<'_>>, BrowserError> {
        let Some(subject) = self.subject_of(element).await? else { return Ok(None) };
        let arguments = [Argument::Element(&subject)];
        let Invoked::Done(described) =
            self.invoke::<Described>(&subject.frame, "described", &arguments, COMMAND_TIMEOUT).await?
        else {
            return Ok(None);
        };
        let parsed = Selector::parse(given)?;
        let Fingerprint { tag, kind, .. } = &described.fingerprint;
        let is_surface = SURFACE_TAGS.contains(&tag.as_str()) || kind == "range";
        if parsed.point().is_some() && is_surface {
            let reason =
                format!("`{given}` is a point in `{tag}`, which a replay cannot find; select an element instead");
            return Err(BrowserError::Invalid(reason));
        }
        let Some(pin) = self.pin(&subject).await? else { return Ok(None) };
        let mut alternatives = Vec::new();
        if !parsed.is_transient() {
            alternatives.push(Alternative { kind: AlternativeKind::Given, selector: given.to_owned() });
        }
        let (test_ids, others): (Vec<_>, Vec<_>) =
            described.alternatives.into_iter().partition(|found| found.kind == AlternativeKind::TestId);
        alternatives.extend(test_ids);
        if let Some(selector) = self.role_selector(&subject.frame, &pin).await? {
            alternatives.push(Alternative { kind: AlternativeKind::Role, selector });
        }
        let fingerprint = described.fingerprint;
        alternatives.push(Alternative { kind: AlternativeKind::Label, selector: describe_fingerprint(&fingerprint) });
        alternatives.extend(others);
        let mut seen = Vec::new();
        alternatives.retain(|found| {
            let is_new = !seen.contains(&found.selector);
            seen.push(found.selector.clone());
            is_new
        });
        let (role, name) = (pin.role.clone(), pin.name.chars().take(MAX_NAME_CHARS).collect());
        let frame_url = self.frame_url(&subject.frame);
        let parameter = parameter.to_owned();
        let target = RecordedTarget { parameter, role, name, frame_url, fingerprint, alternatives };
        Ok(Some(DescribedTarget { pin, target, is_secret: described.is_secret }))
    }

    /// Returns a selector by role and name if it is unique within the frame.
    async fn role_selector(&self, frame: &FrameId, pin: &Pin<'_>) -> Result<Option<String>, BrowserError> {
        let length = pin.name.chars().count();
        if pin.role.is_empty()
            || length == 0
            || length > MAX_NAME_CHARS
            || !pin.role.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Ok(None);
        }
        let name = pin.name.replace('\\', "\\\\").replace('"', "\\\"");
        let selector = format!("role={}[name=\"{name}\"]", pin.role);
        let Ok(parsed) = Selector::parse(&selector) else { return Ok(None) };
        let found = self.matches(std::slice::from_ref(frame), &parsed, &selector).await?;
        Ok(matches!(found, Matches::One(_)).then_some(selector))
    }

    /// Returns the URL of a frame without query and fragment; `None` for the main frame.
    pub(super) fn frame_url(&self, frame: &FrameId) -> Option<String> {
        let state = self.state.borrow();
        if *frame == state.main_frame {
            return None;
        }
        let url = state.frames.get(frame).map(|frame| frame.url.as_str()).unwrap_or_default();
        Some(url.split(['?', '#']).next().unwrap_or_default().chars().take(2_000).collect())
    }

    pub(super) async fn compare_element(
        &self,
        element: &Element,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Compared>, BrowserError> {
        let arguments = [Argument::Element(element), json!(fingerprint.keys).into(), json!(fingerprint.levels).into()];
        match self.invoke(&element.frame, "compared", &arguments, COMMAND_TIMEOUT).await? {
            Invoked::Done(compared) => Ok(Some(compared)),
            Invoked::Gone => Ok(None),
        }
    }

    /// Whether the focused element takes a secret.
    pub(super) async fn focus_is_secret(&self) -> Result<bool, BrowserError> {
        let frames = self.state.borrow().frame_ids();
        for frame in frames {
            if let Invoked::Done(Value::Bool(true)) = self.invoke(&frame, "focusIsSecret", &[], COMMAND_TIMEOUT).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Describes a fingerprint for users; the search uses the fingerprint itself.
fn describe_fingerprint(fingerprint: &Fingerprint) -> String {
    let near: String = fingerprint.keys.iter().map(|key| format!(" near {key:?}")).collect();
    format!("{} {:?}{near}", fingerprint.tag, fingerprint.label)
}
