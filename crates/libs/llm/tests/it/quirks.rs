//! Deviations of vendors and compatible servers from the documentation: a recorded stream for each, and the expected
//! result. The result of a stream is independent of chunk boundaries and of its line format.

use agentd_llm::{FinishReason, ModelError, ModelEvent, UsageSource, Vendor};
use agentd_testing_llm::{Ending, Reply};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::play;
use crate::transcripts::Transcript;

/// Result of a response.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    text: String,
    reasoning: String,
    /// Name and input of each call.
    calls: Vec<(String, Value)>,
    reason: FinishReason,
    /// Input and output tokens, if the vendor reported them.
    tokens: Option<(u64, u64)>,
}

fn text_answer(text: &str) -> Answer {
    Answer {
        text: text.to_owned(),
        reasoning: String::new(),
        calls: Vec::new(),
        reason: FinishReason::Stop,
        tokens: Some((120, 8)),
    }
}

fn calls<const N: usize>(calls: [(&str, Value); N]) -> Answer {
    Answer {
        calls: calls.map(|(name, input)| (name.to_owned(), input)).into(),
        reason: FinishReason::ToolUse,
        ..text_answer("")
    }
}

fn ends(reason: FinishReason) -> Answer {
    Answer { reason, ..text_answer("") }
}

impl Answer {
    fn thinking(self, reasoning: &str) -> Self {
        Self { reasoning: reasoning.to_owned(), ..self }
    }

    fn ending(self, reason: FinishReason) -> Self {
        Self { reason, ..self }
    }

    fn uncounted(self) -> Self {
        Self { tokens: None, ..self }
    }

    fn counting(self, input: u64, output: u64) -> Self {
        Self { tokens: Some((input, output)), ..self }
    }
}

fn oslo() -> (&'static str, Value) {
    ("weather", json!({"city": "Oslo"}))
}

fn rome() -> (&'static str, Value) {
    ("weather", json!({"city": "Rome"}))
}

const DONE: &str = "data: [DONE]\n\n";

fn events(events: impl IntoIterator<Item = Value>) -> String {
    events.into_iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn usage() -> Value {
    json!({"prompt_tokens": 120, "completion_tokens": 8, "total_tokens": 128})
}

fn delta(delta: Value) -> Value {
    json!({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn text(text: &str) -> Value {
    delta(json!({ "content": text }))
}

fn finish(reason: &str, usage: Value) -> Value {
    json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
}

/// Builds a fragment of a tool call.
fn call(call: Value) -> Value {
    delta(json!({ "tool_calls": [call] }))
}

/// Builds a stream in OpenAI's format: these chunks, a finish reason with usage, and the end marker.
fn openai<const N: usize>(chunks: [Value; N], reason: &str) -> String {
    events(chunks.into_iter().chain([finish(reason, usage())])) + DONE
}

/// Builds a stream in Anthropic's format: these events between `message_start` and the end.
fn anthropic<const N: usize>(blocks: [Value; N], reason: &str) -> String {
    let start = json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 120, "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 8}});
    events([start].into_iter().chain(blocks).chain([end, json!({"type": "message_stop"})]))
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn block_delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

/// Builds a stream in Google's format: one chunk with these parts.
fn google(parts: Value, reason: &str) -> String {
    events([json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 8, "totalTokenCount": 128}, "responseId": "r"})])
}

struct Quirk {
    name: &'static str,
    vendor: Vendor,
    stream: fn() -> String,
    answer: fn() -> Answer,
}

macro_rules! quirks {
    ($($name:ident: $vendor:ident, $stream:expr => $answer:expr;)+) => {
        const QUIRKS: &[Quirk] = &[$(
            Quirk { name: stringify!($name), vendor: Vendor::$vendor, stream: || $stream, answer: || $answer },
        )+];
        $(#[tokio::test] async fn $name() { check(Vendor::$vendor, $stream, $answer).await; })+
    };
}

quirks! {
    // End of the response.
    end_marker_is_missing: Openai, events([text("Hi."), finish("stop", usage())]) => text_answer("Hi.");
    end_marker_is_not_terminated: Openai, events([text("Hi."), finish("stop", usage())]) + "data: [DONE]" => text_answer("Hi.");
    end_marker_is_lowercase: Openai, events([text("Hi."), finish("stop", usage())]) + "data: [done]\n\n" => text_answer("Hi.");
    last_event_is_not_terminated: Openai, events([text("Hi."), finish("stop", usage())]).trim_end().to_owned() => text_answer("Hi.");
    last_event_is_cut_off: Openai, events([text("Hi."), finish("stop", json!(null))]) + "data: {\"choices\":[],\"usa"
        => text_answer("Hi.").uncounted();
    finish_reason_is_missing: Openai, events([text("Hi.")]) + DONE => text_answer("Hi.").ending(FinishReason::Other).uncounted();
    finish_reason_is_empty_before_the_end: Openai,
        openai([json!({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": ""}]})], "stop") => text_answer("Hi.");
    finish_reason_is_the_text_null: Openai,
        openai([json!({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "null"}]})], "stop") => text_answer("Hi.");
    finish_reason_is_end: Openai, openai([text("Hi.")], "end") => text_answer("Hi.");
    finish_reason_is_unknown: Openai, openai([text("Hi.")], "elsewhere") => text_answer("Hi.").ending(FinishReason::Other);
    finish_reason_is_in_capitals: Openai, openai([text("Hi.")], "MAX_TOKENS") => text_answer("Hi.").ending(FinishReason::Length);
    finish_reason_of_calls_is_stop: Openai,
        openai([call(json!({"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}))], "stop")
        => calls([oslo()]);
    message_stop_is_missing: Anthropic,
        anthropic([block_delta(0, json!({"type": "text_delta", "text": "Hi."}))], "end_turn")
            .replace("data: {\"type\":\"message_stop\"}\n\n", "")
        => text_answer("Hi.");
    stop_reason_of_calls_is_end_turn: Anthropic,
        anthropic([block(0, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}))], "end_turn")
        => calls([oslo()]);
    every_piece_is_finished: Google,
        google(json!([{"text": "Hi"}]), "STOP") + &google(json!([{"text": " there."}]), "STOP") => text_answer("Hi there.");

    // Rejected, malformed and empty responses.
    call_is_malformed: Google, google(json!([]), "MALFORMED_FUNCTION_CALL") => ends(FinishReason::MalformedCall);
    call_is_malformed_in_openais_format: Openai, openai([], "function_call_filter: MALFORMED_FUNCTION_CALL")
        => ends(FinishReason::MalformedCall);
    call_is_malformed_behind_a_gateway: Openrouter,
        events([json!({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error",
            "native_finish_reason": "MALFORMED_FUNCTION_CALL"}], "usage": usage()})]) + DONE
        => ends(FinishReason::MalformedCall);
    answer_recites: Google, google(json!([{"text": "Once"}]), "RECITATION")
        => text_answer("Once").ending(FinishReason::ContentFilter);
    prompt_is_blocked: Google,
        events([json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 120, "totalTokenCount": 120}})])
        => ends(FinishReason::ContentFilter).counting(120, 0);
    model_refuses: Anthropic, anthropic([], "refusal") => ends(FinishReason::ContentFilter);
    refusal_has_its_own_field: Openai, openai([delta(json!({"content": null, "refusal": "No."}))], "stop")
        => text_answer("No.").ending(FinishReason::ContentFilter);
    choices_are_empty: Openai, events([json!({"choices": [], "usage": usage()})]) + DONE => ends(FinishReason::Other);

    // Tool calls.
    input_is_in_the_start: Anthropic,
        anthropic([block(0, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}}))], "tool_use")
        => calls([oslo()]);
    input_is_in_the_start_and_in_deltas: Anthropic,
        anthropic([block(0, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Oslo"}})),
            block_delta(0, json!({"type": "input_json_delta", "partial_json": "{\"city\": \"Oslo\"}"}))], "tool_use")
        => calls([oslo()]);
    input_is_empty_in_the_start: Anthropic,
        anthropic([block(0, json!({"type": "tool_use", "id": "a", "name": "weather", "input": {}})),
            block_delta(0, json!({"type": "input_json_delta", "partial_json": "{\"city\":"})),
            block_delta(0, json!({"type": "input_json_delta", "partial_json": " \"Oslo\"}"}))], "tool_use")
        => calls([oslo()]);
    blocks_share_an_index_without_ids: Anthropic,
        anthropic([block(0, json!({"type": "tool_use", "id": "", "name": "weather", "input": {"city": "Oslo"}})),
            block(0, json!({"type": "tool_use", "id": null, "name": "weather", "input": {}})),
            block_delta(0, json!({"type": "input_json_delta", "partial_json": "{\"city\": \"Rome\"}"}))], "tool_use")
        => calls([oslo(), rome()]);
    calls_share_an_index_with_empty_ids: Openai,
        openai([call(json!({"index": 0, "id": "", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}})),
            call(json!({"index": 0, "id": "", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}))], "tool_calls")
        => calls([oslo(), rome()]);
    calls_share_an_index_and_are_of_other_tools: Openai,
        openai([call(json!({"index": 0, "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}})),
            call(json!({"index": 0, "function": {"name": "clock", "arguments": "{}"}}))], "tool_calls")
        => calls([oslo(), ("clock", json!({}))]);
    calls_have_no_index: Openai,
        openai([delta(json!({"tool_calls": [
            {"id": "a", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
            {"id": "b", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]}))], "tool_calls")
        => calls([oslo(), rome()]);
    calls_share_an_index_and_stream_arguments: Openai,
        openai([call(json!({"index": 0, "function": {"name": "weather", "arguments": ""}})),
            call(json!({"index": 0, "function": {"arguments": "{\"city\":"}})),
            call(json!({"index": 0, "function": {"arguments": "\"Oslo\"}"}})),
            call(json!({"index": 0, "function": {"name": "weather", "arguments": ""}})),
            call(json!({"index": 0, "function": {"arguments": "{\"city\":\"Rome\"}"}}))], "tool_calls")
        => calls([oslo(), rome()]);
    name_is_in_each_fragment: Openai,
        openai([call(json!({"index": 0, "function": {"name": "weather", "arguments": "{\"city\":"}})),
            call(json!({"index": 0, "function": {"name": "weather", "arguments": "\"Oslo\"}"}}))], "tool_calls")
        => calls([oslo()]);
    arguments_begin_with_an_empty_object: Openai,
        openai([call(json!({"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{}"}})),
            call(json!({"index": 0, "function": {"arguments": "{\"city\": \"Oslo\"}"}}))], "tool_calls")
        => calls([oslo()]);
    arguments_are_an_object: Openai,
        openai([call(json!({"index": null, "id": 7, "function": {"name": "weather", "arguments": {"city": "Oslo"}}}))], "tool_calls")
        => calls([oslo()]);
    call_is_in_the_older_form: Openai,
        openai([delta(json!({"function_call": {"name": "weather", "arguments": "{\"city\":"}})),
            delta(json!({"function_call": {"arguments": "\"Oslo\"}"}}))], "function_call")
        => calls([oslo()]);
    message_is_not_streamed: Openai,
        events([json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}], "usage": usage()})]) + DONE
        => text_answer("Hi.");
    message_is_repeated_at_the_end: Openai,
        events([text("Hi."), json!({"choices": [{"index": 0, "delta": {}, "message": {"content": "Hi."}, "finish_reason": "stop"}], "usage": usage()})]) + DONE
        => text_answer("Hi.");

    // Usage.
    usage_is_in_the_choice: Openai,
        events([text("Hi."), json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage()}]})]) + DONE
        => text_answer("Hi.");
    usage_has_the_names_of_the_responses_api: Openai,
        events([text("Hi."), finish("stop", json!({"input_tokens": 120, "output_tokens": 8}))]) + DONE => text_answer("Hi.");
    usage_has_fractions_and_text: Openai,
        events([text("Hi."), finish("stop", json!({"prompt_tokens": 120.0, "completion_tokens": "8"}))]) + DONE => text_answer("Hi.");
    usage_is_an_empty_object: Openai, events([text("Hi."), finish("stop", json!({}))]) + DONE => text_answer("Hi.").uncounted();
    usage_is_all_nulls: Openai,
        events([text("Hi."), finish("stop", json!({"prompt_tokens": null, "completion_tokens": null}))]) + DONE
        => text_answer("Hi.").uncounted();
    usage_is_all_zeros: Openai,
        events([text("Hi."), finish("stop", json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}))]) + DONE
        => text_answer("Hi.").uncounted();
    usage_is_cumulative: Openai,
        events([json!({"choices": [{"index": 0, "delta": {"content": "Hi"}}], "usage": {"prompt_tokens": 120, "completion_tokens": 3}}),
            json!({"choices": [{"index": 0, "delta": {"content": "."}}], "usage": {"prompt_tokens": 120, "completion_tokens": 8}}),
            finish("stop", json!({}))]) + DONE
        => text_answer("Hi.");
    usage_comes_after_the_finish_reason: Openai,
        events([text("Hi."), finish("stop", json!(null)), json!({"choices": [], "usage": usage()})]) => text_answer("Hi.");
    usage_is_repeated_with_the_cache: Anthropic,
        events([json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 0}}}),
            json!({"type": "ping"}), block_delta(0, json!({"type": "text_delta", "text": "Hi."})),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                "usage": {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 16}}),
            json!({"type": "message_stop"})])
        => text_answer("Hi.").counting(10, 16);
    usage_is_only_at_the_end: Anthropic,
        events([json!({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}),
            block_delta(0, json!({"type": "text_delta", "text": "Hi."})),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 120, "output_tokens": 8}}),
            json!({"type": "message_stop"})])
        => text_answer("Hi.");

    // Reasoning.
    reasoning_is_in_the_text: Openai, openai([text("<th"), text("ink>plan</thi"), text("nk>\n\nHi."), text(" <think>")], "stop")
        => text_answer("Hi. <think>").thinking("plan");
    reasoning_in_the_text_is_not_closed: Openai, openai([text("<think>pl"), text("an")], "length")
        => ends(FinishReason::Length).thinking("plan");
    reasoning_in_the_text_comes_before_calls: Deepseek,
        openai([text("<think>plan</think>\n"), call(json!({"index": 0, "id": "a", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}))], "tool_calls")
        => calls([oslo()]).thinking("plan");
    reasoning_is_in_the_text_of_another_server: Anthropic,
        anthropic([block_delta(0, json!({"type": "text_delta", "text": "<think>plan</think>\n\nHi."}))], "end_turn")
        => text_answer("Hi.").thinking("plan");
    reasoning_is_in_details_alone: Openrouter,
        openai([delta(json!({"reasoning_details": [{"type": "reasoning.text", "text": "plan", "index": 0}]})), text("Hi.")], "stop")
        => text_answer("Hi.").thinking("plan");
}

/// Reduces events to their result, with the pieces of text and of reasoning joined.
fn outcome(events: &[ModelEvent]) -> Answer {
    let Some(ModelEvent::Finished(finish)) = events.last() else { panic!("no end: {events:?}") };
    let usage = finish.usage;
    let mut answer = ends(finish.reason);
    answer.tokens = (usage.source == UsageSource::Provider).then_some((usage.input_tokens, usage.output_tokens));
    for event in events {
        match event {
            ModelEvent::Text(piece) => answer.text.push_str(piece),
            ModelEvent::Reasoning(piece) => answer.reasoning.push_str(piece),
            ModelEvent::ToolCall(call) => answer.calls.push((call.name.clone(), call.input.clone())),
            ModelEvent::Finished(_) => {}
        }
    }
    answer
}

async fn check(vendor: Vendor, stream: String, answer: Answer) {
    let (events, error) = play(vendor, Reply::chunks(vec![Bytes::from(stream)])).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(outcome(&events), answer);
}

/// A response whose finish reason states a failure of the model is an error.
#[tokio::test]
async fn failure_finish_reasons_are_errors() {
    for word in ["error", "network_error", "insufficient_system_resource", "abort"] {
        let (_, error) = play(Vendor::Openai, Reply::chunks(vec![Bytes::from(openai([text("Hi")], word))])).await;
        assert!(error.is_some(), "{word}");
    }
}

/// Returns every recorded stream: the quirks, and the documented responses.
fn recorded() -> Vec<(String, Vendor, String)> {
    let quirks = QUIRKS.iter().map(|quirk| (quirk.name.to_owned(), quirk.vendor, (quirk.stream)()));
    let documented = Vendor::ALL.into_iter().flat_map(|vendor| {
        Transcript::ALL.map(|transcript| {
            let stream = std::str::from_utf8(transcript.bytes(vendor)).unwrap().replace("\r\n", "\n");
            (format!("{vendor} {transcript:?}"), vendor, stream)
        })
    });
    quirks.chain(documented).collect()
}

/// Alternative encodings of the same events.
#[derive(Debug, Clone)]
struct Notation {
    line_ending: &'static str,
    has_byte_order_mark: bool,
    has_comments: bool,
    has_several_data_lines: bool,
    has_blank_after_colon: bool,
    ends_with_empty_line: bool,
}

fn notation() -> impl Strategy<Value = Notation> {
    (prop::sample::select(vec!["\n", "\r\n", "\r"]), any::<[bool; 5]>()).prop_map(|(line_ending, flags)| Notation {
        line_ending,
        has_byte_order_mark: flags[0],
        has_comments: flags[1],
        has_several_data_lines: flags[2],
        has_blank_after_colon: flags[3],
        ends_with_empty_line: flags[4],
    })
}

impl Notation {
    fn write(&self, stream: &str) -> Vec<u8> {
        let mut lines: Vec<String> = Vec::new();
        for line in stream.split('\n') {
            match line.strip_prefix("data: ") {
                Some(data) if self.has_several_data_lines => match serde_json::from_str::<Value>(data) {
                    Ok(json) => lines.extend(format!("{json:#}").lines().map(|part| format!("data: {part}"))),
                    Err(_) => lines.push(line.to_owned()),
                },
                _ => lines.push(line.to_owned()),
            }
            if line.is_empty() && self.has_comments {
                lines.extend([": still working", "", "id: 7", "retry: 10", ""].map(str::to_owned));
            }
        }
        let mut text = lines.join(self.line_ending);
        if !self.has_blank_after_colon {
            text = text.replace("data: {", "data:{");
        }
        if !self.ends_with_empty_line {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        let mark = if self.has_byte_order_mark { "\u{feff}" } else { "" };
        format!("{mark}{text}").into_bytes()
    }
}

fn at_cuts(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
    ends.sort_unstable();
    ends.dedup();
    let begins = [0].into_iter().chain(ends.iter().copied());
    begins.zip(&ends).map(|(begin, &end)| Bytes::copy_from_slice(&bytes[begin..end])).collect()
}

async fn events_of(vendor: Vendor, chunks: Vec<Bytes>) -> (Vec<ModelEvent>, Option<ModelError>) {
    play(vendor, Reply::chunks(chunks).ending(Ending::Proper)).await
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn recorded_streams_decode_alike_in_any_encoding_and_chunking(
        (name, vendor, stream) in prop::sample::select(recorded()),
        notation in notation(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (expected, error) = runtime.block_on(events_of(vendor, vec![Bytes::from(stream.clone())]));
        prop_assert!(error.is_none(), "{name}: {error:?}");
        if let Some(quirk) = QUIRKS.iter().find(|quirk| quirk.name == name) {
            prop_assert_eq!(outcome(&expected), (quirk.answer)());
        }
        let (events, error) = runtime.block_on(events_of(vendor, at_cuts(&notation.write(&stream), &cuts)));
        prop_assert!(error.is_none(), "{name}: {error:?}");
        prop_assert_eq!(events, expected, "{}", name);
    }

    /// A damaged stream ends with an answer or an error.
    #[test]
    fn damaged_streams_terminate(
        (_, vendor, stream) in prop::sample::select(recorded()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = stream.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (events, error) = runtime.block_on(events_of(vendor, vec![Bytes::from(bytes)]));
        prop_assert!(error.is_some() || matches!(events.last(), Some(ModelEvent::Finished(_))));
    }
}
