//! Which operations were answered with which statuses in a whole run: each answer is a line in a file
//! of the folder that `AGENTD_TEST_RECORD` names. Without it nothing is recorded.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

const VARIABLE: &str = "AGENTD_TEST_RECORD";

static RECORDED: LazyLock<Mutex<HashSet<(String, u16)>>> = LazyLock::new(Mutex::default);

fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Notes an answer, the first of its kind.
pub fn note(operation: &str, status: u16) {
    let Some(folder) = folder() else { return };
    let mut recorded = RECORDED.lock().expect("no test panicked here");
    if !recorded.insert((operation.to_owned(), status)) {
        return;
    }
    // A file a process: several may run at once.
    let path = folder.join(std::process::id().to_string());
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.expect("a file in the folder"), "{operation} {status}").expect("written");
}

/// The statuses of every operation that was answered.
pub fn read() -> BTreeMap<String, BTreeSet<u16>> {
    let folder = folder().unwrap_or_else(|| panic!("{VARIABLE} names no folder with the record of a run"));
    let mut answered: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a file of lines");
        for line in text.lines() {
            let (operation, status) = line.split_once(' ').expect("an operation and a status");
            answered.entry(operation.to_owned()).or_default().insert(status.parse().expect("a status"));
        }
    }
    answered
}
