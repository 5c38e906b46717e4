//! Turns, calls of models and calls of tools, from what the recorder has of them.

use super::exposition::Exposed;
use super::source::{Family, MetricList, Sample};
use crate::runtime::recorder::{HistogramFamily, Recorder, Series};

/// The histograms.
pub(super) fn histograms(recorder: &Recorder) -> impl Iterator<Item = Exposed> {
    let of = |(family, series): (&HistogramFamily, _)| {
        let &HistogramFamily { name, help, labels, .. } = family;
        Exposed::Histograms { name, help, labels, series }
    };
    recorder.histograms().into_iter().map(of)
}

/// The counters.
pub(super) fn counters(recorder: &Recorder) -> MetricList {
    let mut metrics = MetricList::default();
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
        Ok(tools.map(|(tool, total)| Sample::micros(vec![tool.into()], total.sum_us)).collect())
    });
    metrics
}

fn by_status(recorder: &Recorder, series: Series) -> Vec<Sample> {
    let counted = recorder.since_start(series).into_iter();
    let samples = counted.flat_map(|(label, total)| {
        let of = |status: &str, count| Sample::of(vec![label.to_string(), status.to_owned()], count);
        [of("ok", total.count.saturating_sub(total.errors)), of("failed", total.errors)]
    });
    samples.collect()
}
