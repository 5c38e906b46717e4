//! Records the operations and response statuses of a whole run as lines in files of the folder
//! `AGENTD_TEST_RECORD`.
//! Without the variable nothing is recorded.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

const VARIABLE: &str = "AGENTD_TEST_RECORD";

static RECORDED: LazyLock<Mutex<HashSet<(String, u16)>>> = LazyLock::new(Mutex::default);

pub fn folder() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Records a response, once per operation and status.
pub fn note(operation: &str, status: u16) {
    let Some(folder) = folder() else { return };
    let mut recorded = RECORDED.lock().expect("no test panicked here");
    if !recorded.insert((operation.to_owned(), status)) {
        return;
    }
    // One file per process, because several may run concurrently.
    let path = folder.join(std::process::id().to_string());
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.expect("a file in the folder"), "{operation} {status}").expect("written");
}

/// Reads the recorded statuses of every operation.
pub fn read() -> BTreeMap<String, BTreeSet<u16>> {
    let folder = folder().unwrap_or_else(|| panic!("{VARIABLE} does not name a folder with recorded responses"));
    let mut answered: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(path).expect("a file of lines");
        for line in text.lines() {
            let (operation, status) = line.split_once(' ').expect("an operation and a status");
            answered.entry(operation.to_owned()).or_default().insert(status.parse().expect("a status"));
        }
    }
    answered
}
