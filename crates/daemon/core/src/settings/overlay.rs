//! Deep merge of JSON objects: nested objects are merged, all other values are replaced. Fields are addressed by dotted
//! paths.

use serde_json::{Map, Value};

/// Merges `change` into `target`, field by field, at any depth.
pub(super) fn merge(target: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (name, value) in change {
        match (target.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(change)) => merge(inner, change),
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Returns the field at `path`.
pub(super) fn find<'f>(fields: &'f Map<String, Value>, path: &str) -> Option<&'f Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (fields.get(first), rest) {
        (Some(Value::Object(inner)), Some(rest)) => find(inner, rest),
        (found, None) => found,
        _ => None,
    }
}

/// Removes and returns the field at `path`.
pub(super) fn take(fields: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => fields.remove(path),
        Some((first, rest)) => match fields.get_mut(first) {
            Some(Value::Object(inner)) => take(inner, rest),
            _ => None,
        },
    }
}

/// Sets the field at `path`, if its parent object exists.
pub(super) fn put(fields: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            fields.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            if let Some(Value::Object(inner)) = fields.get_mut(first) {
                put(inner, rest, value);
            }
        }
    }
}

/// Removes the field that a problem at `path` refers to, without its siblings.
pub(super) fn prune(fields: &mut Map<String, Value>, path: &str) {
    let (first, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    match (fields.get_mut(first), rest.strip_prefix('.')) {
        (Some(Value::Object(inner)), Some(rest)) => prune(inner, rest),
        _ => {
            fields.remove(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn objects_are_merged_and_other_values_replaced() {
        let mut target = object(json!({"a": {"x": 1, "y": [1, 2]}, "b": 1}));
        merge(&mut target, &object(json!({"a": {"y": [3]}, "b": {"c": 1}, "d": null})));
        assert_eq!(Value::Object(target), json!({"a": {"x": 1, "y": [3]}, "b": {"c": 1}, "d": null}));
    }

    #[test]
    fn paths_address_nested_fields() {
        let mut fields = object(json!({"a": {"secret": "s", "x": 1}, "b": 2}));
        assert_eq!(take(&mut fields, "a.secret"), Some(json!("s")));
        assert_eq!((take(&mut fields, "a.secret"), take(&mut fields, "b.x")), (None, None));
        put(&mut fields, "a.secret", json!({"set": true}));
        put(&mut fields, "none.secret", json!(1));
        assert_eq!(Value::Object(fields.clone()), json!({"a": {"secret": {"set": true}, "x": 1}, "b": 2}));
    }

    #[test]
    fn prune_removes_only_the_named_field() {
        let mut fields = object(json!({"a": {"list": [1, "x"], "x": 1}, "b": [2], "c": 3}));
        for path in ["a.list[1]", "b[0]", "c.deep", "unknown"] {
            prune(&mut fields, path);
        }
        assert_eq!(Value::Object(fields), json!({"a": {"x": 1}}));
    }
}
