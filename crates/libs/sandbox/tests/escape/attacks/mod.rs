//! Attacks, which run inside the sandbox. Each returns what it reached.

mod bombs;
mod files;
mod kernel;
mod kernel_memory;
mod kernel_objects;
mod network;
mod processes;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) use kernel_memory::AMOUNT_FILE_PREFIX;
use serde::{Deserialize, Serialize};

/// Attacker's knowledge of the outside. A real attacker would have to guess it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) secret_text: String,
    pub(crate) secret_file: PathBuf,
    pub(crate) outside_directory: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) init_binary: PathBuf,
    pub(crate) daemon: i32,
    pub(crate) victim: i32,
    pub(crate) tcp_port: u16,
    pub(crate) udp_port: u16,
    pub(crate) abstract_socket: String,
    pub(crate) path_socket: PathBuf,
    pub(crate) datagram_socket: PathBuf,
    pub(crate) shared_memory: i32,
    pub(crate) memory_bytes: usize,
    pub(crate) processes: usize,
    pub(crate) disk_bytes: usize,
}

/// Descriptions of what was reached.
pub(crate) type Reached = Vec<String>;

pub(crate) type Attack = fn(&Target) -> Reached;

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("reading outside", files::reading_outside),
    ("writing outside", files::writing_outside),
    ("changing modes, owners, times outside", files::changing_attributes),
    ("links and races of links", files::links),
    ("remounting", files::remounting),
    ("tracing other processes", processes::tracing),
    ("signals to the daemon", processes::signals),
    ("signals to the init", processes::signals_to_init),
    ("limits and priorities of the daemon", processes::limits_of_others),
    ("secrets in /proc", processes::secrets_in_proc),
    ("memory shared with the daemon", processes::shared_memory),
    ("network: TCP and the metadata address", network::tcp),
    ("network: UDP and DNS", network::udp),
    ("network: sockets of the machine", network::unix_sockets),
    ("network: unusual families", network::unusual_families),
    ("set-user-id programs and rights", kernel::rights),
    ("typing into the terminal", kernel::terminal),
    ("inherited descriptors", processes::descriptors),
    ("the environment of the daemon", processes::environment),
    ("new namespaces", kernel::namespaces),
    ("the other numbers of system calls", kernel::foreign_numbers),
    ("dangerous system calls", kernel::dangerous_calls),
    ("watching files of others", files::watching),
    ("threads with descriptors of their own", kernel::own_descriptors),
    ("changing the init's binary", files::init_binary),
    ("fork bomb", bombs::fork_bomb),
    ("fork bomb of detached processes", bombs::detached_fork_bomb),
    ("memory bomb: one process", bombs::memory_bomb),
    ("memory bomb: many processes", bombs::memory_bomb_of_many),
    ("memory bomb: dropped shared pages", bombs::memory_bomb_hidden),
    ("memory bomb: files in memory", bombs::memory_bomb_in_files),
    ("memory bomb: dropped pages of many", kernel_memory::dropped_pages_of_many),
    ("memory bomb: pages that nobody maps", kernel_memory::unmapped_pages),
    ("memory bomb: socket pairs", kernel_memory::socket_pairs),
    ("memory bomb: hidden socket pairs", kernel_memory::hidden_socket_pairs),
    ("memory bomb: buffers of TCP", kernel_memory::tcp_buffers),
    ("memory bomb: connections of TCP", kernel_memory::tcp_connections),
    ("memory bomb: pipes", kernel_memory::pipes),
    ("memory bomb: empty files", kernel_memory::empty_files),
    ("memory bomb: queues of inotify", kernel_memory::inotify_queues),
    ("memory bomb: entries of epoll", kernel_memory::epoll_entries),
    ("memory bomb: tables of pages", kernel_memory::page_tables),
    ("memory bomb: first threads that end", kernel_objects::first_threads_that_end),
    ("memory bomb: sockets on the way", kernel_objects::sockets_on_the_way),
    ("memory bomb: locks of files", kernel_objects::locks),
    ("memory bomb: rules of Landlock", kernel_objects::landlock_rules),
    ("memory bomb: terminals", kernel_objects::terminals),
    ("memory bomb: open files of /proc", kernel_objects::files_of_proc),
    ("memory bomb: queues, segments and keys", kernel_objects::queues_segments_keys),
    ("disk filler", bombs::disk_filler),
    ("disk filler: deleted files", bombs::disk_filler_deleted),
    ("disk filler: reserved space", bombs::disk_filler_reserved),
    ("outliving the time limit", processes::outlive),
    ("outliving the daemon", processes::outlive),
];

fn note(reached: &mut Reached, what: impl Into<String>, open: bool) {
    if open {
        reached.push(what.into());
    }
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
