//! Official JSON-Schema-Test-Suite, drafts 7 and 2020-12, without its optional parts. `suite` contains its files as
//! distributed with `jsonschema` 4.26.0 for Python (PyPI), under the included MIT licence.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use agentd_json_schema::{Schema, SchemaError};
use serde_json::{Value, json};

const STEPS: u64 = 1_000_000;

/// Runs all tests of a draft. Returns the number of rejected schemas per file.
fn refused(folder: &str, draft: &str) -> BTreeMap<String, usize> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite").join(folder);
    let mut refused = BTreeMap::new();
    let mut failures = Vec::new();
    let mut tests = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for group in groups {
            let mut schema = group["schema"].clone();
            if let Value::Object(keywords) = &mut schema {
                keywords.entry("$schema").or_insert(json!(draft));
            }
            let schema = match Schema::new(schema) {
                Ok(schema) => schema,
                Err(SchemaError::Invalid(problem)) if !problem.contains("http") => {
                    panic!("{name}: {}: {problem}", group["description"]);
                }
                Err(_) => {
                    *refused.entry(name.to_owned()).or_default() += 1;
                    continue;
                }
            };
            for test in group["tests"].as_array().unwrap() {
                tests += 1;
                let verdict = schema.validate(&test["data"], STEPS);
                if verdict.is_ok() != (test["valid"] == true) {
                    failures.push(format!("{name}: {}: {}: {verdict:?}", group["description"], test["description"]));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(tests > 800, "{tests}");
    refused
}

fn counts<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

/// References to other documents, anchors and dynamic references are rejected.
#[test]
fn draft_7_matches_the_suite() {
    let expected = counts([("definitions", 1), ("ref", 16), ("refRemote", 11)]);
    assert_eq!(refused("draft7", "http://json-schema.org/draft-07/schema#"), expected);
}

#[test]
fn draft_2020_12_matches_the_suite() {
    let expected = counts([
        ("anchor", 4),
        ("defs", 1),
        ("dynamicRef", 20),
        ("ref", 15),
        ("refRemote", 15),
        ("unevaluatedItems", 1),
        ("unevaluatedProperties", 1),
        ("vocabulary", 2),
    ]);
    assert_eq!(refused("draft2020-12", "https://json-schema.org/draft/2020-12/schema"), expected);
}
