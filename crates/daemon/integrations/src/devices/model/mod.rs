//! The model of devices: naming, validation, frames, rate limit and pairing codes.

mod frames;
mod pace;
mod pairing;

use agentd_base::visible::{strip_tags, strip_tags_in};
use agentd_base::{Problems, Timestamp, typed_id};
use agentd_store::stored_ids;
use serde_json::{Map, Value};

pub(super) use frames::{DeviceFrame, ToolSpec, parse, to_device};
pub(super) use pace::Pace;
pub(super) use pairing::{
    CODE_TTL, FAILURE_WINDOW, MAX_FAILURES_PER_NETWORK, MAX_OPEN_CODES, MAX_WRONG_ATTEMPTS, code_from, code_hash,
    evaluate,
};

typed_id!(
    /// The id of a device.
    DeviceId,
    "dev"
);
typed_id!(
    /// The id of a pairing code.
    PairingCodeId,
    "pair"
);
stored_ids!(DeviceId, PairingCodeId);

/// The prefix of device tokens.
pub(super) const TOKEN_PREFIX: &str = "dev_";
/// 256 bits in hexadecimal.
const TOKEN_HEX_DIGITS: usize = 64;
pub(super) const MAX_DEVICES: usize = 100;
const MAX_METADATA_BYTES: usize = 4096;
/// Together with [`MAX_TOOL_NAME`] and the prefix, this keeps tool names within the limits of all providers.
const MAX_SLUG_BYTES: usize = 24;
pub(super) const MAX_TOOL_NAME: usize = 32;

/// A paired device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub id: DeviceId,
    /// The name chosen by the owner; not necessarily unique.
    pub name: String,
    /// The unique part of the names of its tools.
    pub slug: String,
    pub platform: String,
    pub metadata: Map<String, Value>,
    pub created_at: Timestamp,
    pub last_seen_at: Option<Timestamp>,
}

impl Device {
    /// The name under which agents call a tool of the device. Slugs are chosen so that names never collide.
    #[must_use]
    pub fn tool_name(&self, tool: &str) -> String {
        format!("{}{tool}", self.tool_prefix())
    }

    #[must_use]
    pub fn tool_prefix(&self) -> String {
        format!("device_{}_", self.slug)
    }
}

/// The properties that a device reports when it is paired.
#[derive(Debug, Clone)]
pub(crate) struct NewDevice {
    pub(super) name: String,
    pub(super) platform: String,
    pub(super) metadata: Map<String, Value>,
}

impl NewDevice {
    /// Removes Unicode tag characters from all values.
    pub(super) fn new(name: &str, platform: &str, metadata: Map<String, Value>) -> Self {
        let mut metadata = Value::Object(metadata);
        strip_tags_in(&mut metadata);
        let metadata = metadata.as_object_mut().map(std::mem::take).unwrap_or_default();
        Self { name: strip_tags(name).into_owned(), platform: strip_tags(platform).into_owned(), metadata }
    }

    pub(super) fn check(&self) -> Problems {
        let mut problems = Problems::new();
        for (field, text) in [("name", &self.name), ("platform", &self.platform)] {
            problems.require(!text.trim().is_empty(), field, "must not be blank");
            problems.require(!text.chars().any(char::is_control), field, "must not contain control characters");
        }
        let size = Value::from(self.metadata.clone()).to_string().len();
        let message = format!("must be at most {MAX_METADATA_BYTES} bytes of JSON");
        problems.require(size <= MAX_METADATA_BYTES, "metadata", message);
        problems
    }
}

/// Whether the text has the format of a device token.
#[must_use]
pub(super) fn is_token(text: &str) -> bool {
    text.strip_prefix(TOKEN_PREFIX)
        .is_some_and(|digits| digits.len() == TOKEN_HEX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Derives the slug of a new device from its name. A numeric suffix is added when the slug is taken. Returns `None`
/// when all suffixes are taken.
#[must_use]
pub(super) fn find_free_slug(name: &str, taken: &[String]) -> Option<String> {
    // With slugs `a` and `a_b`, tool `b_c` of `a` and tool `c` of `a_b` would have the same name, with any suffix.
    let names = [name.to_owned(), name.replace('_', "-")];
    let mut wanted = names.iter().flat_map(|name| (1..=MAX_DEVICES + 1).map(move |number| slug(name, number)));
    wanted.find(|slug| !taken.iter().any(|other| may_collide(slug, other)))
}

/// Whether a tool of one device could have the same name as a tool of the other.
fn may_collide(one: &str, other: &str) -> bool {
    let is_prefix = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    one == other || is_prefix(one, other) || is_prefix(other, one)
}

/// Reduces a name to the characters `[a-zA-Z0-9_-]` and at most 24 characters.
fn slug(name: &str, number: usize) -> String {
    let mut slug = String::new();
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let ending = if number > 1 { format!("-{number}") } else { String::new() };
    slug.truncate(MAX_SLUG_BYTES - ending.len());
    let plain = slug.trim_end_matches('-');
    let plain = if plain.is_empty() { "device" } else { plain };
    format!("{plain}{ending}")
}

/// Whether this is a valid name for a tool of a device.
#[must_use]
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=MAX_TOOL_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slug_is_derived_from_name() {
        assert_eq!(slug("Ada's MacBook_Pro", 1), "Ada-s-MacBook_Pro");
        assert_eq!(slug("my_laptop", 1), "my_laptop");
        assert_eq!(slug("laptop", 2), "laptop-2");
        assert_eq!(slug("机器", 1), "device");
        assert_eq!(slug("机器", 12), "device-12");
    }

    #[test]
    fn tool_names_of_two_devices_do_not_collide() {
        let taken = |slugs: &[&str]| slugs.iter().map(|slug| (*slug).to_owned()).collect::<Vec<_>>();
        let free = |name: &str, slugs: &[&str]| find_free_slug(name, &taken(slugs)).unwrap();
        assert_eq!(free("Laptop1", &["laptop1"]), "Laptop1");
        assert_eq!(free("laptop", &["laptop", "laptop-2"]), "laptop-3");
        assert_eq!(free("my_laptop", &["my"]), "my-laptop");
        assert_eq!(free("my", &["my_laptop"]), "my-2");
        assert_eq!(
            find_free_slug("x", &(1..=MAX_DEVICES + 1).map(|number| slug("x", number)).collect::<Vec<_>>()),
            None
        );
    }

    #[test]
    fn only_device_tokens_are_accepted() {
        assert!(is_token(&format!("dev_{}", "0a".repeat(32))));
        for other in ["", "dev_", "svc_0123", &format!("svc_{}", "0a".repeat(32)), &format!("dev_{}", "x".repeat(64))] {
            assert!(!is_token(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn tool_names_are_valid_for_all_providers(name in ".{1,64}", number in 1usize..=100, tool in "[a-zA-Z0-9_-]{1,32}") {
            let slug = slug(&name, number);
            prop_assert!(is_tool_name(&tool));
            let full = format!("device_{slug}_{tool}");
            prop_assert!(full.len() <= 64, "{full}");
            prop_assert!(full.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            prop_assert!(!slug.is_empty());
        }
    }
}
