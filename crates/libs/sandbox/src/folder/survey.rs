//! Traversal of the content of a folder.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::open::{FOLDER, FolderAccess, open_folder};

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Number of names that are read between two calls of `stop`.
pub const NAMES_BETWEEN_CHECKS: u64 = 128;
const STEPS_OF_A_FOLDER: u64 = 8;

/// Handling of folders that are closed to their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    Open,
    /// Skip them; used while untrusted code is running.
    Leave,
}

/// Size of the content of a folder, excluding the folder itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Number of names, including folders.
    pub files: u64,
    /// Sum of the larger of length and disk usage of each name.
    pub bytes: u64,
    /// Total disk usage.
    pub on_disk: u64,
}

impl Size {
    pub fn add(&mut self, found: &Statx) {
        let on_disk = found.stx_blocks.saturating_mul(512);
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        let length = if is_file { found.stx_size } else { 0 };
        self.files += 1;
        self.bytes = self.bytes.saturating_add(length.max(on_disk));
        self.on_disk = self.on_disk.saturating_add(on_disk);
    }
}

/// Measures the content of a folder until `stop` returns true, which is called after each name and each folder.
///
/// # Errors
/// Returns an error if the folder is unreadable.
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

/// Counts the names in a folder and below it, up to one more than `limit`, without inspecting them. Unreadable folders
/// are not counted. Returns `None` if `stop`, which is called periodically, ended the count.
///
/// # Errors
/// Returns an error if the folder itself is unreadable.
pub fn count_names(folder: impl AsFd, limit: u64, stop: &mut dyn FnMut() -> bool) -> Result<Option<u64>, Errno> {
    let (mut count, mut steps, mut is_stopped) = (0, 0_u64, false);
    walk(folder, Closed::Leave, &mut |folder| {
        let mut visited = Visited::default();
        // Opening a folder takes longer than reading a name; many empty folders must not delay `stop`.
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
            // If the file system does not report a type, opening the entry determines it.
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

/// Visits everything in a folder, in arbitrary order, until the visitor breaks. Returns whether everything was visited,
/// except for unreadable folders and entries moved meanwhile.
///
/// # Errors
/// Returns an error if the folder itself is unreadable.
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
    let mut descent = Descent::new(rustix::io::fcntl_dupfd_cloexec(folder, 0)?, FolderAccess::Read);
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
            Closed::Open => open_folder(descent.current(), name.as_c_str(), FolderAccess::Read),
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
            // Removed, or no longer a folder.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => is_whole = false,
        }
    }
    Ok(is_whole)
}

/// Folder whose names were read.
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
