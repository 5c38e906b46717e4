//! What is in the files, what of it is on the disk, and which operation fails.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use agentd_base::Entropy;
use parking_lot::Mutex;
use rusqlite::ffi;

use super::{Fault, FaultKind, Operations, Unsynced};

/// What is written as one or not at all.
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

/// Since the last sync.
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
    /// Whether the folder's entry is on the disk.
    is_found: bool,
    /// A sync failed, and what it was to write is not on the disk.
    has_lost: bool,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Content>,
    /// Removed, but not yet on the disk.
    removed: BTreeMap<String, Vec<u8>>,
    fault: Option<Fault>,
    /// Operations that the planned fault could have struck.
    met: u64,
    injected: u64,
    operations: Operations,
    is_cut: bool,
    ignores_rewriting: bool,
}

/// The files of one folder.
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
        (state.fault, state.met) = (fault, 0);
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
            content.notice_rewriting(&self.folder.join(name), ignores_rewriting);
            if content.is_found || dice.keeps() {
                let mut bytes = content.durable.clone();
                content.unsynced.iter().for_each(|change| change.apply(&mut bytes, &dice));
                image.insert(name.clone(), bytes);
            }
        }
        image
    }

    /// Before a file is opened. What is in it when it is seen first counts as being on the disk.
    pub(super) fn open(&self, name: &str) -> c_int {
        let mut state = self.state.lock();
        if state.is_cut {
            return ffi::SQLITE_CANTOPEN;
        }
        if !state.files.contains_key(name) {
            // Nobody has it open, so that no lock is lost when this closes it again.
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
        match state.strikes(Operation::Read) {
            Some(_) => ffi::SQLITE_IOERR_READ,
            None => ffi::SQLITE_OK,
        }
    }

    /// `write` is given what gets into the file.
    pub(super) fn write(&self, name: &str, offset: usize, bytes: &[u8], write: impl Fn(&[u8]) -> c_int) -> c_int {
        let mut state = self.state.lock();
        let extends = state.files.get(name).is_none_or(|content| offset + bytes.len() > content.current.len());
        let was_cut = state.is_cut;
        let (bytes, code) = match state.strikes(Operation::Write { extends }) {
            None => (bytes, ffi::SQLITE_OK),
            Some(FaultKind::ShortWrite) => (&bytes[..bytes.len() / 2], ffi::SQLITE_IOERR_WRITE),
            Some(FaultKind::NoSpace) => (&bytes[..0], ffi::SQLITE_FULL),
            // The write that is cut may be on the disk.
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
        if state.strikes(Operation::Other).is_some() {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        state.change(name, &self.folder.join(name), || Change::Truncate { length }, truncate)
    }

    pub(super) fn sync(&self, name: &str) -> c_int {
        let mut state = self.state.lock();
        let was_cut = state.is_cut;
        match state.strikes(Operation::Sync) {
            Some(FaultKind::NoSync) => return ffi::SQLITE_OK,
            Some(FaultKind::SyncError) if !was_cut => {
                let path = self.folder.join(name);
                state.files.entry(name.to_owned()).or_default().fail_to_sync(&path, self.failed_syncs);
                return ffi::SQLITE_IOERR_FSYNC;
            }
            Some(_) => return ffi::SQLITE_IOERR_FSYNC,
            None => {}
        }
        // A journaling file system brings the names along that went before.
        state.removed.clear();
        let (path, ignores_rewriting) = (self.folder.join(name), state.ignores_rewriting);
        let content = state.files.entry(name.to_owned()).or_default();
        content.notice_rewriting(&path, ignores_rewriting);
        content.sync();
        ffi::SQLITE_OK
    }

    pub(super) fn remove(&self, name: &str, is_synced: bool, remove: impl Fn() -> c_int) -> c_int {
        let mut state = self.state.lock();
        if state.strikes(Operation::Other).is_some() {
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
    /// Counts an operation; answers why it fails.
    fn strikes(&mut self, operation: Operation) -> Option<FaultKind> {
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
        self.met += 1;
        if self.met < fault.first || self.met - fault.first >= fault.times {
            return None;
        }
        self.injected += 1;
        self.is_cut = fault.kind == FaultKind::PowerCut;
        Some(fault.kind)
    }

    /// Changes a file, and what is known of it.
    fn change(&mut self, name: &str, path: &Path, change: impl Fn() -> Change, carry_out: impl Fn() -> c_int) -> c_int {
        let ignores_rewriting = self.ignores_rewriting;
        let content = self.files.entry(name.to_owned()).or_default();
        content.notice_rewriting(path, ignores_rewriting);
        let code = carry_out();
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

    /// The kernel takes what could not be written for clean: it can be read, and a later sync does not write it.
    fn fail_to_sync(&mut self, path: &Path, unsynced: Unsynced) {
        let dice = Dice::new(unsynced);
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.durable, &dice);
        }
        self.has_lost = true;
        mark(path);
    }

    /// Whoever writes a log again as it is, without SQLite, has it written to the disk.
    fn notice_rewriting(&mut self, path: &Path, is_ignored: bool) {
        let is_rewritten = || std::fs::metadata(path).and_then(|file| file.modified()).is_ok_and(|at| at != marked());
        if !is_ignored && self.has_lost && is_log(path) && is_rewritten() {
            self.durable.clone_from(&self.current);
            self.unsynced.clear();
            (self.has_lost, self.is_found) = (false, true);
        }
    }
}

/// When a log says that it was changed which nobody but SQLite has changed since a sync of it failed.
fn marked() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}

/// Opening and closing any other file would end the locks that this process has on it.
fn is_log(path: &Path) -> bool {
    path.to_string_lossy().ends_with("-wal")
}

fn mark(path: &Path) {
    if is_log(path)
        && let Ok(file) = std::fs::File::options().write(true).open(path)
    {
        // Without the mark, the next look finds what it finds when somebody else has written.
        let _ = file.set_modified(marked());
    }
}

impl Change {
    /// A truncation is kept or not, and each sector of a write by itself.
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

/// Which sectors are kept.
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
