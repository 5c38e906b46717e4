//! Credentials in URLs of HTTP hooks and of webhook targets. They are stored in the vault; the config shows `***`
//! instead.

use agentd_base::Problems;
use agentd_core::vault::{SealedUrl, UnknownMask, UrlSecrets};
use serde_json::{Map, Value};

use super::config::{Action, BuiltinAction, HookType, stored_action};
use super::hook::Hook;

impl Hook {
    /// Returns the target URL as stored in the config.
    #[must_use]
    pub(crate) fn stored_url(&self) -> Option<&str> {
        self.config.get(field(self)?).and_then(Value::as_str)
    }
}

/// Returns the config field that holds a URL.
fn field(hook: &Hook) -> Option<&'static str> {
    match (hook.hook_type, &hook.action) {
        (HookType::Http, _) => Some("url"),
        (HookType::Builtin, Action::Builtin(BuiltinAction::SendToChannel { .. })) => Some("channel"),
        _ => None,
    }
}

/// Moves the credentials out of the URL in the config and returns them for the vault. `before` is the previous config.
pub(super) fn seal(hook: &mut Hook, before: &Map<String, Value>, problems: &mut Problems) -> UrlSecrets {
    let usual = match hook.hook_type {
        HookType::Http => "url",
        HookType::Builtin => "channel",
        HookType::Python => return UrlSecrets::new(),
    };
    let before_url = before.get(usual).and_then(Value::as_str);
    let Some((field, given)) = field(hook).and_then(|field| Some((field, hook.stored_url()?))) else {
        // The credentials of the removed URL are deleted.
        return before_url
            .and_then(|before| SealedUrl::new("", Some(before), UnknownMask::Leave).ok())
            .map_or_else(Vec::new, |sealed| sealed.secrets);
    };
    match SealedUrl::new(given, before_url, UnknownMask::Refuse) {
        Ok(sealed) => {
            if sealed.shown != given {
                hook.config.insert(field.to_owned(), Value::from(sealed.shown));
                hook.action = stored_action(hook.hook_type, &hook.config);
            }
            sealed.secrets
        }
        Err(problem) => {
            problems.add(format!("config.{field}"), problem);
            Vec::new()
        }
    }
}
