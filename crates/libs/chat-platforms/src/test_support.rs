//! Helpers for the tests of several platforms.

use agentd_base::{Secret, Timestamp};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use proptest::prelude::*;
use serde_json::Value;

pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_795_600_000_000_000);

pub(crate) fn client(trust: Trust) -> GuardedClient {
    GuardedClient::new(PolicyHandle::default(), trust)
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// Sets these fields of an object.
pub(crate) fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// Generates JSON with these names, which also occur as texts.
pub(crate) fn any_json(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_i64..20).prop_map(Value::from),
        "[0-9]{1,24}(\\.[0-9]{0,9})?".prop_map(Value::from),
        prop::sample::select(names).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 10, move |inner| {
        let fields = prop::collection::hash_map(prop::sample::select(names), inner.clone(), 0..10);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..5).prop_map(Value::from),
            3 => fields.prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Generates any JSON, and valid events with one value replaced, which exercise deeper code.
pub(crate) fn any_event(events: Vec<Value>, names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let nearly_right = (prop::sample::select(events), prop::collection::vec(any::<prop::sample::Index>(), 1..9))
        .prop_flat_map(move |(event, path)| {
            any_json(names).prop_map(move |other| {
                let mut event = event.clone();
                replace(&mut event, &path, other);
                event
            })
        });
    prop_oneof![any_json(names), nearly_right]
}

/// Replaces the value at the path, as far as the path exists.
fn replace(value: &mut Value, path: &[prop::sample::Index], other: Value) {
    let Some((at, rest)) = path.split_first() else {
        *value = other;
        return;
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let at = at.index(fields.len());
            replace(fields.values_mut().nth(at).unwrap(), rest, other);
        }
        Value::Array(items) if !items.is_empty() => {
            let at = at.index(items.len());
            replace(&mut items[at], rest, other);
        }
        leaf => *leaf = other,
    }
}
