//! Turns, calls of models and calls of tools, from what the recorder has of them.

use super::Metrics;
use super::source::{Family, Sample};
use super::text::Text;
use crate::runtime::recorder::{BOUNDS_US, BucketCounts, Recorder, Series};

/// The histograms. Those with a label of anybody's choosing are added up: a histogram for each would be long.
pub(super) fn write(text: &mut Text, recorder: &Recorder) {
    let help = "How long turns of agents took, waiting for approvals included.";
    write_sum(text, recorder, Series::Turn, "svc_turn_duration_seconds", help);
    let help = "How long turns took until the first word of the answer.";
    write_sum(text, recorder, Series::FirstToken, "svc_turn_first_token_seconds", help);
    let help = "How long calls of tools took, whichever the tool.";
    write_sum(text, recorder, Series::Tool, "svc_tool_call_duration_seconds", help);
    let name = "svc_model_call_duration_seconds";
    text.family(name, "How long calls of models took to their last word, by provider.", "histogram");
    let mut providers = recorder.since_start(Series::ModelCall);
    providers.sort_unstable_by(|(left, ..), (right, ..)| left.cmp(right));
    for (provider, counts, _) in providers {
        text.histogram(name, &[("provider", &provider)], &counts);
    }
}

fn write_sum(text: &mut Text, recorder: &Recorder, series: Series, name: &str, help: &str) {
    let mut sum = BucketCounts::none(BOUNDS_US);
    for (_, counts, _) in recorder.since_start(series) {
        sum.merge(&counts);
    }
    text.family(name, help, "histogram");
    text.histogram(name, &[], &sum);
}

/// The counters.
pub(super) fn add(metrics: &Metrics, recorder: &Recorder) {
    let help = "Calls of models by provider and how they ended (ok, failed), since the daemon started.";
    let family = Family::counter("svc_model_calls_total", help).by(&["provider", "status"]);
    metrics.read(family, recorder, async |recorder| Ok(by_status(&recorder, Series::ModelCall)));
    let help = "Calls of tools by tool and how they ended (ok, failed), since the daemon started.";
    let family = Family::counter("svc_tool_calls_total", help).by(&["tool", "status"]);
    metrics.read(family, recorder, async |recorder| Ok(by_status(&recorder, Series::Tool)));
    let help = "Seconds that calls of a tool took in all, since the daemon started.";
    let family = Family::counter("svc_tool_call_seconds_total", help).by(&["tool"]);
    metrics.read(family, recorder, async |recorder| {
        let tools = recorder.since_start(Series::Tool).into_iter();
        Ok(tools.map(|(tool, counts, _)| Sample::micros(vec![tool.into()], counts.sum_us)).collect())
    });
}

fn by_status(recorder: &Recorder, series: Series) -> Vec<Sample> {
    let counted = recorder.since_start(series).into_iter();
    let samples = counted.flat_map(|(label, counts, failed)| {
        let of = |status: &str, count| Sample::of(vec![label.to_string(), status.to_owned()], count);
        [of("ok", counts.count().saturating_sub(failed)), of("failed", failed)]
    });
    samples.collect()
}
