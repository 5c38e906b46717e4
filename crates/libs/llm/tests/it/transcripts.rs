//! Responses taken from each vendor's documentation, and the expected events.

use agentd_llm::{Finish, FinishReason, ModelEvent, Replay, ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::Reply;
use bytes::Bytes;
use serde_json::json;

use crate::support::{play, request};

macro_rules! transcripts {
    ($kind:literal) => {
        |vendor: Vendor| match vendor {
            Vendor::Anthropic => include_str!(concat!("transcripts/anthropic_", $kind, ".sse")),
            Vendor::Openai => include_str!(concat!("transcripts/openai_", $kind, ".sse")),
            Vendor::Google => include_str!(concat!("transcripts/google_", $kind, ".sse")),
            Vendor::Mistral => include_str!(concat!("transcripts/mistral_", $kind, ".sse")),
            Vendor::Groq => include_str!(concat!("transcripts/groq_", $kind, ".sse")),
            Vendor::Deepseek => include_str!(concat!("transcripts/deepseek_", $kind, ".sse")),
            Vendor::Xai => include_str!(concat!("transcripts/xai_", $kind, ".sse")),
            Vendor::Openrouter => include_str!(concat!("transcripts/openrouter_", $kind, ".sse")),
        }
    };
}

/// A response of text, and one with two parallel calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transcript {
    Text,
    Tools,
}

impl Transcript {
    pub(crate) const ALL: [Self; 2] = [Self::Text, Self::Tools];

    pub(crate) fn bytes(self, vendor: Vendor) -> &'static [u8] {
        match self {
            Self::Text => transcripts!("text")(vendor).as_bytes(),
            Self::Tools => transcripts!("tools")(vendor).as_bytes(),
        }
    }

    pub(crate) fn events(self, vendor: Vendor) -> Vec<ModelEvent> {
        match self {
            Self::Text => text_events(vendor),
            Self::Tools => tool_events(vendor),
        }
    }
}

fn text_events(vendor: Vendor) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    if vendor != Vendor::Openai {
        events.push(ModelEvent::Reasoning("Let me think.".to_owned()));
    }
    events.extend(["Gr", "üße, 漢字", " 🦀!\n"].map(|text| ModelEvent::Text(text.to_owned())));
    let usage = Usage {
        input_tokens: 142,
        output_tokens: 17,
        cache_read_tokens: 100,
        cache_write_tokens: if matches!(vendor, Vendor::Anthropic | Vendor::Openrouter) { 30 } else { 0 },
        reasoning_tokens: if matches!(vendor, Vendor::Anthropic | Vendor::Mistral) { 0 } else { 8 },
        source: UsageSource::Provider,
    };
    events.push(ModelEvent::Finished(Finish { reason: FinishReason::Stop, usage }));
    events
}

fn tool_events(vendor: Vendor) -> Vec<ModelEvent> {
    let ids = match vendor {
        Vendor::Anthropic => ["toolu_01", "toolu_02"],
        Vendor::Openai => ["call_DdmO", "call_ABCD"],
        Vendor::Google => ["r2Bb_0", "r2Bb_1"],
        Vendor::Mistral => ["D681PevKs", "9Xy7QwErT"],
        Vendor::Groq => ["2h1fw4s5a", "7k2jd8f3b"],
        Vendor::Deepseek => ["call_00_a", "call_01_b"],
        Vendor::Xai => ["call_65", "call_66"],
        Vendor::Openrouter => ["call_or1", "call_or2"],
    };
    let mut first = ToolCall::new(ids[0], "get_weather", json!({"city": "München", "days": 2}));
    let opaque = match vendor {
        Vendor::Google => Some(json!({"thought_signature": "CiQBVKhc"})),
        Vendor::Deepseek => Some(json!({"reasoning_content": "Weather and time."})),
        _ => None,
    };
    first.replay = opaque.map(|data| Replay { vendor, model: request().model, data });
    let second = ToolCall::new(ids[1], "get_time", json!({}));
    let mut events = match vendor {
        Vendor::Anthropic => vec![ModelEvent::Text("I will look.".to_owned())],
        Vendor::Deepseek => ["Weather and ", "time."].map(|text| ModelEvent::Reasoning(text.to_owned())).to_vec(),
        _ => Vec::new(),
    };
    let usage = Usage { input_tokens: 472, output_tokens: 89, source: UsageSource::Provider, ..Usage::default() };
    events.extend([first, second].map(ModelEvent::ToolCall));
    events.push(ModelEvent::Finished(Finish { reason: FinishReason::ToolUse, usage }));
    events
}

async fn assert_decodes_to(vendor: Vendor, bytes: Vec<u8>, expected: &[ModelEvent]) {
    let (events, error) = play(vendor, Reply::chunks(vec![Bytes::from(bytes)])).await;
    assert!(error.is_none(), "{vendor}: {error:?}");
    assert_eq!(events, expected, "{vendor}");
}

#[tokio::test]
async fn transcripts_of_all_vendors_are_decoded() {
    for vendor in Vendor::ALL {
        for transcript in Transcript::ALL {
            assert_decodes_to(vendor, transcript.bytes(vendor).to_vec(), &transcript.events(vendor)).await;
        }
    }
}

#[tokio::test]
async fn byte_order_mark_and_line_endings_are_ignored() {
    for vendor in Vendor::ALL {
        for transcript in Transcript::ALL {
            let text = std::str::from_utf8(transcript.bytes(vendor)).unwrap().replace("\r\n", "\n");
            for ending in ["\n", "\r\n", "\r"] {
                let rewritten = format!("\u{feff}{}", text.replace('\n', ending)).into_bytes();
                assert_decodes_to(vendor, rewritten, &transcript.events(vendor)).await;
            }
        }
    }
}

#[tokio::test]
async fn comments_and_multiline_data_are_decoded() {
    for vendor in Vendor::ALL {
        let text = std::str::from_utf8(Transcript::Text.bytes(vendor)).unwrap().replace("\r\n", "\n");
        let commented = text.replace("\n\n", "\n\n: still working\n\nid: 7\nretry: 10\n\n");
        // JSON may be split into lines between its tokens.
        let wrapped = commented.replace("data: {", "data: {\ndata:");
        assert_decodes_to(vendor, wrapped.into_bytes(), &Transcript::Text.events(vendor)).await;
    }
}

/// Returns the usage that each vendor documents for a response without streaming, embedded in a stream.
fn unstreamed(vendor: Vendor) -> String {
    let openai = |usage: serde_json::Value| {
        let chunk =
            json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage});
        format!("data: {chunk}\n\ndata: [DONE]\n\n")
    };
    match vendor {
        Vendor::Anthropic => {
            let usage = json!({"input_tokens": 12, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 100,
                "output_tokens": 17, "output_tokens_details": {"thinking_tokens": 8}});
            let start = json!({"type": "message_start", "message": {"usage": usage}});
            let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
            format!("data: {start}\n\ndata: {end}\n\ndata: {{\"type\":\"message_stop\"}}\n\n")
        }
        Vendor::Google => {
            let answer = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 142, "cachedContentTokenCount": 100, "candidatesTokenCount": 9,
                    "thoughtsTokenCount": 8, "totalTokenCount": 159}});
            format!("data: {answer}\n\n")
        }
        Vendor::Deepseek => openai(json!({"prompt_tokens": 142, "completion_tokens": 17, "total_tokens": 159,
            "prompt_cache_hit_tokens": 100, "prompt_cache_miss_tokens": 42,
            "completion_tokens_details": {"reasoning_tokens": 8}})),
        Vendor::Mistral => openai(json!({"prompt_tokens": 142, "completion_tokens": 17, "total_tokens": 159,
            "num_cached_tokens": 100})),
        Vendor::Xai => openai(json!({"prompt_tokens": 142, "completion_tokens": 9, "total_tokens": 159,
            "prompt_tokens_details": {"cached_tokens": 100}, "completion_tokens_details": {"reasoning_tokens": 8}})),
        Vendor::Openrouter => openai(json!({"prompt_tokens": 142, "completion_tokens": 17, "total_tokens": 159,
            "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 8}})),
        Vendor::Openai | Vendor::Groq => openai(json!({"prompt_tokens": 142, "completion_tokens": 17,
            "total_tokens": 159, "prompt_tokens_details": {"cached_tokens": 100},
            "completion_tokens_details": {"reasoning_tokens": 8}})),
    }
}

fn usage_of(events: &[ModelEvent]) -> Usage {
    match events.last() {
        Some(ModelEvent::Finished(finish)) => finish.usage,
        other => panic!("no end: {other:?}"),
    }
}

#[tokio::test]
async fn usage_without_streaming_is_normalized() {
    for vendor in Vendor::ALL {
        let (events, error) = play(vendor, Reply::chunks(vec![Bytes::from(unstreamed(vendor))])).await;
        assert!(error.is_none(), "{vendor}: {error:?}");
        // Anthropic reports reasoning only in newer responses.
        let reasoning_tokens = if vendor == Vendor::Mistral { 0 } else { 8 };
        let streamed = Usage { reasoning_tokens, ..usage_of(&text_events(vendor)) };
        assert_eq!(usage_of(&events), streamed, "{vendor}");
    }
}
