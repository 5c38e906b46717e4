//! Races: files of the workspace are swapped while the tools run, as sandboxed code could do.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::{Bench, calls};

const SECRET: &str = "the secret text";
/// Number of calls per tool within which both outcomes must occur.
const LEAST: usize = 300;
const MAX_CALLS: usize = 50_000;

/// Exchanges two names repeatedly until dropped, then restores them.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    #[allow(clippy::disallowed_methods, reason = "a thread that is in the way is what is tested")]
    fn start(one: std::path::PathBuf, other: std::path::PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let exchange = || renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            let mut is_exchanged = false;
            while !is_over.load(Ordering::Relaxed) {
                is_exchanged ^= exchange().is_ok();
            }
            // Another test step uses the same file.
            if is_exchanged {
                exchange().expect("the names are exchanged once more");
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Calls a tool until it both succeeded and failed; no output may contain the secret.
async fn race(bench: &Bench, tool: &str, input: serde_json::Value) {
    let (mut through, mut refused) = (0, 0);
    for round in 0..MAX_CALLS {
        match bench.call(tool, input.clone()).await {
            Ok(text) => {
                assert!(!text.contains(SECRET), "{tool} read outside: {text}");
                through += 1;
            }
            Err(text) => {
                assert!(!text.contains(SECRET), "{tool} read outside: {text}");
                refused += 1;
            }
        }
        if round >= LEAST && through > 0 && refused > 0 {
            return;
        }
    }
    panic!("{tool} met only one side: {through} through, {refused} refused");
}

fn assert_untouched(bench: &Bench) {
    let mut names: Vec<_> =
        std::fs::read_dir(bench.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["deep", "file"]);
    for path in ["file", "deep/file"] {
        assert_eq!(std::fs::read_to_string(bench.outside(path)).unwrap(), SECRET);
    }
    assert_eq!(std::fs::read_dir(bench.outside("deep")).unwrap().count(), 1);
}

fn bench() -> Bench {
    let bench = Bench::new();
    for root in [bench.outside(""), bench.inside("folder")] {
        std::fs::create_dir_all(root.join("deep")).unwrap();
    }
    for path in ["file", "deep/file"] {
        std::fs::write(bench.outside(path), SECRET).unwrap();
        std::fs::write(bench.inside("folder").join(path), "secret of its own").unwrap();
    }
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_replaced_by_a_link_is_not_followed() {
    let bench = bench();
    symlink(bench.outside(""), bench.inside("trap")).unwrap();
    let _swapper = Swapper::start(bench.inside("folder"), bench.inside("trap"));
    for path in ["folder/file", "folder/deep/file"] {
        for (tool, input) in calls(path) {
            match tool {
                "list_files" => race(&bench, tool, json!({"path": path.trim_end_matches("/file")})).await,
                // An edit finds its text only once; afterwards it fails in any case.
                "edit_file" => {
                    for _ in 0..LEAST {
                        let _ = bench.call(tool, input.clone()).await;
                    }
                }
                _ => race(&bench, tool, input).await,
            }
        }
    }
    for _ in 0..LEAST {
        let found = bench.call("search_files", json!({"pattern": "secret text"})).await.unwrap();
        assert!(!found.contains(SECRET), "{found}");
        let _ = bench.call("write_file", json!({"path": "folder/new/file", "content": "evil"})).await;
    }
    assert_untouched(&bench);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_replaced_by_a_link_is_not_followed() {
    let bench = bench();
    std::fs::write(bench.inside("file"), "plain").unwrap();
    // A different file than the one with two names, so that each case is tested separately.
    symlink(bench.outside("deep/file"), bench.inside("trap")).unwrap();
    std::fs::hard_link(bench.outside("file"), bench.inside("hard")).unwrap();
    for trap in ["trap", "hard"] {
        let _swapper = Swapper::start(bench.inside("file"), bench.inside(trap));
        race(&bench, "read_file", json!({"path": "file"})).await;
        race(&bench, "search_files", json!({"path": "file", "pattern": "."})).await;
        for _ in 0..LEAST {
            let _ = bench.call("edit_file", json!({"path": "file", "old_text": "text", "new_text": "evil"})).await;
        }
    }
    // A rename may replace the link, which is inside; the link's target stays.
    let _swapper = Swapper::start(bench.inside("file"), bench.inside("trap"));
    for _ in 0..LEAST {
        let _ = bench.call("write_file", json!({"path": "file", "content": "evil"})).await;
    }
    assert_untouched(&bench);
}
