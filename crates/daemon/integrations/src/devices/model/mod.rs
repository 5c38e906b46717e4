//! What a device is, how it is named, and how guessing codes is slowed down.

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
    CODE_TTL, FAILURE_WINDOW, MOST_FAILURES_OF_A_NETWORK, MOST_OPEN_CODES, MOST_WRONG_TRIES, code_from, code_hash,
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

/// Before the random part of a device's token.
pub(super) const TOKEN_PREFIX: &str = "dev_";
/// 256 bits in hex.
const TOKEN_DIGITS: usize = 64;
pub(super) const MOST_DEVICES: usize = 100;
const MAX_METADATA_BYTES: usize = 4096;
/// With [`MAX_TOOL_NAME`] and what stands between, what every vendor takes as a tool's name.
const MAX_SLUG: usize = 24;
pub(super) const MAX_TOOL_NAME: usize = 32;

/// A paired device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub id: DeviceId,
    /// As its owner calls it; need not be unique.
    pub name: String,
    /// The part of its tools' names that is its own; unique.
    pub slug: String,
    pub platform: String,
    pub metadata: Map<String, Value>,
    pub created_at: Timestamp,
    pub last_seen_at: Option<Timestamp>,
}

impl Device {
    /// How an agent calls one of its tools. Slugs are chosen so that two names never meet.
    #[must_use]
    pub fn tool_name(&self, tool: &str) -> String {
        format!("{}{tool}", self.tool_prefix())
    }

    #[must_use]
    pub fn tool_prefix(&self) -> String {
        format!("device_{}_", self.slug)
    }
}

/// What a device says of itself when it is paired.
#[derive(Debug, Clone)]
pub(crate) struct NewDevice {
    pub(super) name: String,
    pub(super) platform: String,
    pub(super) metadata: Map<String, Value>,
}

impl NewDevice {
    /// Drops tags from everything that the device says of itself.
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
            problems.require(!text.chars().any(char::is_control), field, "must not hold control characters");
        }
        let size = Value::from(self.metadata.clone()).to_string().len();
        let message = format!("must be at most {MAX_METADATA_BYTES} bytes of JSON");
        problems.require(size <= MAX_METADATA_BYTES, "metadata", message);
        problems
    }
}

/// Whether the text has the form of a device's token, and may be looked up.
#[must_use]
pub(super) fn is_token(text: &str) -> bool {
    text.strip_prefix(TOKEN_PREFIX)
        .is_some_and(|digits| digits.len() == TOKEN_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The slug of a new device: its name, as far as that can stand in a tool's name. A number tells devices of one
/// name apart. `None` when all are taken.
#[must_use]
pub(super) fn free_slug(name: &str, taken: &[String]) -> Option<String> {
    // Of `a_b` beside `a`, the tool `c` would be called like `b_c` of the other, whatever the number.
    let names = [name.to_owned(), name.replace('_', "-")];
    let mut wanted = names.iter().flat_map(|name| (1..=MOST_DEVICES + 1).map(move |number| slug(name, number)));
    wanted.find(|slug| !taken.iter().any(|other| may_meet(slug, other)))
}

/// Whether a tool of one could have the name of a tool of the other.
fn may_meet(one: &str, other: &str) -> bool {
    let begins = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    one == other || begins(one, other) || begins(other, one)
}

/// What of a name can stand in a tool's name: `[a-zA-Z0-9_-]`, 24 characters at most.
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
    slug.truncate(MAX_SLUG - ending.len());
    let plain = slug.trim_end_matches('-');
    let plain = if plain.is_empty() { "device" } else { plain };
    format!("{plain}{ending}")
}

/// Whether a device may call a tool so.
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
    fn a_name_becomes_part_of_a_tools_name() {
        assert_eq!(slug("Ada's MacBook_Pro", 1), "Ada-s-MacBook_Pro");
        assert_eq!(slug("my_laptop", 1), "my_laptop");
        assert_eq!(slug("laptop", 2), "laptop-2");
        assert_eq!(slug("机器", 1), "device");
        assert_eq!(slug("机器", 12), "device-12");
    }

    #[test]
    fn the_tools_of_two_devices_never_have_one_name() {
        let taken = |slugs: &[&str]| slugs.iter().map(|slug| (*slug).to_owned()).collect::<Vec<_>>();
        let free = |name: &str, slugs: &[&str]| free_slug(name, &taken(slugs)).unwrap();
        assert_eq!(free("Laptop1", &["laptop1"]), "Laptop1");
        assert_eq!(free("laptop", &["laptop", "laptop-2"]), "laptop-3");
        assert_eq!(free("my_laptop", &["my"]), "my-laptop");
        assert_eq!(free("my", &["my_laptop"]), "my-2");
        assert_eq!(free_slug("x", &(1..=MOST_DEVICES + 1).map(|number| slug("x", number)).collect::<Vec<_>>()), None);
    }

    #[test]
    fn a_token_has_one_form() {
        assert!(is_token(&format!("dev_{}", "0a".repeat(32))));
        for other in ["", "dev_", "svc_0123", &format!("svc_{}", "0a".repeat(32)), &format!("dev_{}", "x".repeat(64))] {
            assert!(!is_token(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_vendor_takes_every_tools_name(name in ".{1,64}", number in 1usize..=100, tool in "[a-zA-Z0-9_-]{1,32}") {
            let slug = slug(&name, number);
            prop_assert!(is_tool_name(&tool));
            let full = format!("device_{slug}_{tool}");
            prop_assert!(full.len() <= 64, "{full}");
            prop_assert!(full.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
            prop_assert!(!slug.is_empty());
        }
    }
}
