//! Token counts of an answer, under the field names used by vendors and compatible servers.

use serde_json::Value;

use crate::{Usage, UsageSource};

/// Counts above this are not plausible for one call and are ignored.
const MAX_TOKENS: u64 = 1_000_000_000;

const INPUT: &[&str] =
    &["/prompt_tokens", "/input_tokens", "/promptTokenCount", "/promptTokens", "/inputTokens", "/prompt_eval_count"];
const OUTPUT: &[&str] = &[
    "/completion_tokens",
    "/output_tokens",
    "/candidatesTokenCount",
    "/completionTokens",
    "/outputTokens",
    "/eval_count",
];
const TOTAL: &[&str] = &["/total_tokens", "/totalTokenCount", "/totalTokens"];
/// OpenAI (chat completions, responses), Anthropic, DeepSeek, Mistral, Moonshot, Google.
const CACHE_READ: &[&str] = &[
    "/prompt_tokens_details/cached_tokens",
    "/input_tokens_details/cached_tokens",
    "/cache_read_input_tokens",
    "/prompt_cache_hit_tokens",
    "/num_cached_tokens",
    "/cached_tokens",
    "/cachedContentTokenCount",
];
/// OpenRouter and OpenAI's models that bill it, Anthropic.
const CACHE_WRITE: &[&str] = &["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"];
/// OpenAI (chat completions, responses), Anthropic, Perplexity, Google.
const REASONING: &[&str] = &[
    "/completion_tokens_details/reasoning_tokens",
    "/output_tokens_details/reasoning_tokens",
    "/output_tokens_details/thinking_tokens",
    "/reasoning_tokens",
    "/thoughtsTokenCount",
];
/// Google: results of server-side tools.
const TOOL_INPUT: &[&str] = &["/toolUsePromptTokenCount"];

/// Convention that determines which tokens a format's counts include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Convention {
    /// Input includes cached tokens; output includes reasoning, unless the total shows otherwise (xAI).
    OpenAi,
    /// Input excludes tokens read from or written to a cache.
    Anthropic,
    /// Output excludes reasoning.
    Google,
}

/// Latest known value of each count. Streams repeat usage, cumulatively or with zeros and nulls in between, so a value
/// is only replaced by one above zero.
#[derive(Debug, Default, Clone)]
pub(super) struct TokenCounts {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    tool_input: Option<u64>,
}

impl TokenCounts {
    /// Updates the counts from a usage object. Anything that is not a number is ignored.
    pub(super) fn update(&mut self, usage: &Value) {
        let fields = [
            (&mut self.input, INPUT),
            (&mut self.output, OUTPUT),
            (&mut self.total, TOTAL),
            (&mut self.cache_read, CACHE_READ),
            (&mut self.cache_write, CACHE_WRITE),
            (&mut self.reasoning, REASONING),
            (&mut self.tool_input, TOOL_INPUT),
        ];
        for (field, names) in fields {
            let newest = names.iter().filter_map(|name| parse_count(usage.pointer(name)?)).max();
            *field = newest.filter(|count| *count > 0).or(*field).or(newest);
        }
    }

    /// Returns the counts in the sense of [`Usage`]. They are missing if input or output is unknown. An input of zero
    /// counts as unknown, since a prompt always has tokens.
    pub(super) fn normalized(&self, convention: Convention) -> Usage {
        match self.input_and_output(convention) {
            Some((input_tokens, output_tokens)) if input_tokens > 0 => Usage {
                input_tokens,
                output_tokens,
                cache_read_tokens: self.cache_read.unwrap_or(0),
                cache_write_tokens: self.cache_write.unwrap_or(0),
                reasoning_tokens: self.reasoning.unwrap_or(0),
                source: UsageSource::Provider,
            },
            _ => Usage::default(),
        }
    }

    fn input_and_output(&self, convention: Convention) -> Option<(u64, u64)> {
        let reasoning = self.reasoning.unwrap_or(0);
        match convention {
            Convention::OpenAi => {
                let without = |other: Option<u64>| Some(self.total?.saturating_sub(other.unwrap_or(0)));
                let input = self.input.or_else(|| without(self.output))?;
                let output = self.output.or_else(|| without(Some(input)))?;
                let separate = input + output + reasoning;
                let is_separate = reasoning > 0 && self.total.is_some_and(|total| total >= separate);
                Some((input, if is_separate { output + reasoning } else { output }))
            }
            Convention::Anthropic => {
                let cached = self.cache_read.unwrap_or(0) + self.cache_write.unwrap_or(0);
                Some((self.input.unwrap_or(0) + cached, self.output?))
            }
            Convention::Google => {
                let input = self.input.unwrap_or(0) + self.tool_input.unwrap_or(0);
                // The field is omitted if it is zero.
                let output = self.output.map(|visible| visible + reasoning);
                let rest = || self.total.map(|total| total.saturating_sub(input));
                Some((input, output.or_else(rest).unwrap_or(reasoning)))
            }
        }
    }
}

/// Parses a count, also one that is written as a fraction or as text. Fractions are rounded up, so that budgets are not
/// exceeded.
fn parse_count(value: &Value) -> Option<u64> {
    let count = match value {
        Value::Number(number) => number.as_u64().or_else(|| round_count(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok().or_else(|| round_count(text.trim().parse().ok()?)),
        _ => None,
    };
    count.filter(|count| *count <= MAX_TOKENS)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "checked to be within 0..=MAX_TOKENS"
)]
fn round_count(count: f64) -> Option<u64> {
    (0.0..=MAX_TOKENS as f64).contains(&count).then(|| count.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn usage(convention: Convention, reports: &[Value]) -> Option<(u64, u64)> {
        let mut counts = TokenCounts::default();
        for report in reports {
            counts.update(report);
        }
        let usage = counts.normalized(convention);
        (usage.source == UsageSource::Provider).then_some((usage.input_tokens, usage.output_tokens))
    }

    #[test]
    fn every_name_and_notation_of_a_count_is_parsed() {
        for (report, expected) in [
            (json!({"prompt_tokens": 120, "completion_tokens": 8}), Some((120, 8))),
            (json!({"input_tokens": 120, "output_tokens": 8}), Some((120, 8))),
            (json!({"inputTokens": "120", "outputTokens": " 8 "}), Some((120, 8))),
            (json!({"promptTokens": 120.0, "completionTokens": 7.2}), Some((120, 8))),
            (json!({"prompt_eval_count": 120, "eval_count": 8}), Some((120, 8))),
            (json!({"prompt_tokens": 0, "input_tokens": 120, "output_tokens": 8}), Some((120, 8))),
            (json!({"prompt_tokens": 120, "total_tokens": 128}), Some((120, 8))),
            (json!({"completion_tokens": 8, "total_tokens": 128}), Some((120, 8))),
            (json!({"total_tokens": 128}), Some((128, 0))),
            (json!({"prompt_tokens": 120, "completion_tokens": 0}), Some((120, 0))),
            (json!({"prompt_tokens": 120}), None),
            (json!({"completion_tokens": 8}), None),
            (json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}), None),
            (json!({"prompt_tokens": null, "completion_tokens": null}), None),
            (json!({"prompt_tokens": -3, "completion_tokens": "many"}), None),
            (json!({"prompt_tokens": u64::MAX, "completion_tokens": 1e300}), None),
            (json!({}), None),
            (json!("none"), None),
        ] {
            assert_eq!(usage(Convention::OpenAi, std::slice::from_ref(&report)), expected, "{report}");
        }
    }

    #[test]
    fn zeros_and_nulls_do_not_replace_known_counts() {
        let first = json!({"prompt_tokens": 120, "completion_tokens": 3});
        for later in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": null}), json!(null)] {
            assert_eq!(usage(Convention::OpenAi, &[first.clone(), later]), Some((120, 3)));
        }
        let cumulative = json!({"prompt_tokens": 120, "completion_tokens": 8});
        assert_eq!(usage(Convention::OpenAi, &[first, cumulative]), Some((120, 8)));
    }

    proptest! {
        #[test]
        fn any_report_is_counted_within_bounds(counts in prop::collection::vec(any::<f64>(), 7), whole in any::<u64>()) {
            let report = json!({"prompt_tokens": counts[0], "output_tokens": counts[1], "total_tokens": whole,
                "cached_tokens": counts[2], "cache_creation_input_tokens": counts[3], "reasoning_tokens": counts[4],
                "promptTokenCount": counts[5].to_string(), "toolUsePromptTokenCount": counts[6]});
            for convention in [Convention::OpenAi, Convention::Anthropic, Convention::Google] {
                let mut counts = TokenCounts::default();
                counts.update(&report);
                let usage = counts.normalized(convention);
                prop_assert!(usage.input_tokens <= 3 * MAX_TOKENS && usage.output_tokens <= 2 * MAX_TOKENS);
            }
        }
    }
}
