//! Encoding of answers in each vendor's stream format.

use agentd_llm::{FinishReason, ToolCall, Usage, UsageSource, Vendor};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::Piece;
use crate::reply::Answer;

const MODEL: &str = "fake-model";

/// Returns the opening, one frame per piece, and the closing with usage and end marker.
pub(crate) fn frames(vendor: Vendor, answer: &Answer) -> Vec<Bytes> {
    let texts = match vendor {
        Vendor::Anthropic => anthropic(answer),
        Vendor::Google => google(answer),
        _ => openai(vendor, answer),
    };
    texts.into_iter().map(Bytes::from).collect()
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Splits `text` into two fragments, as vendors stream arguments.
fn halves(text: &str) -> [&str; 2] {
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let (first, second) = text.split_at(middle);
    [first, second]
}

fn anthropic(answer: &Answer) -> Vec<String> {
    let event = |value: Value| {
        let name = value["type"].as_str().unwrap_or_default().to_owned();
        format!("event: {name}\ndata: {value}\n\n")
    };
    let usage = &answer.usage;
    let fresh = usage.input_tokens.saturating_sub(usage.cache_read_tokens + usage.cache_write_tokens);
    let start = json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": fresh, "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens, "output_tokens": 1}}});
    let mut frames = vec![event(start)];
    let mut index = 0;
    // Blocks contain runs of pieces of the same kind; `open` is the kind of the open block.
    let mut open: Option<&str> = None;
    for piece in &answer.pieces {
        let kind = match piece {
            Piece::Text(_) => "text",
            Piece::Reasoning(_) => "thinking",
            Piece::ToolCall(_) => "tool_use",
        };
        let mut frame = String::new();
        if open.is_some_and(|open| open != kind || kind == "tool_use") {
            frame += &event(json!({"type": "content_block_stop", "index": index}));
            index += 1;
            open = None;
        }
        if open.is_none() {
            let block = match piece {
                Piece::Text(_) => json!({"type": "text", "text": ""}),
                Piece::Reasoning(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
                Piece::ToolCall(call) => json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
            };
            frame += &event(json!({"type": "content_block_start", "index": index, "content_block": block}));
            open = Some(kind);
        }
        let mut delta =
            |delta: Value| frame += &event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        match piece {
            Piece::Text(text) => delta(json!({"type": "text_delta", "text": text})),
            Piece::Reasoning(text) => delta(json!({"type": "thinking_delta", "thinking": text})),
            Piece::ToolCall(call) => {
                for fragment in halves(&call.input.to_string()) {
                    delta(json!({"type": "input_json_delta", "partial_json": fragment}));
                }
            }
        }
        frames.push(frame);
    }
    let mut closing = String::new();
    if open.is_some() {
        closing += &event(json!({"type": "content_block_stop", "index": index}));
    }
    let reason = match answer.reason {
        FinishReason::Stop => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolUse => "tool_use",
        FinishReason::ContentFilter => "refusal",
        FinishReason::MalformedCall => "malformed_tool_use",
        FinishReason::Other => "pause_turn",
    };
    closing += &event(json!({"type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": usage.output_tokens}}));
    closing += &event(json!({"type": "message_stop"}));
    frames.push(closing);
    frames
}

fn openai(vendor: Vendor, answer: &Answer) -> Vec<String> {
    let chunk = |choices: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
            "model": MODEL, "choices": choices})
    };
    let delta =
        |delta: Value| data(&chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}])));
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut index = 0;
    for piece in &answer.pieces {
        frames.push(match piece {
            Piece::Text(text) => delta(json!({"content": text})),
            Piece::Reasoning(text) => delta(match vendor {
                Vendor::Mistral => {
                    json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
                }
                Vendor::Groq | Vendor::Openrouter => json!({"reasoning": text}),
                _ => json!({"content": null, "reasoning_content": text}),
            }),
            Piece::ToolCall(call) => {
                index += 1;
                openai_call(vendor, call, index - 1).into_iter().map(delta).collect()
            }
        });
    }
    let reason = match answer.reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolUse => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::MalformedCall => "malformed_function_call",
        FinishReason::Other => "other",
    };
    let mut last = chunk(json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason}]));
    let usage = (answer.usage.source != UsageSource::Missing).then(|| openai_usage(vendor, &answer.usage));
    let mut closing = String::new();
    match (vendor, usage) {
        (Vendor::Mistral | Vendor::Deepseek, Some(usage)) => {
            last["usage"] = usage;
            closing += &data(&last);
        }
        (Vendor::Groq, Some(usage)) => {
            last["x_groq"] = json!({"id": "req_1", "usage": usage});
            closing += &data(&last);
        }
        (_, usage) => {
            closing += &data(&last);
            if let Some(usage) = usage {
                let mut chunk = chunk(json!([]));
                chunk["usage"] = usage;
                closing += &data(&chunk);
            }
        }
    }
    closing += "data: [DONE]\n\n";
    frames.push(closing);
    frames
}

/// Returns the deltas of one call. Mistral and xAI send a call as a whole.
fn openai_call(vendor: Vendor, call: &ToolCall, index: usize) -> Vec<Value> {
    let arguments = call.input.to_string();
    let first = |arguments: &str| {
        json!({"tool_calls": [{"index": index, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": arguments}}]})
    };
    if matches!(vendor, Vendor::Mistral | Vendor::Xai) {
        return vec![first(&arguments)];
    }
    let rest = halves(&arguments)
        .map(|fragment| json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}));
    std::iter::once(first("")).chain(rest).collect()
}

fn openai_usage(vendor: Vendor, usage: &Usage) -> Value {
    let visible = match vendor {
        Vendor::Xai => usage.output_tokens - usage.reasoning_tokens,
        _ => usage.output_tokens,
    };
    let mut value = json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": visible,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    });
    if vendor == Vendor::Deepseek {
        value["prompt_tokens_details"] = Value::Null;
        value["prompt_cache_hit_tokens"] = usage.cache_read_tokens.into();
        value["prompt_cache_miss_tokens"] = (usage.input_tokens - usage.cache_read_tokens).into();
    }
    value
}

fn google(answer: &Answer) -> Vec<String> {
    let chunk = |candidate: Value| json!({"candidates": [candidate], "modelVersion": MODEL, "responseId": "resp1"});
    // Google uses CRLF line endings.
    let data = |value: &Value| format!("data: {value}\r\n\r\n");
    let part = |part: Value| data(&chunk(json!({"content": {"parts": [part], "role": "model"}, "index": 0})));
    let mut frames = vec![String::new()];
    frames.extend(answer.pieces.iter().map(|piece| {
        part(match piece {
            Piece::Text(text) => json!({"text": text}),
            Piece::Reasoning(text) => json!({"text": text, "thought": true}),
            Piece::ToolCall(call) => {
                let mut part = json!({"functionCall": {"name": call.name, "args": call.input, "id": call.id}});
                if let Some(replay) = &call.replay {
                    part["thoughtSignature"] = replay.data["thought_signature"].clone();
                }
                part
            }
        })
    }));
    let reason = match answer.reason {
        FinishReason::Stop | FinishReason::ToolUse => "STOP",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
        FinishReason::MalformedCall => "MALFORMED_FUNCTION_CALL",
        FinishReason::Other => "OTHER",
    };
    let usage = &answer.usage;
    let mut last = chunk(json!({"content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": reason, "index": 0}));
    if usage.source != UsageSource::Missing {
        last["usageMetadata"] = json!({
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        });
    }
    frames.push(data(&last));
    frames
}
