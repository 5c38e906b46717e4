//! Looking over all that lies in a folder.

use std::ffi::CString;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::open::{FOLDER, Need, open_folder};

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

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

/// Counts what lies in a folder until `stop` has enough; the folder is not counted itself.
///
/// # Errors
/// The folder cannot be read.
pub fn measure(folder: impl AsFd, closed: Closed, mut stop: impl FnMut(&Size) -> bool) -> Result<Size, Errno> {
    let mut size = Size::default();
    survey(folder, closed, &mut |found| {
        size.add(found);
        if stop(&size) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(size)
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
    let mut descent = Descent::new(rustix::io::fcntl_dupfd_cloexec(folder, 0)?, Need::Look);
    let mut waiting = Vec::new();
    let Visited { mut is_whole, is_over, folders } = visit_names(descent.current(), visit)?;
    if is_over {
        return Ok(false);
    }
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
        match opened.and_then(|inner| Ok((visit_names(&inner, visit)?, inner))) {
            Ok((visited, inner)) => {
                if visited.is_over {
                    return Ok(false);
                }
                is_whole &= visited.is_whole;
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

struct Visited {
    is_whole: bool,
    is_over: bool,
    folders: Vec<CString>,
}

fn visit_names(folder: &OwnedFd, visit: &mut dyn FnMut(&Statx) -> ControlFlow<()>) -> Result<Visited, Errno> {
    let mut visited = Visited { is_whole: true, is_over: false, folders: Vec::new() };
    for entry in names(folder)? {
        let (name, _) = entry?;
        let found = match statx(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW, WANTED) {
            Ok(found) => found,
            Err(Errno::NOENT) => continue,
            Err(_) => {
                visited.is_whole = false;
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
