//! Resource usage of a daemon over time.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use agentd_bench::daemon::DaemonUnderTest;

pub(super) const HEADER: &str =
    "minute  resident MiB  with children  descriptors  threads  children  WAL MiB  disk MiB  stored";

const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    at: Duration,
    resident: f64,
    with_children: f64,
    descriptors: f64,
    threads: f64,
    children: f64,
    wal: f64,
    disk: f64,
    /// Number of things acknowledged so far, including deleted ones.
    stored: f64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, resident, with_children, descriptors, threads, children, wal, disk, stored } = self;
        let minute = at.as_secs_f64() / 60.0;
        write!(
            f,
            "{minute:>6.1}  {resident:>12.1}  {with_children:>13.1}  {descriptors:>11}  {threads:>7}  {children:>8}  \
             {wal:>7.1}  {disk:>8.1}  {stored:>6}"
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "memory and counts")]
pub(super) fn take_sample(daemon: &DaemonUnderTest, at: Duration, stored: u64) -> Sample {
    let database = daemon.data_dir.join("agentd.db-wal");
    Sample {
        at,
        resident: daemon.own_resident_bytes() as f64 / MIB,
        with_children: daemon.resident_bytes() as f64 / MIB,
        descriptors: daemon.descriptors() as f64,
        threads: daemon.threads() as f64,
        children: daemon.children().len() as f64,
        wal: std::fs::metadata(database).map_or(0, |file| file.len()) as f64 / MIB,
        disk: bytes_in(&daemon.data_dir) as f64 / MIB,
        stored: stored as f64,
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(entry_is) if entry_is.is_dir() => bytes_in(&entry.path()),
            Ok(entry_is) => entry_is.len(),
            // The file was removed meanwhile.
            Err(_) => 0,
        })
        .sum()
}

/// Name of a value, its accessor, and the permitted change over the last two thirds of an hour.
type Bound = (&'static str, fn(&Sample) -> f64, f64);

/// Limits also apply to the last two thirds of shorter runs: noise does not decrease with the duration.
const BOUNDS: [Bound; 6] = [
    ("resident MiB of the daemon", |sample| sample.resident, 4.0),
    ("resident MiB with its children", |sample| sample.with_children, 8.0),
    ("descriptors", |sample| sample.descriptors, 8.0),
    ("threads", |sample| sample.threads, 2.0),
    ("children", |sample| sample.children, 1.0),
    // The log grows while a backup reads, and its file keeps the size.
    ("MiB of the write-ahead log", |sample| sample.wal, 64.0),
];
/// Permitted increase of the minimum from the second to the last third, for a few minutes of a debug build: other load
/// adds peaks, but a leak raises the minimum.
#[cfg(test)]
const MINIMUM_BOUNDS: [Bound; 5] = [
    ("resident MiB of the daemon", |sample| sample.resident, 24.0),
    ("descriptors", |sample| sample.descriptors, 12.0),
    ("threads", |sample| sample.threads, 12.0),
    ("children", |sample| sample.children, 1.0),
    ("MiB of the write-ahead log", |sample| sample.wal, 64.0),
];
/// Maximum KiB of disk per stored item.
const MAX_DISK_PER_ITEM: f64 = 8.0;

/// Samples in chronological order.
#[derive(Debug, Default)]
pub(super) struct Series(Vec<Sample>);

impl Series {
    pub(super) fn add(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Prints how the minimum of each value changes, and returns whether the changes are within the limits.
    #[cfg(test)]
    pub(super) fn releases_resources(&self, whole: Duration) -> bool {
        println!("{:<34}{:>14}{:>14}{:>10}{:>10}", "the least of a third", "the second", "the last", "more", "at most");
        let least = |figure: fn(&Sample) -> f64, third: u32| {
            let is_in = |sample: &&Sample| sample.at > whole / 3 * (third - 1) && sample.at <= whole / 3 * third;
            // The last sample is taken shortly after the end.
            let samples = self.0.iter().filter(|sample| is_in(sample) || (third == 3 && sample.at > whole));
            samples.map(figure).fold(f64::INFINITY, f64::min)
        };
        let mut is_kept = true;
        for (name, figure, most) in MINIMUM_BOUNDS {
            let (before, after) = (least(figure, 2), least(figure, 3));
            println!("{name:<34}{before:>14.1}{after:>14.1}{:>+10.1}{most:>10.1}", after - before);
            is_kept &= after - before <= most;
        }
        is_kept
    }

    /// Prints the slopes, and returns whether all are within the limits.
    pub(super) fn is_flat(&self, whole: Duration) -> bool {
        let late: Vec<&Sample> = self.0.iter().filter(|sample| sample.at >= whole / 3).collect();
        let hours = whole.as_secs_f64() / 3600.0 * 2.0 / 3.0;
        println!("{:<34}{:>10}{:>10}{:>14}{:>14}", "the last two thirds", "median", "most", "change", "at most");
        let mut is_flat = true;
        for (name, figure, most) in BOUNDS {
            let points: Vec<(f64, f64)> =
                late.iter().map(|sample| (sample.at.as_secs_f64() / 3600.0, figure(sample))).collect();
            let change = slope(&points) * hours;
            let mut values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
            values.sort_by(f64::total_cmp);
            let (median, highest) = (values.get(values.len() / 2), values.last());
            println!(
                "{name:<34}{:>10.1}{:>10.1}{change:>+14.2}{most:>14.1}",
                median.copied().unwrap_or_default(),
                highest.copied().unwrap_or_default()
            );
            is_flat &= change <= most;
        }
        let grown = |figure: fn(&Sample) -> f64| {
            late.last().map_or(0.0, |sample| figure(sample)) - late.first().map_or(0.0, |sample| figure(sample))
        };
        let per_item = grown(|sample| sample.disk) * 1024.0 / grown(|sample| sample.stored).max(1.0);
        println!("{:<34}{:>34.2}{MAX_DISK_PER_ITEM:>14.1}", "KiB of disk for each item", per_item);
        is_flat && per_item <= MAX_DISK_PER_ITEM
    }
}

/// Returns the slope of the least squares line.
#[allow(clippy::cast_precision_loss, reason = "a count of samples")]
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: u32 = 36;

    /// Returns three minutes of samples with peaks, and `more` additional descriptors in each.
    fn series(more: f64) -> Series {
        let mut series = Series::default();
        for number in 1..=SAMPLES {
            let peak = if number % 3 == 0 { 200.0 } else { 0.0 };
            let descriptors = 40.0 + peak + more * f64::from(number) / 12.0;
            series.add(Sample { at: Duration::from_secs(5) * number, descriptors, threads: peak, ..Sample::default() });
        }
        series
    }

    #[test]
    fn leak_raises_the_minimum_and_other_load_does_not() {
        let whole = Duration::from_secs(5) * SAMPLES;
        assert!(series(0.0).releases_resources(whole));
        assert!(!series(13.0).releases_resources(whole));
    }
}
