//! Safety settings: an import leaves them unchanged unless it includes them, and reports each one that became weaker.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::overlay;

/// A setting that protects the machine, its network, or the owner's accounts.
#[derive(Debug, Clone, Copy)]
pub struct SafetySetting {
    /// Its path in the section.
    pub path: &'static str,
    pub strength: Strength,
    /// What a weaker value permits, as a sentence.
    pub effect: &'static str,
}

/// How two values of a safety setting compare.
#[derive(Debug, Clone, Copy)]
pub enum Strength {
    /// Named values, the strongest first. Values in one group are equally strong.
    Ranked(&'static [&'static [&'static str]]),
    /// A larger number, or `true`, is weaker.
    LowerIsStronger,
    /// A smaller number, or `false`, is weaker.
    HigherIsStronger,
    /// A list of permissions: an additional entry is weaker.
    Permissions,
    /// A list of restrictions: a missing entry is weaker.
    Restrictions,
}

impl Strength {
    fn is_weakened(self, before: &Value, after: &Value) -> bool {
        match self {
            Self::Ranked(groups) => rank(groups, after) > rank(groups, before),
            Self::LowerIsStronger => number(after) > number(before),
            Self::HigherIsStronger => number(after) < number(before),
            Self::Permissions => has_entry_outside(after, before),
            Self::Restrictions => has_entry_outside(before, after),
        }
    }
}

fn rank(groups: &[&[&str]], value: &Value) -> usize {
    let name = value.as_str().unwrap_or_default();
    groups.iter().position(|group| group.contains(&name)).unwrap_or(groups.len())
}

fn number(value: &Value) -> f64 {
    value.as_bool().map(|is_on| if is_on { 1.0 } else { 0.0 }).or_else(|| value.as_f64()).unwrap_or(0.0)
}

/// Whether `entries` has one that `others` does not have.
fn has_entry_outside(entries: &Value, others: &Value) -> bool {
    let known: &[Value] = others.as_array().map_or(&[], Vec::as_slice);
    entries.as_array().is_some_and(|entries| entries.iter().any(|entry| !known.contains(entry)))
}

/// A safety setting that an import made weaker.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WeakenedSetting {
    /// Section and field.
    #[schema(example = "sandbox.backend")]
    pub setting: String,
    pub before: Value,
    pub after: Value,
    /// Both values, and what the new one permits.
    #[schema(example = "sandbox.backend: auto → none. Code of agents and hooks may run without a sandbox.")]
    pub message: String,
}

/// A safety setting that an import would have changed and left as it was.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UnchangedSetting {
    /// Section and field.
    #[schema(example = "sandbox.backend")]
    pub setting: String,
    pub current: Value,
    pub imported: Value,
    /// Whether the imported value is weaker.
    pub weaker: bool,
    /// Both values, and what a weaker one would permit.
    pub message: String,
}

/// What an import did to safety settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SafetyReport {
    pub weakened: Vec<WeakenedSetting>,
    pub unchanged: Vec<UnchangedSetting>,
}

impl SafetyReport {
    pub fn extend(&mut self, other: Self) {
        self.weakened.extend(other.weakened);
        self.unchanged.extend(other.unchanged);
    }
}

/// Whether an import applies the safety settings of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SafetyScope {
    #[default]
    Excluded,
    Included,
}

impl SafetyScope {
    /// Compares one setting before and after an import. Returns the value to store.
    pub fn settle(
        self,
        setting: &SafetySetting,
        section: &str,
        before: &Value,
        after: Value,
        report: &mut SafetyReport,
    ) -> Value {
        if *before == after {
            return after;
        }
        let weaker = setting.strength.is_weakened(before, &after);
        let name = format!("{section}.{}", setting.path);
        let effect = if weaker { format!(" {}", setting.effect) } else { String::new() };
        let message = format!("{name}: {} → {}.{effect}", in_words(before), in_words(&after));
        match self {
            Self::Excluded => {
                let current = before.clone();
                report.unchanged.push(UnchangedSetting { setting: name, current, imported: after, weaker, message });
                before.clone()
            }
            Self::Included => {
                if weaker {
                    let (before, after) = (before.clone(), after.clone());
                    report.weakened.push(WeakenedSetting { setting: name, before, after, message });
                }
                after
            }
        }
    }

    /// Settles every safety setting of a section in `after`.
    pub(super) fn settle_section(
        self,
        settings: &[SafetySetting],
        section: &str,
        before: &Value,
        after: &mut Value,
    ) -> SafetyReport {
        let mut report = SafetyReport::default();
        let (Value::Object(before), Value::Object(after)) = (before, after) else { return report };
        for setting in settings {
            let had = find(before, setting.path);
            let value = self.settle(setting, section, &had, find(after, setting.path), &mut report);
            overlay::put(after, setting.path, value);
        }
        report
    }
}

fn find(fields: &Map<String, Value>, path: &str) -> Value {
    overlay::find(fields, path).cloned().unwrap_or_default()
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Bool(is_on) => if *is_on { "on" } else { "off" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(entries) if entries.is_empty() => "none".to_owned(),
        Value::Array(entries) => entries.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BACKEND: SafetySetting = SafetySetting {
        path: "backend",
        strength: Strength::Ranked(&[&["auto", "bubblewrap"], &["landlock"], &["none"]]),
        effect: "Code runs unprotected.",
    };

    #[test]
    fn strength_is_compared_by_kind() {
        let ranked = BACKEND.strength;
        for (strength, before, after, is_weaker) in [
            (ranked, json!("auto"), json!("none"), true),
            (ranked, json!("none"), json!("landlock"), false),
            (ranked, json!("auto"), json!("bubblewrap"), false),
            (Strength::LowerIsStronger, json!(5), json!(6), true),
            (Strength::LowerIsStronger, json!(true), json!(false), false),
            (Strength::HigherIsStronger, json!(900), json!(10), true),
            (Strength::Permissions, json!([]), json!(["169.254.169.254"]), true),
            (Strength::Permissions, json!(["a", "b"]), json!(["b"]), false),
            (Strength::Restrictions, json!(["shell"]), json!([]), true),
            (Strength::Restrictions, json!([]), json!(["shell"]), false),
        ] {
            assert_eq!(strength.is_weakened(&before, &after), is_weaker, "{strength:?}: {before} to {after}");
        }
    }

    #[test]
    fn excluded_settings_keep_their_values_and_included_ones_are_reported() {
        let (before, imported) = (json!({"backend": "auto", "other": 1}), json!({"backend": "none", "other": 2}));
        let mut after = imported.clone();
        let report = SafetyScope::Excluded.settle_section(&[BACKEND], "sandbox", &before, &mut after);
        assert_eq!((after, report.weakened), (json!({"backend": "auto", "other": 2}), vec![]));
        assert_eq!(report.unchanged[0].setting, "sandbox.backend");
        let mut after = imported.clone();
        let report = SafetyScope::Included.settle_section(&[BACKEND], "sandbox", &before, &mut after);
        assert_eq!((after, report.unchanged), (imported, vec![]));
        assert_eq!(report.weakened[0].message, "sandbox.backend: auto → none. Code runs unprotected.");
    }
}
