//! What is kept of an action, and whether an element is the one that it was done to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One action as it was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The name of the action.
    pub action: String,
    /// As they were asked for; `{{secret:N}}` stands for a secret.
    pub parameters: Map<String, Value>,
    /// What it was done to, one for each parameter that named an element.
    #[serde(default)]
    pub targets: Vec<RecordedTarget>,
    /// The tab, counted in the order of their opening.
    pub tab: u32,
    /// Where that tab came from; in the first step that was done in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tab_origin: Option<TabOrigin>,
    /// What the tab showed after it.
    pub url: String,
    /// Since the recording was started, when the action began.
    pub at_ms: u64,
    pub duration_ms: u64,
}

/// How a tab came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabOrigin {
    /// What it showed when something was first done in it.
    pub url: String,
    /// The page that opened it during the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popup: Option<PopupOf>,
}

/// The popup of a page, counted from 0 in the order of their opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PopupOf {
    pub opener: u32,
    pub index: u32,
}

/// An element, and by what it can be found again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedTarget {
    /// `selector`, `source` or `target`.
    pub parameter: String,
    /// As assistive technology is told.
    pub role: String,
    pub name: String,
    /// The frame that it was in; none where that was the page itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_url: Option<String>,
    pub fingerprint: Fingerprint,
    /// Tried in this order.
    pub alternatives: Vec<Alternative>,
}

/// One way to find an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    pub kind: AlternativeKind,
    pub selector: String,
}

/// From what changes least to what changes most, after what the caller named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlternativeKind {
    /// What the caller named.
    Given,
    TestId,
    Role,
    /// By its fingerprint: what it is called, and the texts around it.
    Label,
    Attribute,
    Text,
    Id,
    Path,
    Xpath,
}

impl AlternativeKind {
    /// Whether the name was given to this element so that programs find it.
    fn is_made_for_it(self) -> bool {
        matches!(self, Self::TestId | Self::Attribute)
    }
}

/// What an element is, apart from where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub tag: String,
    /// The type of an input.
    #[serde(default)]
    pub kind: String,
    pub label: String,
    /// How many there were that are called the same, and which of them it was.
    pub twins: u32,
    pub ordinal: u32,
    /// Texts beside it that those did not have, and how many elements up they were.
    pub keys: Vec<String>,
    pub levels: u32,
    /// Of its attributes; only for what can be told apart by nothing else.
    pub mark: u32,
    /// Of the texts beside it, where others were called the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<u32>,
}

/// What was found at a replay.
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

/// Whether what was found is what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    Same,
    /// The same, called something else now.
    Renamed(String),
    Other(String),
}

impl Fingerprint {
    /// Rather refuses the right element than takes a wrong one.
    pub(crate) fn judge(&self, found: &Compared, kind: AlternativeKind) -> Judgement {
        use Judgement::{Other, Renamed, Same};
        if (&self.tag, &self.kind) != (&found.tag, &found.kind) {
            return Other(format!("is {}, not {}", element(&found.tag, &found.kind), element(&self.tag, &self.kind)));
        }
        if !found.has_keys {
            return Other(format!("does not have {} beside it", listed(&self.keys)));
        }
        if self.label != found.label {
            let renamed = format!("was called {:?}, is called {:?}", self.label, found.label);
            // With neither a name nor anything beside it, there is nothing left to know it by.
            let is_known = kind.is_made_for_it() && !(self.label.is_empty() && self.keys.is_empty());
            return if is_known { Renamed(renamed) } else { Other(renamed) };
        }
        if !self.keys.is_empty() || kind == AlternativeKind::TestId {
            return Same;
        }
        if self.twins > 1 {
            // Only its place among its twins tells it from them: nothing may have changed there.
            let is_unchanged = (self.twins, self.ordinal, self.mark) == (found.twins, found.ordinal, found.mark)
                && (self.around.is_none() || self.around == found.around);
            let reason = "looked the same as others beside it, and something has changed there";
            return if is_unchanged { Same } else { Other(reason.to_owned()) };
        }
        let is_identity = matches!(kind, AlternativeKind::Attribute | AlternativeKind::Id);
        if found.twins > 1 && !is_identity {
            return Other(format!("is one of {} that are called the same now", found.twins));
        }
        if self.label.is_empty() && self.mark != found.mark && !is_identity {
            return Other("is called nothing, and has other attributes than then".to_owned());
        }
        Same
    }
}

fn element(tag: &str, kind: &str) -> String {
    if kind.is_empty() { format!("<{tag}>") } else { format!("<{tag} type={kind}>") }
}

fn listed(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    quoted.join(", ")
}

impl RecordedTarget {
    /// `button "Save"`.
    #[must_use]
    pub fn description(&self) -> String {
        let role = if self.role.is_empty() { &self.fingerprint.tag } else { &self.role };
        let name = if self.name.is_empty() { &self.fingerprint.label } else { &self.name };
        if name.is_empty() { role.clone() } else { format!("{role} {name:?}") }
    }
}

impl RecordedStep {
    /// One line for people: `click button "Save"`.
    #[must_use]
    pub fn caption(&self) -> String {
        let said = |name: &str| self.parameters.get(name).and_then(Value::as_str);
        let what = match (self.targets.as_slice(), said("url").or(said("key"))) {
            ([], Some(said)) => said.to_owned(),
            ([], None) => String::new(),
            (targets, _) => targets.iter().map(RecordedTarget::description).collect::<Vec<_>>().join(" → "),
        };
        format!("{} {what}", self.action).trim_end().to_owned()
    }

    pub(crate) fn target(&self, parameter: &str) -> Option<&RecordedTarget> {
        self.targets.iter().find(|target| target.parameter == parameter)
    }

    /// The numbers of the secrets that it needs.
    #[must_use]
    pub fn secrets(&self) -> Vec<u32> {
        self.parameters.values().filter_map(Value::as_str).flat_map(super::secrets::numbers_in).collect()
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
        (fingerprints(), any::<bool>()).prop_map(|(it, has_keys)| Compared { has_keys, ..seen_again(&it) })
    }

    fn seen_again(it: &Fingerprint) -> Compared {
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
        fn what_did_not_change_is_the_same(recorded in fingerprints()) {
            for kind in KINDS {
                prop_assert_eq!(recorded.judge(&seen_again(&recorded), kind), Judgement::Same);
            }
        }

        #[test]
        fn nothing_else_is_taken_for_it(recorded in fingerprints(), found in found()) {
            for kind in KINDS {
                let is_taken = !matches!(recorded.judge(&found, kind), Judgement::Other(_));
                if !is_taken {
                    continue;
                }
                prop_assert_eq!((&recorded.tag, &recorded.kind), (&found.tag, &found.kind));
                prop_assert!(found.has_keys);
                let is_evident = kind.is_made_for_it() || kind == AlternativeKind::Id;
                if !is_evident {
                    prop_assert_eq!(&recorded.label, &found.label);
                    // Of several that are the same, none is picked by its place unless all is as it was.
                    let is_picked = recorded.keys.is_empty() && found.twins > 1;
                    prop_assert!(!is_picked || (recorded.twins, recorded.ordinal, recorded.mark) == (found.twins, found.ordinal, found.mark));
                    prop_assert!(!is_picked || recorded.around.is_none() || recorded.around == found.around);
                }
            }
        }

        #[test]
        fn a_step_is_read_as_it_was_written(recorded in fingerprints(), tab in any::<u32>(), url in ".{0,50}") {
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
