//! Looking over all that lies in a folder.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::open::{FOLDER, Need, open_folder};

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// How many names are read between two questions whether to go on.
pub const NAMES_BETWEEN_CHECKS: u64 = 128;
const STEPS_OF_A_FOLDER: u64 = 8;

/// What becomes of folders that are closed to their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    Open,
    /// For who looks while their code still runs.
    Leave,
}

/// What lies in a folder, itself not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Everything that has a name, folders included.
    pub files: u64,
    /// Of each name what it says that it is long, or what it takes on the disk, whichever is more.
    pub bytes: u64,
    /// What all that takes on the disk.
    pub on_disk: u64,
}

impl Size {
    pub fn add(&mut self, found: &Statx) {
        let on_disk = found.stx_blocks.saturating_mul(512);
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        let said = if is_file { found.stx_size } else { 0 };
        self.files += 1;
        self.bytes = self.bytes.saturating_add(said.max(on_disk));
        self.on_disk = self.on_disk.saturating_add(on_disk);
    }
}

/// Counts what lies in a folder until `stop` has enough, which is asked after each name and each folder; the folder is
/// not counted itself.
///
/// # Errors
/// The folder cannot be read.
pub fn measure(folder: impl AsFd, closed: Closed, mut stop: impl FnMut(&Size) -> bool) -> Result<Size, Errno> {
    let mut size = Size::default();
    walk(folder, closed, &mut |folder| {
        let mut visited = visit_names(folder, &mut |found| {
            size.add(found);
            if stop(&size) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        visited.is_over = visited.is_over || stop(&size);
        Ok(visited)
    })?;
    Ok(size)
}

/// Counts the names in a folder and below it, up to one more than `limit`, without a look at what they name. What cannot
/// be opened is not counted. Returns `None` if `stop` ended the count, which is asked now and then.
///
/// # Errors
/// The folder itself cannot be read.
pub fn count_names(folder: impl AsFd, limit: u64, stop: &mut dyn FnMut() -> bool) -> Result<Option<u64>, Errno> {
    let (mut count, mut steps, mut is_stopped) = (0, 0_u64, false);
    walk(folder, Closed::Leave, &mut |folder| {
        let mut visited = Visited::default();
        // To open a folder takes longer than to read a name: many empty ones must not keep `stop` from being asked.
        steps += STEPS_OF_A_FOLDER;
        for entry in names(folder)? {
            let (name, kind) = entry?;
            count += 1;
            steps += 1;
            if steps >= NAMES_BETWEEN_CHECKS {
                steps = 0;
                is_stopped = stop();
            }
            if count > limit || is_stopped {
                visited.is_over = true;
                break;
            }
            // What a file system does not say of its own accord shows when it is opened.
            if matches!(kind, FileType::Directory | FileType::Unknown) {
                visited.folders.push(name);
            }
        }
        if steps >= NAMES_BETWEEN_CHECKS && !visited.is_over {
            steps = 0;
            is_stopped = stop();
            visited.is_over = is_stopped;
        }
        Ok(visited)
    })?;
    Ok((!is_stopped).then_some(count))
}

/// Visits all that lies in a folder, in no order, until the visitor breaks off. Answers whether
/// everything was seen: not what could not be opened, nor what was moved meanwhile.
///
/// # Errors
/// The folder itself cannot be read.
pub fn survey(
    folder: impl AsFd,
    closed: Closed,
    visit: &mut dyn FnMut(&Statx) -> ControlFlow<()>,
) -> Result<bool, Errno> {
    walk(folder, closed, &mut |folder| visit_names(folder, visit))
}

fn walk(
    folder: impl AsFd,
    closed: Closed,
    read: &mut dyn FnMut(&OwnedFd) -> Result<Visited, Errno>,
) -> Result<bool, Errno> {
    let mut descent = Descent::new(rustix::io::fcntl_dupfd_cloexec(folder, 0)?, Need::Look);
    let mut waiting = Vec::new();
    let Visited { is_partial, is_over, folders } = read(descent.current())?;
    if is_over {
        return Ok(false);
    }
    let mut is_whole = !is_partial;
    waiting.push(folders);
    while let Some(folders) = waiting.last_mut() {
        let Some(name) = folders.pop() else {
            waiting.pop();
            if !descent.is_at_start() && descent.leave().is_err() {
                return Ok(false);
            }
            continue;
        };
        let opened = match closed {
            Closed::Open => open_folder(descent.current(), name.as_c_str(), Need::Look),
            Closed::Leave => openat(descent.current(), name.as_c_str(), FOLDER, Mode::empty()),
        };
        match opened.and_then(|inner| Ok((read(&inner)?, inner))) {
            Ok((visited, inner)) => {
                if visited.is_over {
                    return Ok(false);
                }
                is_whole &= !visited.is_partial;
                descent.enter(name, inner)?;
                waiting.push(visited.folders);
            }
            // Gone, or no folder any more.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => is_whole = false,
        }
    }
    Ok(is_whole)
}

/// One folder that was read.
#[derive(Default)]
struct Visited {
    is_partial: bool,
    is_over: bool,
    folders: Vec<CString>,
}

fn visit_names(folder: &OwnedFd, visit: &mut dyn FnMut(&Statx) -> ControlFlow<()>) -> Result<Visited, Errno> {
    let mut visited = Visited::default();
    for entry in names(folder)? {
        let (name, _) = entry?;
        let found = match statx(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW, WANTED) {
            Ok(found) => found,
            Err(Errno::NOENT) => continue,
            Err(_) => {
                visited.is_partial = true;
                continue;
            }
        };
        if visit(&found).is_break() {
            visited.is_over = true;
            break;
        }
        if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory {
            visited.folders.push(name);
        }
    }
    Ok(visited)
}
