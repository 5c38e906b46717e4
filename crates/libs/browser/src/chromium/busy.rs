//! The page that keeps Chromium from answering: ended alone, so that the others live.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::spawn_blocking;

/// How long is looked at who works.
const LOOK: Duration = Duration::from_secs(2);
/// Hundredths of a second; who works less in that time does not keep anybody from answering. On a machine with much
/// else to do, a page without an end to its work gets little.
const LEAST: u64 = 5;
/// Parents of a process in a Chromium.
const MAX_DEPTH: usize = 8;

/// A process, as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    parent: u32,
    /// Hundredths of a second on a processor.
    used: u64,
}

/// Ends the process of a Chromium that renders pages and works most, if one works much.
pub(super) async fn end_busiest_page(chromium: u32) {
    let Ok(before) = spawn_blocking(move || renderers(chromium)).await else { return };
    tokio::time::sleep(LOOK).await;
    let ended = spawn_blocking(move || {
        let worked = renderers(chromium).into_iter().map(|(id, used)| {
            let before = before.get(&id).copied().unwrap_or(used);
            (used.saturating_sub(before), id)
        });
        let (worked, id) = worked.max()?;
        let is_busy = worked >= LEAST;
        let process = Pid::from_raw(i32::try_from(id).ok()?).filter(|_| is_busy)?;
        kill_process(process, Signal::KILL).ok().map(|()| id)
    });
    if let Ok(Some(process)) = ended.await {
        tracing::warn!(process, "a page kept Chromium from answering; its process was ended");
    }
}

/// Those that render pages, and how long each has worked.
fn renderers(chromium: u32) -> HashMap<u32, u64> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: HashMap<u32, Seen> =
        ids.filter_map(|id| Some((id, seen(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?))).collect();
    let is_inside = |id: u32| {
        let parents = std::iter::successors(Some(id), |id| Some(all.get(id)?.parent));
        parents.skip(1).take(MAX_DEPTH).any(|parent| parent == chromium)
    };
    let renders = |id: u32| {
        fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| line.windows(15).any(|part| part == b"--type=renderer"))
    };
    all.iter().filter(|(id, _)| is_inside(**id) && renders(**id)).map(|(id, seen)| (*id, seen.used)).collect()
}

/// Reads `/proc/…/stat`, where a program may call itself anything between its brackets.
fn seen(stat: &str) -> Option<Seen> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Seen { parent: fields.get(1)?.parse().ok()?, used: number(11)? + number(12)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_call_itself_anything() {
        let stat = "12 (a) R 1 2 3) S 7 9 9 0 -1 4194560 1 0 0 0 40 2 0 0 20 0 1 0 1 1 1";
        assert_eq!(seen(stat), Some(Seen { parent: 7, used: 42 }));
        assert_eq!((seen(""), seen("12 (a) S"), seen("12 (a) S x")), (None, None, None));
        assert!(seen(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }
}
