//! VFS shim: SQLite's own functions, wrapped by the [`Disk`](super::disk::Disk) for watched files.

#![allow(
    unsafe_code,
    reason = "SQLite's interface to file systems is functions over pointers. What is kept behind a file's pointer is put \
              there by `open` and taken away by `close`, and SQLite calls nothing else in between from two threads"
)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use super::disk::Disk;

static WATCHED: Mutex<Vec<(PathBuf, Weak<Disk>)>> = Mutex::new(Vec::new());

/// SQLite's own VFS.
struct Original(*mut sqlite3_vfs);

// SAFETY: it is one of SQLite's constants, which all of its threads use.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

static ORIGINAL: OnceLock<Original> = OnceLock::new();

/// File structure seen by SQLite; the structure of the original VFS follows in memory.
#[repr(C)]
struct Shim {
    base: sqlite3_file,
    file: *mut Watched,
}

struct Watched {
    disk: Arc<Disk>,
    name: String,
}

pub(super) fn watch(folder: &Path, disk: &Arc<Disk>) {
    ORIGINAL.get_or_init(register);
    WATCHED.lock().push((folder.to_owned(), Arc::downgrade(disk)));
}

pub(super) fn forget(folder: &Path) {
    WATCHED.lock().retain(|(watched, _)| watched != folder);
}

/// Makes the shim the default VFS; open connections are unaffected.
fn register() -> Original {
    // SAFETY: SQLite returns its default VFS, which is static, and is given one that is never freed.
    unsafe {
        let original = ffi::sqlite3_vfs_find(std::ptr::null());
        let shim = sqlite3_vfs {
            szOsFile: (*original).szOsFile + size_of::<Shim>() as c_int,
            pNext: std::ptr::null_mut(),
            zName: c"agentd-faults".as_ptr(),
            xOpen: Some(open),
            xDelete: Some(delete),
            ..*original
        };
        ffi::sqlite3_vfs_register(Box::leak(Box::new(shim)), 1);
        Original(original)
    }
}

fn original() -> *mut sqlite3_vfs {
    ORIGINAL.get_or_init(register).0
}

/// Returns the watching disk of a file and its name in the folder.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn watched(path: *const c_char) -> Option<Watched> {
    if path.is_null() {
        return None;
    }
    // SAFETY: by contract.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let watched = WATCHED.lock();
    let (_, disk) = watched.iter().find(|(watched, _)| watched == folder)?;
    Some(Watched { disk: disk.upgrade()?, name: name.to_owned() })
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a path or null, and `szOsFile` bytes at `file` that are not visible to others yet.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let Some(open) = (*original()).xOpen else { return ffi::SQLITE_MISUSE };
        let Some(watched) = watched(path) else { return open(original(), path, file, flags, out) };
        let mut code = watched.disk.open(&watched.name);
        if code == ffi::SQLITE_OK {
            code = open(original(), path, own(file), flags, out);
        }
        if code == ffi::SQLITE_OK {
            let shim = file.cast::<Shim>();
            (*shim).file = Box::into_raw(Box::new(watched));
            (*shim).base.pMethods = &raw const METHODS;
        }
        code
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, path: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a path.
    unsafe {
        let Some(delete) = (*original()).xDelete else { return ffi::SQLITE_MISUSE };
        let delete = || delete(original(), path, sync);
        match watched(path) {
            Some(watched) => watched.disk.remove(&watched.name, sync != 0, delete),
            None => delete(),
        }
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Excludes the methods for memory-mapped files.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Returns the file structure of the original VFS.
///
/// # Safety
/// `file` has `szOsFile` bytes.
unsafe fn own(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: by contract.
    unsafe { file.byte_add(size_of::<Shim>()) }
}

/// # Safety
/// `file` is open.
unsafe fn of<'f>(file: *mut sqlite3_file) -> &'f Watched {
    // SAFETY: by contract; `open` has put it there.
    unsafe { &*(*file.cast::<Shim>()).file }
}

/// Calls a function of the original VFS for an open file.
macro_rules! own {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let own = own($file);
        match (*(*own).pMethods).$method {
            Some(method) => method(own $(, $argument)*),
            None => ffi::SQLITE_MISUSE,
        }
    }};
}

/// Functions forwarded to the original VFS.
macro_rules! forward {
    ($($name:ident = $method:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite gives an open file.
            unsafe { own!(file, $method $(, $argument)*) }
        }
    )*};
}

forward! {
    file_size = xFileSize(size: *mut i64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(is_held: *mut c_int);
    file_control = xFileControl(operation: c_int, argument: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, memory: *mut *mut c_void);
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int);
    shm_unmap = xShmUnmap(delete: c_int);
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: SQLite gives an open file.
    unsafe {
        let own = own(file);
        if let Some(barrier) = (*(*own).pMethods).xShmBarrier {
            barrier(own);
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite gives an open file, and does not use it after this.
    unsafe {
        drop(Box::from_raw((*file.cast::<Shim>()).file));
        own!(file, xClose)
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, length: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite gives an open file and room for `length` bytes.
    unsafe {
        match of(file).disk.read() {
            ffi::SQLITE_OK => own!(file, xRead, into, length, offset),
            code => code,
        }
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, length: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite gives an open file and `length` bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(length).unwrap_or(0));
        let watched = of(file);
        watched.disk.write(&watched.name, to_offset(offset), bytes, |bytes| {
            own!(file, xWrite, bytes.as_ptr().cast(), c_int::try_from(bytes.len()).unwrap_or(0), offset)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: i64) -> c_int {
    // SAFETY: SQLite gives an open file.
    unsafe {
        let watched = of(file);
        watched.disk.truncate(&watched.name, to_offset(length), || own!(file, xTruncate, length))
    }
}

/// Memory is the simulated disk: nothing needs to reach a real one.
unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // SAFETY: SQLite gives an open file.
    unsafe {
        let watched = of(file);
        watched.disk.sync(&watched.name)
    }
}

fn to_offset(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}
