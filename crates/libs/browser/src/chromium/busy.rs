//! Terminates the busiest renderer of an unresponsive Chromium, so that the other pages survive.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::spawn_blocking;

/// Time over which CPU usage is measured.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum CPU time in the interval for a renderer to count as busy, in clock ticks of 10 ms. Low, because on a loaded
/// machine even a page in an endless loop gets little CPU time.
const MIN_BUSY_TICKS: u64 = 5;
/// Maximum number of ancestors searched for the browser process.
const MAX_DEPTH: usize = 8;

/// Process entry of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: u32,
    /// User and system CPU time in clock ticks of 10 ms.
    ticks: u64,
}

/// Kills the renderer process with the most CPU usage, if it is busy.
pub(super) async fn end_busiest_page(chromium: u32) {
    let Ok(before) = spawn_blocking(move || renderers(chromium)).await else { return };
    tokio::time::sleep(SAMPLE_INTERVAL).await;
    let ended = spawn_blocking(move || {
        let usage = renderers(chromium).into_iter().map(|(id, now)| {
            let before = before.get(&id).copied().unwrap_or(now);
            (now.saturating_sub(before), id)
        });
        let (ticks, id) = usage.max()?;
        let is_busy = ticks >= MIN_BUSY_TICKS;
        let process = Pid::from_raw(i32::try_from(id).ok()?).filter(|_| is_busy)?;
        kill_process(process, Signal::KILL).ok().map(|()| id)
    });
    if let Ok(Some(process)) = ended.await {
        tracing::warn!(process, "unresponsive renderer process killed");
    }
}

/// Returns the renderer processes of a Chromium with their CPU time in clock ticks.
fn renderers(chromium: u32) -> HashMap<u32, u64> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: HashMap<u32, ProcessStat> =
        ids.filter_map(|id| Some((id, parse_stat(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?))).collect();
    let is_descendant = |id: u32| {
        let parents = std::iter::successors(Some(id), |id| Some(all.get(id)?.parent));
        parents.skip(1).take(MAX_DEPTH).any(|parent| parent == chromium)
    };
    let renders = |id: u32| {
        fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| line.windows(15).any(|part| part == b"--type=renderer"))
    };
    all.iter().filter(|(id, _)| is_descendant(**id) && renders(**id)).map(|(id, stat)| (*id, stat.ticks)).collect()
}

/// Parses `/proc/<pid>/stat`. The program name in parentheses may contain any characters.
fn parse_stat(stat: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(ProcessStat { parent: fields.get(1)?.parse().ok()?, ticks: number(11)? + number(12)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_any_program_name_is_parsed() {
        let stat = "12 (a) R 1 2 3) S 7 9 9 0 -1 4194560 1 0 0 0 40 2 0 0 20 0 1 0 1 1 1";
        assert_eq!(parse_stat(stat), Some(ProcessStat { parent: 7, ticks: 42 }));
        assert_eq!((parse_stat(""), parse_stat("12 (a) S"), parse_stat("12 (a) S x")), (None, None, None));
        assert!(parse_stat(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }
}
