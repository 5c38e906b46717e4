//! Holds the workspace of a run to its bounds while the run lasts.
//!
//! Two walks answer two questions. How many names there are takes reading the folders alone, so it is counted the more
//! often the sooner the bound could be reached: by how fast the count grew, and by the files that the file system lost
//! since. How many bytes there are takes a look at each file, so it is measured in a small share of the time.
//!
//! To count tens of thousands of folders takes longer than to make as many again. So once the bound may have been
//! reached, the run stands still while names are counted, which also keeps a name from being read twice.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, fstatvfs};

use super::pace::{LONGEST, SHORTEST};
use super::tree::Pause;
use crate::folder::{Closed, NAMES_BETWEEN_CHECKS, Need, Size, count_names, measure, open_folder};
use crate::plan::Report;
use crate::{Tier, WorkspaceBounds};

/// Between two walks of the same kind, in times of how long one takes: a share of five percent.
const REST: u32 = 20;
/// Between two checks of a workspace that is about to reach its bound.
const SHORTEST_CHECK: Duration = Duration::from_micros(500);
/// The same while nothing is known of how fast it grows.
const SHORTEST_BLIND_CHECK: Duration = Duration::from_millis(2);
/// Faster than a few processes make files.
const PLAUSIBLE_FILES_PER_SECOND: f64 = 200_000.0;
/// How often a look at the files is given up because names must be counted first.
const MAX_INTERRUPTIONS: u32 = 8;

pub(super) struct Workspace {
    folder: OwnedFd,
    tier: Tier,
    limit: WorkspaceBounds,
    /// What it may grow to: the limit, or what it held before.
    most: Size,
    next_look: Instant,
    count: Count,
}

/// When names are counted again.
#[derive(Debug)]
struct Count {
    most: u64,
    files: u64,
    started: Instant,
    ended: Instant,
    per_second: f64,
    /// Files that the file system could still take at the last count; `None` where it does not say.
    free: Option<u64>,
    last_check: Check,
}

/// What the file system said when it was asked last.
#[derive(Debug, Clone, Copy)]
struct Check {
    at: Instant,
    free: Option<u64>,
    lost_per_second: f64,
}

impl Workspace {
    pub(super) fn start(path: &Path, limit: WorkspaceBounds, tier: Tier) -> io::Result<Self> {
        let folder = open_folder(CWD, path, Need::Look)?;
        let started = Instant::now();
        let free = free_files(&folder);
        let held = measure(&folder, Closed::Open, |_| false)?;
        // Each by itself: holes that were left behind give no right to what they could hold.
        let most = Size {
            files: held.files.max(limit.files),
            bytes: held.bytes.max(limit.bytes),
            on_disk: held.on_disk.max(limit.bytes),
        };
        let count = Count::new(most.files, held.files, started, free);
        Ok(Self { folder, tier, limit, most, next_look: started, count })
    }

    /// Counts names if the bound may have been reached since they were counted last. Cheap otherwise.
    pub(super) fn check_files(&mut self) -> Option<Report> {
        self.count.check(Instant::now(), free_files(&self.folder));
        if self.count.is_due(Instant::now()) { self.count_files() } else { None }
    }

    /// How long the next check may wait.
    pub(super) fn longest_wait(&self) -> Duration {
        self.count.wait(Instant::now())
    }

    pub(super) fn look_when_due(&mut self) -> Option<Report> {
        if Instant::now() < self.next_look { None } else { self.look(Closed::Leave) }
    }

    /// What the workspace holds when the program has ended, in closed folders too.
    pub(super) fn look_at_end(&mut self) -> Option<Report> {
        self.look(Closed::Open)
    }

    fn count_files(&mut self) -> Option<Report> {
        let (most, folder, count) = (self.most.files, &self.folder, &mut self.count);
        if !count.is_near_bound() {
            let (started, free) = (Instant::now(), free_files(folder));
            // One that cannot be read now is counted again later.
            let files = count_names(folder, most, &mut || count.may_be_over(folder)).ok()?;
            if let Some(files) = files.filter(|files| *files <= most) {
                count.record(files, started, Instant::now(), free);
                return None;
            }
        }
        let pause = Pause::start(self.tier);
        let (started, free) = (Instant::now(), free_files(folder));
        let files = count_names(folder, most, &mut || false).ok()??;
        count.record(files, started, Instant::now(), free);
        if files <= most {
            return None;
        }
        pause.keep();
        Some(Report::WorkspaceFiles { limit: self.limit.files })
    }

    fn look(&mut self, closed: Closed) -> Option<Report> {
        let started = Instant::now();
        let most = self.most;
        let is_over = |size: &Size| size.files > most.files || size.bytes > most.bytes || size.on_disk > most.on_disk;
        let mut interruptions = if closed == Closed::Leave { MAX_INTERRUPTIONS } else { 0 };
        let mut held = loop {
            let (folder, count) = (&self.folder, &mut self.count);
            let (mut must_count, mut steps) = (false, 0_u64);
            // One that cannot be read now is looked at again.
            let held = measure(folder, closed, |size| {
                steps += 1;
                let is_checked = interruptions > 0 && steps % NAMES_BETWEEN_CHECKS == 0;
                must_count = is_checked && count.may_be_over(folder);
                must_count || is_over(size)
            })
            .ok()?;
            if !must_count {
                break held;
            }
            interruptions -= 1;
            if let Some(broken) = self.count_files() {
                return Some(broken);
            }
        };
        let pause = (closed == Closed::Leave && is_over(&held)).then(|| Pause::start(self.tier));
        if pause.is_some() {
            // A folder that is read while names are removed from it may show one twice.
            held = measure(&self.folder, closed, is_over).ok()?;
        }
        self.next_look = Instant::now() + started.elapsed() * REST;
        if !is_over(&held) {
            return None;
        }
        pause.into_iter().for_each(Pause::keep);
        Some(if held.files > most.files {
            Report::WorkspaceFiles { limit: self.limit.files }
        } else {
            Report::WorkspaceBytes { limit: self.limit.bytes }
        })
    }
}

impl Count {
    fn new(most: u64, files: u64, started: Instant, free: Option<u64>) -> Self {
        let ended = Instant::now();
        let last_check = Check { at: started, free, lost_per_second: 0.0 };
        Self { most, files, started, ended, per_second: 0.0, free, last_check }
    }

    fn check(&mut self, at: Instant, free: Option<u64>) {
        let before = self.last_check;
        let lost_per_second = per_second(lost(before.free, free), at.saturating_duration_since(before.at));
        self.last_check = Check { at, free, lost_per_second };
    }

    /// Asks the file system whether the bound may have been reached since the last count.
    fn may_be_over(&mut self, folder: &OwnedFd) -> bool {
        self.check(Instant::now(), free_files(folder));
        self.remaining() == 0
    }

    /// Whether the bound may have been reached, or may be before a count ends.
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

    /// From the end of a count to the next, if the file system says nothing that makes it more urgent.
    fn interval(&self) -> Duration {
        let left = self.most.saturating_sub(self.files);
        half_of_time(left, self.per_second).min((self.cost() * REST).max(SHORTEST)).max(self.cost())
    }

    fn wait(&self, now: Instant) -> Duration {
        let until_count = (self.ended + self.interval()).saturating_duration_since(now);
        let remaining = self.remaining();
        let blind = half_of_time(remaining, PLAUSIBLE_FILES_PER_SECOND).max(SHORTEST_BLIND_CHECK);
        let known = half_of_time(remaining, self.per_second.max(self.last_check.lost_per_second));
        until_count.min(blind).min(known).max(SHORTEST_CHECK)
    }

    /// Files that may be made before the bound is reached, if all that the file system lost went into the workspace.
    fn remaining(&self) -> u64 {
        let lost = lost(self.free, self.last_check.free);
        // One more than the bound breaks it.
        (self.most + 1).saturating_sub(self.files).saturating_sub(lost)
    }

    fn cost(&self) -> Duration {
        self.ended.saturating_duration_since(self.started).max(SHORTEST_CHECK)
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
    files as f64 / time.max(SHORTEST_CHECK).as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn half_of_time(files: u64, per_second: f64) -> Duration {
    let seconds = files as f64 / per_second.max(1.0) / 2.0;
    Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn files_are_counted_as_soon_as_the_file_system_lost_as_many_as_are_left() {
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
    fn growth_that_no_file_system_tells_of_is_counted_in_time() {
        let start = Instant::now();
        let mut count = Count::new(10_000, 0, start, None);
        let next = count.ended + count.interval();
        assert!(count.is_due(next) && !count.is_due(next - MS));
        // A hundred in a millisecond: nine thousand more take ninety.
        count.record(1_000, start + 10 * MS, start + 11 * MS, None);
        assert!(count.interval() <= SHORTEST.max(45 * MS));
        count.record(9_900, start + 99 * MS, start + 100 * MS, None);
        assert_eq!(count.interval(), MS, "it takes that long to count");
    }

    #[test]
    fn a_count_that_growth_could_overtake_is_exact() {
        let start = Instant::now();
        let mut count = Count::new(10_000, 0, start, None);
        count.record(8_000, start + 80 * MS, start + 90 * MS, None);
        assert!(!count.is_near_bound(), "a thousand more in ten milliseconds leave a thousand");
        count.record(9_100, start + 91 * MS, start + 101 * MS, None);
        assert!(count.is_near_bound());
        let mut told = Count::new(10_000, 9_000, start, Some(50_000));
        told.check(start + 1_000 * MS, Some(49_000));
        assert!(!told.is_near_bound());
        told.check(start + 2_000 * MS, Some(48_999));
        assert!(told.is_near_bound());
    }

    #[test]
    fn checks_are_frequent_only_near_the_bound() {
        let start = Instant::now();
        let mut idle = Count::new(100_000, 10, start, Some(1 << 20));
        idle.check(start + MS, Some(1 << 20));
        assert!(idle.wait(start + MS) >= 15 * MS);
        let mut near = Count::new(100_000, 99_990, start, Some(1 << 20));
        near.check(start + MS, Some(1 << 20));
        assert_eq!(near.wait(start + MS), SHORTEST_BLIND_CHECK);
        near.check(start + 2 * MS, Some((1 << 20) - 9));
        assert_eq!(near.wait(start + 2 * MS), SHORTEST_CHECK);
    }
}
