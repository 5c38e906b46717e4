//! Simulated disk: current contents of files, their durable parts, and the planned fault.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use agentd_base::Entropy;
use parking_lot::Mutex;
use rusqlite::ffi;

use super::{Fault, FaultKind, Operations, Unsynced};

/// Unit of atomic writes, in bytes.
const SECTOR: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Write { extends: bool },
    Sync,
    Other,
}

impl FaultKind {
    fn meets(self, operation: Operation) -> bool {
        match self {
            Self::ShortWrite | Self::WriteError => matches!(operation, Operation::Write { .. }),
            Self::NoSpace => operation == Operation::Write { extends: true },
            Self::ReadError => operation == Operation::Read,
            Self::SyncError | Self::NoSync => operation == Operation::Sync,
            Self::PowerCut => operation != Operation::Read,
        }
    }
}

/// Change since the last sync.
#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Debug, Default)]
struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Whether the directory entry is durable.
    is_found: bool,
    /// A sync failed, and its data is not durable.
    has_lost: bool,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Content>,
    /// Files whose removal is not durable yet.
    removed: BTreeMap<String, Vec<u8>>,
    fault: Option<Fault>,
    /// Number of operations that match the planned fault.
    matched: u64,
    injected: u64,
    operations: Operations,
    is_cut: bool,
    ignores_rewriting: bool,
}

/// Files of one folder.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    failed_syncs: Unsynced,
    state: Mutex<State>,
}

impl Disk {
    pub(super) fn new(folder: &Path, failed_syncs: Unsynced) -> Self {
        Self { folder: folder.to_owned(), failed_syncs, state: Mutex::default() }
    }

    pub(super) fn plan(&self, fault: Option<Fault>) {
        let mut state = self.state.lock();
        (state.fault, state.matched) = (fault, 0);
    }

    pub(super) fn ignore_rewriting(&self) {
        self.state.lock().ignores_rewriting = true;
    }

    pub(super) fn operations(&self) -> Operations {
        self.state.lock().operations
    }

    pub(super) fn injected(&self) -> u64 {
        self.state.lock().injected
    }

    pub(super) fn current(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state.lock();
        state.files.iter().map(|(name, content)| (name.clone(), content.current.clone())).collect()
    }

    pub(super) fn durable(&self, unsynced: Unsynced) -> BTreeMap<String, Vec<u8>> {
        let mut state = self.state.lock();
        let (dice, ignores_rewriting) = (Dice::new(unsynced), state.ignores_rewriting);
        let mut image = BTreeMap::new();
        for (name, bytes) in &state.removed {
            if unsynced == Unsynced::Lost || dice.keeps() {
                image.insert(name.clone(), bytes.clone());
            }
        }
        for (name, content) in &mut state.files {
            content.detect_rewriting(&self.folder.join(name), ignores_rewriting);
            if content.is_found || dice.keeps() {
                let mut bytes = content.durable.clone();
                content.unsynced.iter().for_each(|change| change.apply(&mut bytes, &dice));
                image.insert(name.clone(), bytes);
            }
        }
        image
    }

    /// Called before a file is opened. Its contents count as durable when it is first seen.
    pub(super) fn open(&self, name: &str) -> c_int {
        let mut state = self.state.lock();
        if state.is_cut {
            return ffi::SQLITE_CANTOPEN;
        }
        if !state.files.contains_key(name) {
            // No connection has it open, so closing it releases no lock.
            let content = match std::fs::read(self.folder.join(name)) {
                Ok(bytes) => Content { current: bytes.clone(), durable: bytes, is_found: true, ..Content::default() },
                Err(_) => Content::default(),
            };
            state.files.insert(name.to_owned(), content);
        }
        ffi::SQLITE_OK
    }

    pub(super) fn read(&self) -> c_int {
        let mut state = self.state.lock();
        match state.inject(Operation::Read) {
            Some(_) => ffi::SQLITE_IOERR_READ,
            None => ffi::SQLITE_OK,
        }
    }

    /// Performs a write; `write` is called with the bytes that reach the file.
    pub(super) fn write(&self, name: &str, offset: usize, bytes: &[u8], write: impl Fn(&[u8]) -> c_int) -> c_int {
        let mut state = self.state.lock();
        let extends = state.files.get(name).is_none_or(|content| offset + bytes.len() > content.current.len());
        let was_cut = state.is_cut;
        let (bytes, code) = match state.inject(Operation::Write { extends }) {
            None => (bytes, ffi::SQLITE_OK),
            Some(FaultKind::ShortWrite) => (&bytes[..bytes.len() / 2], ffi::SQLITE_IOERR_WRITE),
            Some(FaultKind::NoSpace) => (&bytes[..0], ffi::SQLITE_FULL),
            // The write interrupted by the power cut may be durable.
            Some(FaultKind::PowerCut) if !was_cut => (bytes, ffi::SQLITE_IOERR_WRITE),
            Some(_) => (&bytes[..0], ffi::SQLITE_IOERR_WRITE),
        };
        if bytes.is_empty() {
            return code;
        }
        let change = || Change::Write { offset, bytes: bytes.to_vec() };
        match state.change(name, &self.folder.join(name), change, || write(bytes)) {
            ffi::SQLITE_OK => code,
            failed => failed,
        }
    }

    pub(super) fn truncate(&self, name: &str, length: usize, truncate: impl Fn() -> c_int) -> c_int {
        let mut state = self.state.lock();
        if state.inject(Operation::Other).is_some() {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        state.change(name, &self.folder.join(name), || Change::Truncate { length }, truncate)
    }

    pub(super) fn sync(&self, name: &str) -> c_int {
        let mut state = self.state.lock();
        let was_cut = state.is_cut;
        match state.inject(Operation::Sync) {
            Some(FaultKind::NoSync) => return ffi::SQLITE_OK,
            Some(FaultKind::SyncError) if !was_cut => {
                let path = self.folder.join(name);
                state.files.entry(name.to_owned()).or_default().fail_to_sync(&path, self.failed_syncs);
                return ffi::SQLITE_IOERR_FSYNC;
            }
            Some(_) => return ffi::SQLITE_IOERR_FSYNC,
            None => {}
        }
        // A journaling file system also persists earlier changes of directory entries.
        state.removed.clear();
        let (path, ignores_rewriting) = (self.folder.join(name), state.ignores_rewriting);
        let content = state.files.entry(name.to_owned()).or_default();
        content.detect_rewriting(&path, ignores_rewriting);
        content.sync();
        ffi::SQLITE_OK
    }

    pub(super) fn remove(&self, name: &str, is_synced: bool, remove: impl Fn() -> c_int) -> c_int {
        let mut state = self.state.lock();
        if state.inject(Operation::Other).is_some() {
            return ffi::SQLITE_IOERR_DELETE;
        }
        let code = remove();
        if code == ffi::SQLITE_OK
            && let Some(content) = state.files.remove(name)
            && content.is_found
            && !is_synced
        {
            state.removed.insert(name.to_owned(), content.durable);
        }
        code
    }
}

impl State {
    /// Counts an operation and returns the fault that makes it fail.
    fn inject(&mut self, operation: Operation) -> Option<FaultKind> {
        match operation {
            Operation::Read => self.operations.reads += 1,
            Operation::Write { extends } => {
                self.operations.writes += 1;
                self.operations.extending += u64::from(extends);
            }
            Operation::Sync => self.operations.syncs += 1,
            Operation::Other => self.operations.others += 1,
        }
        if self.is_cut {
            return Some(FaultKind::PowerCut);
        }
        let fault = self.fault.filter(|fault| fault.kind.meets(operation))?;
        self.matched += 1;
        if self.matched < fault.first || self.matched - fault.first >= fault.times {
            return None;
        }
        self.injected += 1;
        self.is_cut = fault.kind == FaultKind::PowerCut;
        Some(fault.kind)
    }

    /// Changes a file and records the change.
    fn change(&mut self, name: &str, path: &Path, change: impl Fn() -> Change, perform: impl Fn() -> c_int) -> c_int {
        let ignores_rewriting = self.ignores_rewriting;
        let content = self.files.entry(name.to_owned()).or_default();
        content.detect_rewriting(path, ignores_rewriting);
        let code = perform();
        if code == ffi::SQLITE_OK {
            let change = change();
            change.apply(&mut content.current, &Dice::ALL);
            content.unsynced.push(change);
        }
        if content.has_lost {
            mark(path);
        }
        code
    }
}

impl Content {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.durable, &Dice::ALL);
        }
        self.is_found = true;
    }

    /// The kernel marks unwritten pages as clean: they are readable, but a later sync does not write them.
    fn fail_to_sync(&mut self, path: &Path, unsynced: Unsynced) {
        let dice = Dice::new(unsynced);
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.durable, &dice);
        }
        self.has_lost = true;
        mark(path);
    }

    /// Detects that a log was rewritten without SQLite, which makes it durable.
    fn detect_rewriting(&mut self, path: &Path, is_ignored: bool) {
        let is_rewritten = || std::fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|at| at != marked());
        if !is_ignored && self.has_lost && is_log(path) && is_rewritten() {
            self.durable.clone_from(&self.current);
            self.unsynced.clear();
            (self.has_lost, self.is_found) = (false, true);
        }
    }
}

/// Modification time that marks a log as changed only by SQLite since its last failed sync.
fn marked() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}

/// Opening and closing any other file would release the locks that this process holds on it.
fn is_log(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-wal")
}

fn mark(path: &Path) {
    if is_log(path)
        && let Ok(file) = std::fs::File::options().write(true).open(path)
    {
        // Without the mark, the next check assumes that the log was rewritten.
        let _ = file.set_modified(marked());
    }
}

impl Change {
    /// Applies or skips a truncation, and each sector of a write separately.
    fn apply(&self, bytes: &mut Vec<u8>, dice: &Dice) {
        match self {
            Self::Truncate { length } => {
                if dice.keeps() {
                    bytes.resize(*length, 0);
                }
            }
            Self::Write { offset, bytes: written } => {
                let (mut at, end) = (*offset, offset + written.len());
                while at < end {
                    let next = ((at / SECTOR + 1) * SECTOR).min(end);
                    if dice.keeps() {
                        if bytes.len() < next {
                            bytes.resize(next, 0);
                        }
                        bytes[at..next].copy_from_slice(&written[at - offset..next - offset]);
                    }
                    at = next;
                }
            }
        }
    }
}

/// Decides which sectors are retained.
enum Dice {
    All,
    None,
    Half(Entropy),
}

impl Dice {
    const ALL: Self = Self::All;

    fn new(unsynced: Unsynced) -> Self {
        match unsynced {
            Unsynced::Lost => Self::None,
            Unsynced::Half(seed) => Self::Half(Entropy::seeded(seed)),
        }
    }

    fn keeps(&self) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Half(entropy) => entropy.bytes::<1>()[0] & 1 == 1,
        }
    }
}
