use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(serde::Deserialize, ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Inner {
    #[schema(minimum = 1, maximum = 5)]
    level: i64,
}

#[derive(serde::Deserialize, ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
#[serde(deny_unknown_fields)]
struct Outer {
    #[schema(min_length = 3)]
    name: String,
    inner: Option<Inner>,
    #[serde(default)]
    #[schema(max_items = 2)]
    tags: Vec<String>,
}

fn problems_of(value: &Value) -> Vec<String> {
    let mut problems = Problems::new();
    check::<Outer>(&mut value.clone(), &mut problems);
    let list = problems.into_result().err().unwrap_or_default();
    list.into_iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect()
}

#[test]
fn check_reports_every_invalid_field() {
    let found = problems_of(&json!({"name": "ab", "inner": {"level": 9}, "tags": ["a", 1, "b"], "nmae": 1}));
    assert_eq!(
        found,
        [
            "inner.level: must be between 1 and 5",
            "name: must have at least 3 characters",
            "nmae: is unknown; known fields: inner, name, tags",
            "tags: must have at most 2 entries",
            "tags[1]: must be a string, not a number",
        ]
    );
}

#[derive(serde::Deserialize, ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct Union {
    one_or_several: OneOrSeveral,
    #[schema(minimum = 0, maximum = 9)]
    bounded: Option<u64>,
    free: Option<i64>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum OneOrSeveral {
    One(String),
    Several(Vec<String>),
}

impl utoipa::PartialSchema for OneOrSeveral {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
        let name = || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1));
        let several = ArrayBuilder::new().items(name()).min_items(Some(1)).max_items(Some(3));
        OneOfBuilder::new().item(name()).item(several).into()
    }
}

impl ToSchema for OneOrSeveral {}

#[test]
fn union_error_refers_to_the_closest_alternative() {
    let found = |value: Value| {
        let mut problems = Problems::new();
        check::<Union>(&mut value.clone(), &mut problems);
        problems.into_result().unwrap_err().remove(0).message
    };
    let union_error = |value: Value| found(json!({"one_or_several": value}));
    assert_eq!(union_error(json!(["a", "b", "c", "d"])), "must have at most 3 entries");
    assert_eq!(union_error(json!([])), "must not be empty");
    assert_eq!(union_error(json!([""])), "must not be empty");
    assert_eq!(union_error(json!("")), "must not be empty");
    assert_eq!(union_error(json!(7)), "must be a string or a list, not a number");
    let huge: Value = serde_json::from_str("99999999999999999999").unwrap();
    assert_eq!(found(json!({"one_or_several": "a", "bounded": huge})), "must be between 0 and 9");
    let low: Value = serde_json::from_str("-99999999999999999999").unwrap();
    assert_eq!(found(json!({"one_or_several": "a", "free": low})), format!("must be at least {}", i64::MIN));
    assert_eq!(found(json!({"one_or_several": "a", "free": 0.5})), "must be a whole number, not a fraction");
}

#[test]
fn valid_values_and_nullable_fields_pass() {
    assert!(problems_of(&json!({"name": "abc", "inner": null})).is_empty());
    assert!(problems_of(&json!({"name": "abc", "inner": {"level": 5}})).is_empty());
}

#[test]
fn integer_written_as_fraction_is_accepted() {
    let mut value = json!({"name": "abc", "inner": {"level": 5.0}});
    let mut problems = Problems::new();
    check::<Outer>(&mut value, &mut problems);
    assert!(problems.is_empty());
    assert_eq!(value["inner"]["level"].as_i64(), Some(5));
    let outer: Outer = serde_json::from_value(value).unwrap();
    assert_eq!(outer.inner.unwrap().level, 5);
    assert_eq!(problems_of(&json!({"name": "abc", "inner": {"level": 6.0}})), ["inner.level: must be between 1 and 5"]);
}

#[test]
fn nul_character_is_rejected() {
    assert_eq!(problems_of(&json!({"name": "a\u{0}bc"})), ["name: must not contain the NUL character"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(name|inner|level|tags|x)", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_value_deserializes(value in any_json()) {
        let (mut value, mut problems) = (value, Problems::new());
        check::<Outer>(&mut value, &mut problems);
        if problems.is_empty() {
            prop_assert!(serde_json::from_value::<Outer>(value).is_ok());
        }
    }

    #[test]
    fn sanitized_value_is_valid(value in any_json()) {
        let sanitized = checked::<Outer>().sanitized(value.clone());
        let mut problems = Problems::new();
        check::<Outer>(&mut sanitized.clone(), &mut problems);
        prop_assert!(problems.is_empty() || value.to_string().contains("\\u0000"));
        prop_assert!(serde_json::from_value::<Outer>(sanitized).is_ok());
    }
}
