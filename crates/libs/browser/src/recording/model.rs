//! Recorded steps, and the comparison of recorded elements with those found.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Recorded action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// Name of the action.
    pub action: String,
    /// Parameters as requested; `{{secret:N}}` stands for a secret.
    pub parameters: Map<String, Value>,
    /// Elements acted on, one for each selector parameter.
    #[serde(default)]
    pub targets: Vec<RecordedTarget>,
    /// Number of the tab in opening order.
    pub tab: u32,
    /// Origin of the tab; present in its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tab_origin: Option<TabOrigin>,
    /// URL of the tab after the action.
    pub url: String,
    /// Start of the action, in milliseconds since the start of the recording.
    pub at_ms: u64,
    pub duration_ms: u64,
}

/// Origin of a tab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabOrigin {
    /// URL of the tab at its first action.
    pub url: String,
    /// Opener, if a page opened the tab during the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popup: Option<PopupOf>,
}

/// Popup of a page, counted from 0 in opening order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PopupOf {
    pub opener: u32,
    pub index: u32,
}

/// Recorded element with the means to find it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedTarget {
    /// `selector`, `source` or `target`.
    pub parameter: String,
    /// Accessibility role.
    pub role: String,
    pub name: String,
    /// URL of its frame; `None` for the main frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_url: Option<String>,
    pub fingerprint: Fingerprint,
    /// Selectors in the order in which they are tried.
    pub alternatives: Vec<Alternative>,
}

/// Selector that can identify the element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    pub kind: AlternativeKind,
    pub selector: String,
}

/// Kinds of selectors, from most to least stable, after the one that the client named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlternativeKind {
    /// Selector given by the client.
    Given,
    TestId,
    Role,
    /// Fingerprint: label and neighbouring texts.
    Label,
    Attribute,
    Text,
    Id,
    Path,
    Xpath,
}

impl AlternativeKind {
    /// Whether the attribute exists to identify this element to programs.
    fn is_explicit(self) -> bool {
        matches!(self, Self::TestId | Self::Attribute)
    }
}

/// Properties that identify an element independently of its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub tag: String,
    /// Type of an input element.
    #[serde(default)]
    pub kind: String,
    pub label: String,
    /// Number of elements with the same label, and the index of this one.
    pub twins: u32,
    pub ordinal: u32,
    /// Neighbouring texts that the twins do not have, and the number of levels up to their common ancestor.
    pub keys: Vec<String>,
    pub levels: u32,
    /// Hash of its attributes; only for elements that nothing else distinguishes.
    pub mark: u32,
    /// Hash of the neighbouring texts, if other elements had the same label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<u32>,
}

/// Properties of an element found during a replay.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Compared {
    pub(crate) tag: String,
    pub(crate) kind: String,
    pub(crate) label: String,
    pub(crate) twins: u32,
    pub(crate) ordinal: u32,
    pub(crate) mark: u32,
    pub(crate) around: Option<u32>,
    pub(crate) has_keys: bool,
}

/// Result of comparing a found element with the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MatchResult {
    Same,
    /// Same element with another label.
    Renamed(String),
    Other(String),
}

impl Fingerprint {
    /// Compares the found element. Prefers a false negative to a false positive.
    pub(crate) fn compare(&self, found: &Compared, kind: AlternativeKind) -> MatchResult {
        use MatchResult::{Other, Renamed, Same};
        if (&self.tag, &self.kind) != (&found.tag, &found.kind) {
            return Other(format!("is {}, not {}", element(&found.tag, &found.kind), element(&self.tag, &self.kind)));
        }
        if !found.has_keys {
            return Other(format!("does not have {} next to it", quoted_list(&self.keys)));
        }
        if self.label != found.label {
            let renamed = format!("was named {:?}, is named {:?}", self.label, found.label);
            // An element without label and neighbouring texts cannot be recognized after a rename.
            let is_known = kind.is_explicit() && !(self.label.is_empty() && self.keys.is_empty());
            return if is_known { Renamed(renamed) } else { Other(renamed) };
        }
        if !self.keys.is_empty() || kind == AlternativeKind::TestId {
            return Same;
        }
        if self.twins > 1 {
            // Only its index distinguishes it from its twins, so nothing may have changed around it.
            let is_unchanged = (self.twins, self.ordinal, self.mark) == (found.twins, found.ordinal, found.mark)
                && (self.around.is_none() || self.around == found.around);
            let reason = "looked the same as other elements, whose surroundings have changed";
            return if is_unchanged { Same } else { Other(reason.to_owned()) };
        }
        let is_identity = matches!(kind, AlternativeKind::Attribute | AlternativeKind::Id);
        if found.twins > 1 && !is_identity {
            return Other(format!("is one of {} elements with the same name", found.twins));
        }
        if self.label.is_empty() && self.mark != found.mark && !is_identity {
            return Other("has no name, and its attributes have changed".to_owned());
        }
        Same
    }
}

fn element(tag: &str, kind: &str) -> String {
    if kind.is_empty() { format!("<{tag}>") } else { format!("<{tag} type={kind}>") }
}

fn quoted_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(", ")
}

impl RecordedTarget {
    /// Returns a description such as `button "Save"`.
    #[must_use]
    pub fn description(&self) -> String {
        let role = if self.role.is_empty() { &self.fingerprint.tag } else { &self.role };
        let name = if self.name.is_empty() { &self.fingerprint.label } else { &self.name };
        if name.is_empty() { role.clone() } else { format!("{role} {name:?}") }
    }
}

impl RecordedStep {
    /// Returns a one-line caption such as `click button "Save"`.
    #[must_use]
    pub fn caption(&self) -> String {
        let parameter = |name: &str| self.parameters.get(name).and_then(Value::as_str);
        let what = match (self.targets.as_slice(), parameter("url").or(parameter("key"))) {
            ([], Some(value)) => value.to_owned(),
            ([], None) => String::new(),
            (targets, _) => targets.iter().map(RecordedTarget::description).collect::<Vec<_>>().join(" → "),
        };
        format!("{} {what}", self.action).trim_end().to_owned()
    }

    pub(crate) fn target(&self, parameter: &str) -> Option<&RecordedTarget> {
        self.targets.iter().find(|target| target.parameter == parameter)
    }

    /// Returns the numbers of the secrets that the step needs.
    #[must_use]
    pub fn secrets(&self) -> Vec<u32> {
        self.parameters.values().filter_map(Value::as_str).flat_map(super::secrets::secret_numbers).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [AlternativeKind; 9] = [
        AlternativeKind::Given,
        AlternativeKind::TestId,
        AlternativeKind::Role,
        AlternativeKind::Label,
        AlternativeKind::Attribute,
        AlternativeKind::Text,
        AlternativeKind::Id,
        AlternativeKind::Path,
        AlternativeKind::Xpath,
    ];

    fn fingerprints() -> impl Strategy<Value = Fingerprint> {
        let keys = proptest::collection::vec("[A-C]", 0..3);
        let around = proptest::option::of(0..2_u32);
        ("(a|button|input)", "(|text)", "[X-Z]?", 1..3_u32, 0..2_u32, keys, 0..3_u32, 0..2_u32, around).prop_map(
            |(tag, kind, label, twins, ordinal, keys, levels, mark, around)| {
                let keys = if twins == 1 && !label.is_empty() { Vec::new() } else { keys };
                Fingerprint { tag, kind, label, twins, ordinal: ordinal % twins, keys, levels, mark, around }
            },
        )
    }

    fn found() -> impl Strategy<Value = Compared> {
        (fingerprints(), any::<bool>()).prop_map(|(it, has_keys)| Compared { has_keys, ..unchanged(&it) })
    }

    fn unchanged(it: &Fingerprint) -> Compared {
        Compared {
            tag: it.tag.clone(),
            kind: it.kind.clone(),
            label: it.label.clone(),
            twins: it.twins,
            ordinal: it.ordinal,
            mark: it.mark,
            around: it.around,
            has_keys: true,
        }
    }

    proptest! {
        #[test]
        fn unchanged_element_is_the_same(recorded in fingerprints()) {
            for kind in KINDS {
                prop_assert_eq!(recorded.compare(&unchanged(&recorded), kind), MatchResult::Same);
            }
        }

        #[test]
        fn other_elements_are_rejected(recorded in fingerprints(), found in found()) {
            for kind in KINDS {
                let is_taken = !matches!(recorded.compare(&found, kind), MatchResult::Other(_));
                if !is_taken {
                    continue;
                }
                prop_assert_eq!((&recorded.tag, &recorded.kind), (&found.tag, &found.kind));
                prop_assert!(found.has_keys);
                let is_evident = kind.is_explicit() || kind == AlternativeKind::Id;
                if !is_evident {
                    prop_assert_eq!(&recorded.label, &found.label);
                    // A twin is chosen by its index only if everything is unchanged.
                    let is_picked = recorded.keys.is_empty() && found.twins > 1;
                    prop_assert!(!is_picked || (recorded.twins, recorded.ordinal, recorded.mark) == (found.twins, found.ordinal, found.mark));
                    prop_assert!(!is_picked || recorded.around.is_none() || recorded.around == found.around);
                }
            }
        }

        #[test]
        fn step_round_trips_through_json(recorded in fingerprints(), tab in any::<u32>(), url in ".{0,50}") {
            let target = RecordedTarget {
                parameter: "selector".into(), role: "button".into(), name: "X".into(), frame_url: Some(url.clone()),
                fingerprint: recorded,
                alternatives: vec![Alternative { kind: AlternativeKind::TestId, selector: "[data-qa]".into() }],
            };
            let popup = Some(PopupOf { opener: 0, index: 1 });
            let parameters = serde_json::json!({"selector": "#a", "text": "{{secret:3}}"});
            let step = RecordedStep {
                action: "click".into(), parameters: parameters.as_object().cloned().unwrap_or_default(), targets: vec![target], tab,
                tab_origin: Some(TabOrigin { url: url.clone(), popup }), url, at_ms: 1, duration_ms: 2,
            };
            prop_assert_eq!(step.caption(), "click button \"X\"");
            prop_assert_eq!(step.secrets(), vec![3]);
            let written = serde_json::to_string(&step).unwrap();
            prop_assert_eq!(serde_json::from_str::<RecordedStep>(&written).unwrap(), step);
        }
    }
}
