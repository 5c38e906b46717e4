//! The document: committed, served, and the same.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::TestApp;
use crate::support::document::{DOCUMENT, TEXT, operations};

#[test]
fn the_committed_document_is_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).expect("docs/openapi.json");
    assert!(
        committed == *TEXT,
        "docs/openapi.json is not what the code says; run `make openapi` and look at the difference"
    );
}

#[tokio::test]
async fn documentation_page_allows_its_own_assets_alone() {
    let app = TestApp::start().await;
    for path in ["/api/docs", "/api/docs/", "/api/docs/index.html"] {
        let page = app.get(path).send().await.expect_status(200);
        let policy = page.header("content-security-policy").expect("a policy").to_owned();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

#[tokio::test]
async fn the_served_document_is_the_committed_one() {
    let app = TestApp::start().await;
    let served = app.get("/api/openapi.json").send().await.expect_status(200).json();
    assert_eq!(served, *DOCUMENT);
    let page = app.get("/api/docs").send().await.expect_status(200);
    assert!(page.text().contains("swagger-ui"));
    for file in ["swagger-ui.css", "swagger-ui-bundle.js", "swagger-initializer.js"] {
        assert!(page.text().contains(file), "{file} is on the page");
        let plain = app.get(&format!("/api/docs/{file}")).send().await.expect_status(200);
        assert_eq!(plain.header("content-encoding"), None, "{file}");
    }
    app.get("/api/docs/../../etc/passwd").send().await;
    app.get("/api/docs/no-such-file").send().await.expect_status(404);
}

/// The names of the fields of an answer.
fn fields_of(schema: &Value) -> BTreeSet<String> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(reference.trim_start_matches('#')).expect("a schema"),
        None => schema,
    };
    let own = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys().cloned());
    let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(fields_of);
    own.chain(parts).collect()
}

/// The rule of docs/reference/api.md, whose table names every exception.
#[test]
fn actions_answer_the_thing_they_acted_on() {
    let shown = |path: &str| operations().iter().find(|one| one.method == "get" && one.path == path);
    let answer =
        |value: &Value, status: &str| value["responses"][status]["content"]["application/json"]["schema"].clone();
    let mut exceptions = BTreeSet::new();
    for action in operations().iter().filter(|one| one.method == "post" && !one.path.ends_with('}')) {
        let Some((thing, _)) = action.path.rsplit_once('/').filter(|(thing, _)| thing.ends_with('}')) else { continue };
        let Some(shown) = shown(thing) else { continue };
        let (answered, fields) = (fields_of(&answer(&action.value, "200")), fields_of(&answer(&shown.value, "200")));
        if answered.is_empty() || !answered.is_subset(&fields) {
            exceptions.insert(format!("POST {}", action.path));
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/api.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/api.md");
    let named = page.lines().filter_map(|line| line.strip_prefix("| `POST ")?.split('`').next());
    let named: BTreeSet<String> = named.map(|path| format!("POST {path}")).collect();
    assert_eq!(exceptions, named, "docs/reference/api.md names what actions answer something else");
}

#[test]
fn every_operation_says_what_it_is() {
    let mut ids = BTreeSet::new();
    for operation in operations() {
        let name = format!("{} {}", operation.method, operation.path);
        assert!(ids.insert(operation.id.clone()), "{name}: operationId {} stands twice", operation.id);
        assert!(operation.value["tags"].as_array().is_some_and(|tags| tags.len() == 1), "{name} needs one tag");
        for variable in operation.path.split('{').skip(1).filter_map(|part| part.split('}').next()) {
            let path_parameters = operation.value["parameters"].as_array().into_iter().flatten();
            let mut path_parameters =
                path_parameters.filter(|parameter| parameter["in"] == "path" && parameter["name"] == variable);
            assert!(path_parameters.next().is_some(), "{name} does not describe {variable}");
        }
        let responses = operation.value["responses"].as_object().expect("responses");
        let is_success = |status: &String| status.starts_with('2') || status == "101";
        assert!(responses.keys().any(is_success), "{name} needs a success");
        for (status, response) in responses {
            if status.starts_with('4') || status.starts_with('5') {
                let schema = &response["content"]["application/json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/ErrorBody", "{name} {status}");
            }
        }
    }
    assert!(ids.len() > 30, "the document has lost its operations");
}

/// Operation ids that begin with a noun, and the verb of their summaries.
const VERBS_OF_NOUNS: [(&str, &str); 6] = [
    ("login", "log"),
    ("logout", "log"),
    ("setup_account", "create"),
    ("setup_agent", "create"),
    ("setup_complete", "complete"),
    ("setup_provider", "configure"),
];

/// Verbs that a summary may use instead of the one of the operation id.
const SYNONYMS: [(&str, &[&str]); 6] = [
    ("act", &["perform"]),
    ("create", &["register"]),
    ("delete", &["revoke", "remove", "end"]),
    ("get", &["check"]),
    ("setup", &["get"]),
    ("toggle", &["enable"]),
];

/// A summary is an imperative verb and an object, in at most six words.
#[test]
fn summaries_follow_from_operation_ids() {
    let mut wrong = Vec::new();
    for operation in operations() {
        let summary = operation.value["summary"].as_str().unwrap_or_default();
        let id = operation.id.as_str();
        let verb = VERBS_OF_NOUNS
            .iter()
            .find(|(noun, _)| *noun == id)
            .map_or_else(|| id.split('_').next().unwrap_or_default(), |(_, verb)| *verb);
        let allowed = SYNONYMS.iter().find(|(of, _)| *of == verb).map_or(&[][..], |(_, synonyms)| *synonyms);
        let words: Vec<&str> = summary.split_whitespace().collect();
        let first = words.first().map(|word| word.to_lowercase()).unwrap_or_default();
        if first != verb && !allowed.contains(&first.as_str()) {
            wrong.push(format!("{id}: `{summary}` does not begin with `{verb}`"));
        }
        if !(2..=6).contains(&words.len()) || summary.ends_with('.') || !summary.starts_with(char::is_uppercase) {
            wrong.push(format!("{id}: `{summary}` is not two to six words in sentence case without a full stop"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The schema as it is written out, behind references and beside defaults.
fn schema_of(name: &str) -> &'static Value {
    &DOCUMENT["components"]["schemas"][name]
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let mut found = BTreeSet::new();
    references(&DOCUMENT, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference} is not there");
    }
    // Two ids of one name would be one schema.
    for (name, prefix) in [("HookDeliveryId", "`dlv_`"), ("WebhookDeliveryId", "`wdl_`")] {
        assert!(schema_of(name)["description"].as_str().is_some_and(|text| text.contains(prefix)), "{name}");
    }
}

#[test]
fn tags_have_one_style() {
    for operation in operations() {
        let tag = operation.value["tags"][0].as_str().expect("a tag");
        assert!(tag.bytes().all(|byte| byte.is_ascii_lowercase()), "{}: `{tag}`", operation.id);
    }
}

#[tokio::test]
async fn every_category_of_the_settings_is_described() {
    let app = TestApp::with_owner().await;
    let all = app.get("/api/settings").send().await.expect_status(200).json();
    let answered: BTreeSet<&str> = all.as_object().expect("categories").keys().map(String::as_str).collect();
    let schema = schema_of("AllSettings");
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    assert_eq!(required.collect::<BTreeSet<_>>(), answered);
    for category in &answered {
        assert!(schema["properties"][category]["$ref"].is_string(), "{category}");
    }
    let reset = operations().iter().find(|operation| operation.id == "reset_settings").expect("it is there");
    assert!(reset.value["description"].as_str().is_some_and(|text| text.contains("sandbox")));
}

/// A default stands where programs read it, and is the one that holds.
#[tokio::test]
async fn defaults_stand_in_the_schemas() {
    let app = TestApp::with_owner().await;
    let all = app.get("/api/settings").send().await.expect_status(200).json();
    for (category, reference) in schema_of("AllSettings")["properties"].as_object().expect("categories") {
        // There are no custom tools at first.
        if category == "skills" {
            continue;
        }
        let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).expect("a reference");
        for (field, schema) in schema_of(name)["properties"].as_object().expect("fields") {
            let beside = schema["allOf"].as_array().or(schema["oneOf"].as_array()).into_iter().flatten();
            let mut defaults = std::iter::once(schema).chain(beside).filter_map(|schema| schema.get("default"));
            assert_eq!(defaults.next(), Some(&all[category][field]), "{category}.{field}");
        }
    }
    for operation in operations() {
        for parameter in operation.value["parameters"].as_array().into_iter().flatten() {
            let name = format!("{} of {}", parameter["name"], operation.id);
            let description = parameter["description"].as_str().unwrap_or_default().to_lowercase();
            let is_page =
                ["limit", "offset"].iter().any(|page| parameter["name"] == *page) && !description.contains("left out");
            // What depends on the time of the request is said in words.
            let is_in_words = description.contains("default:");
            let has_default = !parameter["schema"]["default"].is_null();
            assert!(
                has_default || !(is_page || description.contains("default")) || is_in_words,
                "{name} has a default"
            );
        }
    }
    let default_of = |id: &str, name: &str| {
        let operation = operations().iter().find(|operation| operation.id == id).expect("it is there");
        let mut parameters = operation.value["parameters"].as_array().into_iter().flatten();
        parameters.find(|parameter| parameter["name"] == name).expect("it is there")["schema"]["default"].clone()
    };
    assert_eq!((default_of("list_jobs", "limit"), default_of("search_memory", "limit")), (50.into(), 10.into()));
    assert_eq!(
        (default_of("search_memory", "mode"), default_of("get_hook_analytics", "period")),
        ("hybrid".into(), "hourly".into())
    );
}

/// Operations that a page opens as a download, where it cannot send headers either.
const DOWNLOADS: &[&str] = &["read_agent_file", "download_backup", "export_settings", "export_memory"];

/// A browser opens a stream without headers: what takes a ticket in its address must say so.
#[test]
fn streams_say_that_they_take_a_ticket() {
    let schemes = DOCUMENT["components"]["securitySchemes"].as_object().expect("schemes");
    assert_eq!((&schemes["ticket"]["in"], &schemes["ticket"]["name"]), (&"query".into(), &"ticket".into()));
    let mut streams = 0;
    for operation in operations() {
        let requirements = operation.value["security"].as_array().cloned().unwrap_or_default();
        let named: Vec<&String> = requirements.iter().filter_map(|one| one.as_object()?.keys().next()).collect();
        assert!(named.iter().all(|name| schemes.contains_key(*name)), "{}: {named:?}", operation.id);
        let responses = &operation.value["responses"];
        // A device has a token of its own.
        let is_socket = !responses["101"].is_null() && !named.iter().any(|name| *name == "device_token");
        let is_stream = is_socket || !responses["200"]["content"]["text/event-stream"].is_null();
        let takes_ticket = named.iter().any(|name| *name == "ticket");
        let is_followed = is_stream && operation.method == "get";
        let is_download = DOWNLOADS.contains(&operation.id.as_str());
        assert_eq!(takes_ticket, is_followed || is_download, "{}", operation.id);
        streams += usize::from(is_followed);
    }
    assert!(streams > 0, "there are streams");
}

/// Collects the fields of a schema that nothing describes. A reference is described by its type.
fn undescribed_fields(name: &str, schema: &Value, problems: &mut Vec<String>) {
    for (field, value) in schema["properties"].as_object().into_iter().flatten() {
        // The tag of a variant is its name.
        let is_tag = field == "type" && value["enum"].as_array().is_some_and(|values| values.len() == 1);
        if value["description"].is_null() && value["$ref"].is_null() && !is_tag {
            problems.push(format!("{name}.{field}"));
        }
    }
    for parts in ["oneOf", "allOf"] {
        for part in schema[parts].as_array().into_iter().flatten() {
            undescribed_fields(name, part, problems);
        }
    }
}

#[test]
fn types_fields_and_parameters_are_described() {
    let mut problems = Vec::new();
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().expect("schemas") {
        if schema["description"].is_null() {
            problems.push(name.clone());
        }
        undescribed_fields(name, schema, &mut problems);
    }
    for operation in operations() {
        for parameter in operation.value["parameters"].as_array().into_iter().flatten() {
            if parameter["description"].as_str().is_none_or(str::is_empty) {
                problems.push(format!("{} {}", operation.id, parameter["name"]));
            }
        }
    }
    assert!(problems.is_empty(), "without a description: {problems:?}");
}
