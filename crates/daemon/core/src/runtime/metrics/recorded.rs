//! Metrics of turns, model calls and tool calls, read from the recorder.

use super::exposition::FamilySnapshot;
use super::source::{Family, MetricList, Sample};
use crate::runtime::recorder::{HistogramFamily, Recorder, Series};

/// Returns the histograms of the recorder.
pub(super) fn histograms(recorder: &Recorder) -> impl Iterator<Item = FamilySnapshot> {
    let snapshot = |(family, series): (&HistogramFamily, _)| {
        let &HistogramFamily { name, help, labels, .. } = family;
        FamilySnapshot::Histograms { name, help, labels, series }
    };
    recorder.histograms().into_iter().map(snapshot)
}

/// Returns the counters of the recorder.
pub(super) fn counters(recorder: &Recorder) -> MetricList {
    let mut metrics = MetricList::default();
    let help = "Model calls by provider and outcome (ok, failed) since the daemon started.";
    let family = Family::counter("svc_model_calls_total", help).by(&["provider", "status"]);
    metrics.read(family, recorder, async |recorder| Ok(by_status(&recorder, Series::ModelCall)));
    let help = "Tool calls by tool and outcome (ok, failed) since the daemon started.";
    let family = Family::counter("svc_tool_calls_total", help).by(&["tool", "status"]);
    metrics.read(family, recorder, async |recorder| Ok(by_status(&recorder, Series::Tool)));
    let help = "Total duration of tool calls in seconds, by tool, since the daemon started.";
    let family = Family::counter("svc_tool_call_seconds_total", help).by(&["tool"]);
    metrics.read(family, recorder, async |recorder| {
        let tools = recorder.since_start(Series::Tool).into_iter();
        Ok(tools.map(|(tool, total)| Sample::micros(vec![tool.into()], total.sum_us)).collect())
    });
    metrics
}

fn by_status(recorder: &Recorder, series: Series) -> Vec<Sample> {
    let counted = recorder.since_start(series).into_iter();
    let samples = counted.flat_map(|(label, total)| {
        let sample = |status: &str, count| Sample::of(vec![label.to_string(), status.to_owned()], count);
        [sample("ok", total.count.saturating_sub(total.errors)), sample("failed", total.errors)]
    });
    samples.collect()
}
