//! How a change is laid over a section: an object inside an object is laid over likewise, whatever
//! else is given takes the place of what was there. Fields inside are named by dotted paths.

use serde_json::{Map, Value};

/// Lays `change` over `target`, field by field, at any depth.
pub(super) fn lay_over(target: &mut Map<String, Value>, change: &Map<String, Value>) {
    for (name, value) in change {
        match (target.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(change)) => lay_over(inner, change),
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The field at `path`.
pub(super) fn find<'f>(fields: &'f Map<String, Value>, path: &str) -> Option<&'f Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (fields.get(first), rest) {
        (Some(Value::Object(inner)), Some(rest)) => find(inner, rest),
        (found, None) => found,
        _ => None,
    }
}

/// Takes the field at `path` out.
pub(super) fn take(fields: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => fields.remove(path),
        Some((first, rest)) => match fields.get_mut(first) {
            Some(Value::Object(inner)) => take(inner, rest),
            _ => None,
        },
    }
}

/// Puts `value` at `path`, if the object that holds it is there.
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

/// Takes out what a problem at `path` is to blame on, and leaves its neighbours.
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
    fn objects_are_laid_over_and_everything_else_is_replaced() {
        let mut target = object(json!({"a": {"x": 1, "y": [1, 2]}, "b": 1}));
        lay_over(&mut target, &object(json!({"a": {"y": [3]}, "b": {"c": 1}, "d": null})));
        assert_eq!(Value::Object(target), json!({"a": {"x": 1, "y": [3]}, "b": {"c": 1}, "d": null}));
    }

    #[test]
    fn paths_lead_inside() {
        let mut fields = object(json!({"a": {"secret": "s", "x": 1}, "b": 2}));
        assert_eq!(take(&mut fields, "a.secret"), Some(json!("s")));
        assert_eq!((take(&mut fields, "a.secret"), take(&mut fields, "b.x")), (None, None));
        put(&mut fields, "a.secret", json!({"set": true}));
        put(&mut fields, "none.secret", json!(1));
        assert_eq!(Value::Object(fields.clone()), json!({"a": {"secret": {"set": true}, "x": 1}, "b": 2}));
    }

    #[test]
    fn only_what_is_to_blame_is_pruned() {
        let mut fields = object(json!({"a": {"list": [1, "x"], "x": 1}, "b": [2], "c": 3}));
        for path in ["a.list[1]", "b[0]", "c.deep", "unknown"] {
            prune(&mut fields, path);
        }
        assert_eq!(Value::Object(fields), json!({"a": {"x": 1}}));
    }
}
