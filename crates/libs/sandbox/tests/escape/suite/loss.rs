//! Memory cost of an attack: by the attackers' own count, and by the machine's statistics, which include other
//! processes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::attacks::AMOUNT_FILE_PREFIX;

/// Returns the amount that the attackers reported.
pub(super) fn taken(workspace: &Path) -> u64 {
    let entries = std::fs::read_dir(workspace).unwrap().flatten();
    let files = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(AMOUNT_FILE_PREFIX));
    files.filter_map(|entry| Some(u64::from_ne_bytes(std::fs::read(entry.path()).ok()?.try_into().ok()?))).sum()
}

/// Monitor of the machine's used memory.
pub(super) struct Loss {
    is_over: Arc<AtomicBool>,
    watcher: std::thread::JoinHandle<u64>,
}

impl Loss {
    pub(super) fn watch() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let watcher = std::thread::spawn(move || {
            let before = used_bytes();
            let mut most = before;
            while !over.load(Ordering::Relaxed) {
                most = most.max(used_bytes());
                std::thread::sleep(Duration::from_millis(5));
            }
            most - before
        });
        Self { is_over, watcher }
    }

    pub(super) fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.watcher.join().unwrap()
    }
}

/// Returns all memory that is neither free nor disk cache.
fn used_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let figure = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let free = figure("MemFree:") + figure("Buffers:") + figure("Cached:").saturating_sub(figure("Shmem:"));
    figure("MemTotal:").saturating_sub(free) << 10
}
