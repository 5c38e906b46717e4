//! Positions of subschemas in schemas.

use serde_json::{Map, Value};

/// Returns the subschemas that apply to the same value as the schema, without references.
pub(super) fn in_place(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    let single = ["not", "if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
    // `dependencies` of older drafts may contain lists of names too.
    let by_name =
        ["dependentSchemas", "dependencies"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
    lists.flatten().chain(single).chain(by_name.flat_map(Map::values).filter(|part| !part.is_array()))
}

/// Returns the subschemas that apply to parts of the value: members, member names, items.
pub(super) fn below(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    const SINGLE: [&str; 7] = [
        "additionalItems",
        "additionalProperties",
        "contains",
        "items",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    ];
    let single = SINGLE.into_iter().filter_map(|keyword| schema.get(keyword));
    let lists = ["prefixItems", "items"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    let by_name =
        ["properties", "patternProperties"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
    single.filter(|part| !part.is_array()).chain(lists.flatten()).chain(by_name.flat_map(Map::values))
}
