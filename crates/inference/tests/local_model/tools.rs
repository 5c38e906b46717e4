//! Tool calls with real weights, and with a process that dies over them.

use std::path::Path;

use agentd_inference::tools::{PastCall, ToolSpec, call, decide};
use agentd_inference::{LocalErrorCode, LocalModel};
use serde_json::json;

use crate::child;
use crate::real::model_file;

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, description: &str, input_schema| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
    };
    vec![
        tool(
            "write_file",
            "Write a text file.",
            json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string", "maxLength": 4000}},
                   "required": ["path", "content"], "additionalProperties": false}),
        ),
        tool(
            "plan_party",
            "Plan a party.",
            json!({"type": "object", "properties": {
                       "mood": {"enum": ["quiet", "wild"]},
                       "guests": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
                       "place": {"type": "object", "properties": {"street": {"type": "string", "maxLength": 30}, "number": {"type": "integer", "minimum": 1, "maximum": 99}},
                                 "required": ["street", "number"], "additionalProperties": false}},
                   "required": ["mood", "guests", "place"], "additionalProperties": false}),
        ),
    ]
}

#[tokio::test]
async fn what_is_made_up_is_valid_whatever_its_shape() {
    let Some(file) = model_file() else { return };
    let model = LocalModel::new(child::options("engine"));
    for (message, name) in
        [("Write a short poem about rain to rain.txt", "write_file"), ("Plan a party for my sister", "plan_party")]
    {
        let plan = decide(&tools(), message, &[]).unwrap();
        assert!(!plan.is_complete());
        let called = call(&model, &file, plan).await.unwrap();
        println!("{called:?}");
        assert_eq!(called.tool, name);
        assert!(called.output_tokens > 0 && called.input_tokens > 0);
        let schema = tools().into_iter().find(|tool| tool.name == name).unwrap().input_schema;
        assert!(jsonschema::is_valid(&schema, &called.input.unwrap()));
    }
}

#[tokio::test]
async fn what_stands_in_the_message_needs_no_process() {
    let model = LocalModel::new(child::options("engine"));
    let past = [PastCall { name: "other".to_owned(), input: json!({}), result: String::new(), failed: false }];
    let message = "Write \"x\" to a.txt";
    assert!(decide(&tools(), message, &past).is_none());
    let called = call(&model, Path::new("/nonexistent.gguf"), decide(&tools(), message, &[]).unwrap()).await.unwrap();
    assert_eq!(called.input, Some(json!({"path": "a.txt", "content": "x"})));
    assert_eq!((called.output_tokens, model.status().process_id), (0, None));
}

#[tokio::test]
async fn a_process_that_dies_over_a_call_is_an_error() {
    let model = LocalModel::new(child::options("scripted"));
    let plan = decide(&tools(), "Write a short poem about rain to rain.txt", &[]).unwrap();
    let error = call(&model, Path::new("/dev/null"), plan).await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable, "{error}");
}
