//! Enforcement of workspace limits during a run.
//!
//! Two walks measure the workspace. The number of names only requires reading folders. It is counted more often the
//! sooner the limit could be reached, according to the growth rate and the lost free files of the file system. The
//! number of bytes requires inspecting each file, so it is measured in a small share of the time.
//!
//! Counting tens of thousands of folders takes longer than creating as many. Therefore the run is paused while names
//! are counted once the limit may have been reached, which also prevents names from being read twice.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, fstatvfs};

use super::pace::{MAX_PAUSE, MIN_PAUSE};
use super::tree::Pause;
use crate::folder::{Closed, FolderAccess, NAMES_BETWEEN_CHECKS, Size, count_names, measure, open_folder};
use crate::plan::Report;
use crate::{Tier, WorkspaceBounds};

/// Minimum delay between two walks of the same kind, as a multiple of the duration of one: a share of five percent.
const REST_FACTOR: u32 = 20;
/// Minimum delay between two checks of a workspace that is close to its limit.
const MIN_CHECK_INTERVAL: Duration = Duration::from_micros(500);
/// Minimum delay while the growth rate is unknown.
const MIN_BLIND_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Upper bound for the rate at which a few processes create files.
const MAX_FILES_PER_SECOND: f64 = 200_000.0;
/// Maximum number of times that a walk over files is aborted because names must be counted first.
const MAX_INTERRUPTIONS: u32 = 8;

pub(super) struct Workspace {
    folder: OwnedFd,
    tier: Tier,
    limit: WorkspaceBounds,
    /// Maximum size: the limit, or the initial size if that was larger.
    max: Size,
    next_measurement: Instant,
    count: Count,
}

/// Scheduling of name counts.
#[derive(Debug)]
struct Count {
    max: u64,
    files: u64,
    started: Instant,
    ended: Instant,
    per_second: f64,
    /// Free files of the file system at the last count; `None` if unknown.
    free: Option<u64>,
    last_check: Check,
}

/// Last reading of the file system's free files.
#[derive(Debug, Clone, Copy)]
struct Check {
    at: Instant,
    free: Option<u64>,
    lost_per_second: f64,
}

impl Workspace {
    pub(super) fn start(path: &Path, limit: WorkspaceBounds, tier: Tier) -> io::Result<Self> {
        let folder = open_folder(CWD, path, FolderAccess::Read)?;
        let started = Instant::now();
        let free = free_files(&folder);
        let size = measure(&folder, Closed::Open, |_| false)?;
        // Each value separately: leftover holes do not permit their apparent size.
        let max = Size {
            files: size.files.max(limit.files),
            bytes: size.bytes.max(limit.bytes),
            on_disk: size.on_disk.max(limit.bytes),
        };
        let count = Count::new(max.files, size.files, started, free);
        Ok(Self { folder, tier, limit, max, next_measurement: started, count })
    }

    /// Counts names if the limit may have been reached since the last count. Cheap otherwise.
    pub(super) fn check_files(&mut self) -> Option<Report> {
        self.count.check(Instant::now(), free_files(&self.folder));
        if self.count.is_due(Instant::now()) { self.count_files() } else { None }
    }

    /// Returns the maximum delay until the next check.
    pub(super) fn max_wait(&self) -> Duration {
        self.count.wait(Instant::now())
    }

    pub(super) fn measure_if_due(&mut self) -> Option<Report> {
        if Instant::now() < self.next_measurement { None } else { self.measure_bytes(Closed::Leave) }
    }

    /// Measures the workspace after the program has ended, including closed folders.
    pub(super) fn measure_at_end(&mut self) -> Option<Report> {
        self.measure_bytes(Closed::Open)
    }

    fn count_files(&mut self) -> Option<Report> {
        let (max, folder, count) = (self.max.files, &self.folder, &mut self.count);
        if !count.is_near_bound() {
            let (started, free) = (Instant::now(), free_files(folder));
            // An unreadable workspace is counted again later.
            let files = count_names(folder, max, &mut || count.may_be_over(folder)).ok()?;
            if let Some(files) = files.filter(|files| *files <= max) {
                count.record(files, started, Instant::now(), free);
                return None;
            }
        }
        let pause = Pause::start(self.tier);
        let (started, free) = (Instant::now(), free_files(folder));
        let files = count_names(folder, max, &mut || false).ok()??;
        count.record(files, started, Instant::now(), free);
        if files <= max {
            return None;
        }
        pause.leave_paused();
        Some(Report::WorkspaceFiles { limit: self.limit.files })
    }

    fn measure_bytes(&mut self, closed: Closed) -> Option<Report> {
        let started = Instant::now();
        let max = self.max;
        let is_over = |size: &Size| size.files > max.files || size.bytes > max.bytes || size.on_disk > max.on_disk;
        let mut interruptions = if closed == Closed::Leave { MAX_INTERRUPTIONS } else { 0 };
        let mut size = loop {
            let (folder, count) = (&self.folder, &mut self.count);
            let (mut must_count, mut steps) = (false, 0_u64);
            // An unreadable workspace is measured again later.
            let size = measure(folder, closed, |size| {
                steps += 1;
                let is_checked = interruptions > 0 && steps % NAMES_BETWEEN_CHECKS == 0;
                must_count = is_checked && count.may_be_over(folder);
                must_count || is_over(size)
            })
            .ok()?;
            if !must_count {
                break size;
            }
            interruptions -= 1;
            if let Some(broken) = self.count_files() {
                return Some(broken);
            }
        };
        let pause = (closed == Closed::Leave && is_over(&size)).then(|| Pause::start(self.tier));
        if pause.is_some() {
            // A folder that is read while names are removed from it may list one twice.
            size = measure(&self.folder, closed, is_over).ok()?;
        }
        self.next_measurement = Instant::now() + started.elapsed() * REST_FACTOR;
        if !is_over(&size) {
            return None;
        }
        pause.into_iter().for_each(Pause::leave_paused);
        Some(if size.files > max.files {
            Report::WorkspaceFiles { limit: self.limit.files }
        } else {
            Report::WorkspaceBytes { limit: self.limit.bytes }
        })
    }
}

impl Count {
    fn new(max: u64, files: u64, started: Instant, free: Option<u64>) -> Self {
        let ended = Instant::now();
        let last_check = Check { at: started, free, lost_per_second: 0.0 };
        Self { max, files, started, ended, per_second: 0.0, free, last_check }
    }

    fn check(&mut self, at: Instant, free: Option<u64>) {
        let before = self.last_check;
        let lost_per_second = per_second(lost(before.free, free), at.saturating_duration_since(before.at));
        self.last_check = Check { at, free, lost_per_second };
    }

    /// Checks with the file system whether the limit may have been reached since the last count.
    fn may_be_over(&mut self, folder: &OwnedFd) -> bool {
        self.check(Instant::now(), free_files(folder));
        self.remaining() == 0
    }

    /// Whether the limit may have been reached, or may be before a count ends.
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    fn is_near_bound(&self) -> bool {
        let growth = self.per_second.max(self.last_check.lost_per_second) * self.cost().as_secs_f64();
        self.remaining() as f64 <= growth
    }

    fn record(&mut self, files: u64, started: Instant, ended: Instant, free: Option<u64>) {
        let since = started.saturating_duration_since(self.started);
        self.per_second = per_second(files.saturating_sub(self.files), since);
        (self.files, self.started, self.ended, self.free) = (files, started, ended, free);
    }

    fn is_due(&self, now: Instant) -> bool {
        let may_be_over = self.remaining() == 0;
        let has_rested = now.saturating_duration_since(self.ended) >= self.cost();
        now >= self.ended + self.interval() || (may_be_over && has_rested)
    }

    /// Returns the delay between counts, if the file system indicates no urgency.
    fn interval(&self) -> Duration {
        let left = self.max.saturating_sub(self.files);
        half_of_time(left, self.per_second).min((self.cost() * REST_FACTOR).max(MIN_PAUSE)).max(self.cost())
    }

    fn wait(&self, now: Instant) -> Duration {
        let until_count = (self.ended + self.interval()).saturating_duration_since(now);
        let remaining = self.remaining();
        let blind = half_of_time(remaining, MAX_FILES_PER_SECOND).max(MIN_BLIND_CHECK_INTERVAL);
        let by_rate = half_of_time(remaining, self.per_second.max(self.last_check.lost_per_second));
        until_count.min(blind).min(by_rate).max(MIN_CHECK_INTERVAL)
    }

    /// Returns the number of files that may be created before the limit is exceeded, if all lost free files went into
    /// the workspace.
    fn remaining(&self) -> u64 {
        let lost = lost(self.free, self.last_check.free);
        // The limit is exceeded by one more file.
        (self.max + 1).saturating_sub(self.files).saturating_sub(lost)
    }

    fn cost(&self) -> Duration {
        self.ended.saturating_duration_since(self.started).max(MIN_CHECK_INTERVAL)
    }
}

fn free_files(folder: &OwnedFd) -> Option<u64> {
    let numbers = fstatvfs(folder).ok()?;
    (numbers.f_files > 0).then_some(numbers.f_ffree)
}

fn lost(before: Option<u64>, now: Option<u64>) -> u64 {
    before.zip(now).map_or(0, |(before, now)| before.saturating_sub(now))
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn per_second(files: u64, time: Duration) -> f64 {
    files as f64 / time.max(MIN_CHECK_INTERVAL).as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn half_of_time(files: u64, per_second: f64) -> Duration {
    let seconds = files as f64 / per_second.max(1.0) / 2.0;
    Duration::from_secs_f64(seconds.min(MAX_PAUSE.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn count_is_due_when_lost_free_files_reach_the_remaining_limit() {
        let start = Instant::now();
        let mut count = Count::new(1_000, 400, start, Some(50_000));
        let soon = count.ended + count.cost();
        count.check(soon, Some(49_400));
        assert!(!count.is_due(soon), "600 more are within the bound");
        count.check(soon, Some(49_399));
        assert!(count.is_due(soon));
        count.record(500, soon, soon + MS, Some(49_399));
        assert!(!count.is_due(soon + MS), "others made most of them");
    }

    #[test]
    fn count_is_in_time_without_file_system_statistics() {
        let start = Instant::now();
        let mut count = Count::new(10_000, 0, start, None);
        let next = count.ended + count.interval();
        assert!(count.is_due(next) && !count.is_due(next - MS));
        // 100 files per millisecond: 9,000 more take 90 ms.
        count.record(1_000, start + 10 * MS, start + 11 * MS, None);
        assert!(count.interval() <= MIN_PAUSE.max(45 * MS));
        count.record(9_900, start + 99 * MS, start + 100 * MS, None);
        assert_eq!(count.interval(), MS, "it takes that long to count");
    }

    #[test]
    fn count_that_growth_could_overtake_is_exact() {
        let start = Instant::now();
        let mut count = Count::new(10_000, 0, start, None);
        count.record(8_000, start + 80 * MS, start + 90 * MS, None);
        assert!(!count.is_near_bound(), "a thousand more in ten milliseconds leave a thousand");
        count.record(9_100, start + 91 * MS, start + 101 * MS, None);
        assert!(count.is_near_bound());
        let mut informed = Count::new(10_000, 9_000, start, Some(50_000));
        informed.check(start + 1_000 * MS, Some(49_000));
        assert!(!informed.is_near_bound());
        informed.check(start + 2_000 * MS, Some(48_999));
        assert!(informed.is_near_bound());
    }

    #[test]
    fn checks_are_frequent_only_near_the_limit() {
        let start = Instant::now();
        let mut idle = Count::new(100_000, 10, start, Some(1 << 20));
        idle.check(start + MS, Some(1 << 20));
        assert!(idle.wait(start + MS) >= 15 * MS);
        let mut near = Count::new(100_000, 99_990, start, Some(1 << 20));
        near.check(start + MS, Some(1 << 20));
        assert_eq!(near.wait(start + MS), MIN_BLIND_CHECK_INTERVAL);
        near.check(start + 2 * MS, Some((1 << 20) - 9));
        assert_eq!(near.wait(start + 2 * MS), MIN_CHECK_INTERVAL);
    }
}
