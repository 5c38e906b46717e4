//! Safety settings. An import leaves them unchanged unless it includes them, and reports each one that became weaker.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::overlay;

/// Setting that protects the machine, its network, or the owner's accounts.
#[derive(Debug, Clone, Copy)]
pub struct SafetySetting {
    /// Path in the section.
    pub path: &'static str,
    pub strength: Strength,
    /// Effect of a weaker value, as a sentence.
    pub effect: &'static str,
}

/// Rule for comparing two values of a safety setting.
#[derive(Debug, Clone, Copy)]
pub enum Strength {
    /// Named values, strongest first. Values in one group are equally strong.
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

/// Whether `entries` contains an entry that `others` does not.
fn has_entry_outside(entries: &Value, others: &Value) -> bool {
    let known: &[Value] = others.as_array().map_or(&[], Vec::as_slice);
    entries.as_array().is_some_and(|entries| entries.iter().any(|entry| !known.contains(entry)))
}

/// Safety setting that an import made weaker.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WeakenedSetting {
    /// Section and field.
    #[schema(example = "sandbox.backend")]
    pub setting: String,
    /// Value before the import.
    pub before: Value,
    /// Value after the import.
    pub after: Value,
    /// Message with both values and the effect of the new one.
    #[schema(example = "sandbox.backend: auto → none. Code of agents and hooks may run without a sandbox.")]
    pub message: String,
}

/// Safety setting that an import left unchanged although the file has another value.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UnchangedSetting {
    /// Section and field.
    #[schema(example = "sandbox.backend")]
    pub setting: String,
    /// Current value, which the import did not change.
    pub current: Value,
    /// Value in the imported file.
    pub imported: Value,
    /// Whether the imported value is weaker.
    pub weaker: bool,
    /// Message with both values and, if the imported value is weaker, its effect.
    pub message: String,
}

/// Changes to safety settings by an import.
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

/// Whether an import applies the safety settings in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SafetyScope {
    #[default]
    Excluded,
    Included,
}

impl SafetyScope {
    /// Compares one setting before and after an import. Returns the value to store.
    pub fn resolve(
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
        let message = format!("{name}: {} → {}.{effect}", describe(before), describe(&after));
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

    /// Resolves all safety settings of a section in `after`.
    pub(super) fn resolve_section(
        self,
        settings: &[SafetySetting],
        section: &str,
        before: &Value,
        after: &mut Value,
    ) -> SafetyReport {
        let mut report = SafetyReport::default();
        let (Value::Object(before), Value::Object(after)) = (before, after) else { return report };
        for setting in settings {
            let current = find(before, setting.path);
            let value = self.resolve(setting, section, &current, find(after, setting.path), &mut report);
            overlay::put(after, setting.path, value);
        }
        report
    }
}

fn find(fields: &Map<String, Value>, path: &str) -> Value {
    overlay::find(fields, path).cloned().unwrap_or_default()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Bool(is_on) => if *is_on { "on" } else { "off" }.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(entries) if entries.is_empty() => "none".to_owned(),
        Value::Array(entries) => entries.iter().map(describe).collect::<Vec<_>>().join(", "),
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
    fn strength_comparison_depends_on_kind() {
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
    fn excluded_settings_are_unchanged_and_included_ones_are_reported() {
        let (before, imported) = (json!({"backend": "auto", "other": 1}), json!({"backend": "none", "other": 2}));
        let mut after = imported.clone();
        let report = SafetyScope::Excluded.resolve_section(&[BACKEND], "sandbox", &before, &mut after);
        assert_eq!((after, report.weakened), (json!({"backend": "auto", "other": 2}), vec![]));
        assert_eq!(report.unchanged[0].setting, "sandbox.backend");
        let mut after = imported.clone();
        let report = SafetyScope::Included.resolve_section(&[BACKEND], "sandbox", &before, &mut after);
        assert_eq!((after, report.unchanged), (imported, vec![]));
        assert_eq!(report.weakened[0].message, "sandbox.backend: auto → none. Code runs unprotected.");
    }
}
