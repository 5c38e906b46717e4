//! Opening and resetting.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use parking_lot::{Mutex, RwLock};

use super::{BOUNDS, Index, IndexOptions, OpenState, Opened, Upkeep};
use crate::documents::{NONE, VectorRange};
use crate::error::IndexError;
use crate::files::failed;
use crate::manifest::{self, Manifest, TextEntry, Unusable, VectorEntry};
use crate::search::scratch::ScratchPool;
use crate::state::{State, VectorSlots};
use crate::text::mapped::{MappedText, path as text_path};
use crate::text::{Terms, TextPart};
use crate::vectors::dot::Kernel;
use crate::vectors::part::{VectorPart, coarse_path, fine_path};

const LOCK_NAME: &str = "lock";

impl Index {
    /// Opens the index in its own folder, which is created if necessary. Files that differ from the last flush are
    /// never used: the index then starts empty and reports the reason. Only the small parts of files are read here; the
    /// rest is verified on first use, or by [`Index::warm`].
    ///
    /// # Errors
    /// The folder cannot be read or written, or another process has it open.
    pub fn open(folder: &Path, options: IndexOptions) -> Result<(Self, Opened), IndexError> {
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        let lock = lock(folder)?;
        let (state, opened, next_number) = match Manifest::read(folder)? {
            Ok(manifest) => match load(folder, &manifest, &options) {
                Ok(state) => {
                    let comparable =
                        manifest.model == options.embedding_model && manifest.dimensions == options.dimensions;
                    let found = if comparable {
                        OpenState::CaughtUp
                    } else {
                        OpenState::VectorsDropped { previous_model: manifest.model }
                    };
                    (state, Opened { cursor: manifest.cursor, state: found }, manifest.next_number)
                }
                Err(IndexError::Damaged { reason }) => empty_state(OpenState::Rebuilt { reason }),
                Err(error) => return Err(error),
            },
            Err(Unusable::Absent) => empty_state(OpenState::Fresh),
            Err(Unusable::Reason(reason)) => empty_state(OpenState::Rebuilt { reason }),
        };
        let index = Self {
            folder: folder.to_owned(),
            options,
            kernel: Kernel::detect(),
            state: Arc::new(RwLock::new(state)),
            upkeep: Mutex::new(Upkeep::default()),
            bounds: BOUNDS,
            next_number: AtomicU32::new(next_number),
            scratch: ScratchPool::default(),
            _lock: lock,
        };
        if matches!(opened.state, OpenState::Rebuilt { .. }) {
            // A crash before the first flush must not encounter the same files again.
            remove_if_exists(&manifest::path(folder))?;
        }
        index.remove_unreferenced()?;
        Ok((index, opened))
    }

    /// Empties the index immediately, including its files: after damage, or because all memory is deleted. The cursor
    /// is reset.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn reset(&self) -> Result<(), IndexError> {
        let mut upkeep = self.upkeep.lock();
        remove_if_exists(&manifest::path(&self.folder))?;
        let mut state = self.state.write();
        let revision = state.revision + 1;
        *state = State::default();
        state.revision = revision;
        drop(state);
        *upkeep = Upkeep::default();
        self.remove_unreferenced()
    }

    /// Removes unreferenced files left by a crash.
    fn remove_unreferenced(&self) -> Result<(), IndexError> {
        let state = self.state.read();
        let mut known: Vec<PathBuf> = vec![self.folder.join(LOCK_NAME), manifest::path(&self.folder)];
        for part in &state.text {
            if let Terms::Mapped(text) = &part.terms {
                known.push(text_path(&self.folder, text.number));
            }
        }
        for part in &state.vectors {
            known.extend([coarse_path(&self.folder, part.number), fine_path(&self.folder, part.number)]);
        }
        drop(state);
        for entry in fs::read_dir(&self.folder).map_err(failed("read", &self.folder))? {
            let entry = entry.map_err(failed("read", &self.folder))?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Other files do not belong to the index.
            let ours = ["text-", "vectors-", "manifest"].iter().any(|start| name.starts_with(start));
            if ours && !known.contains(&path) {
                remove_if_exists(&path)?;
            }
        }
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, IndexError> {
    let path = folder.join(LOCK_NAME);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(IndexError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
    }
}

pub(super) fn remove_if_exists(path: &Path) -> Result<(), IndexError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn empty_state(state: OpenState) -> (State, Opened, u32) {
    (State::default(), Opened { cursor: None, state }, 1)
}

fn load(folder: &Path, manifest: &Manifest, options: &IndexOptions) -> Result<State, IndexError> {
    let mut state = State::default();
    for entry in &manifest.text {
        load_text(folder, entry, &mut state)?;
    }
    state.documents.link_all();
    if manifest.model == options.embedding_model && manifest.dimensions == options.dimensions {
        for entry in &manifest.vectors {
            load_vectors(folder, entry, options.dimensions, &mut state)?;
        }
    }
    Ok(state)
}

fn load_text(folder: &Path, entry: &TextEntry, state: &mut State) -> Result<(), IndexError> {
    let (text, records) = MappedText::open(folder, entry.number, entry.sums)?;
    let base = state.documents.slot_count();
    let mut dead = entry.dead.iter().peekable();
    state.documents.reserve(records.len());
    for (position, record) in records.iter().enumerate() {
        if dead.peek().is_some_and(|dead| **dead as usize == position) {
            dead.next();
            state.documents.append_dead(*record);
        } else if state.documents.slot_of(record.row).is_some() {
            return Err(IndexError::damaged(format!("row {} occurs twice", record.row)));
        } else {
            state.documents.append(*record);
        }
    }
    let count = records.len() as u32;
    state.text.push(TextPart { base, count, terms: Terms::Mapped(Arc::new(text)) });
    Ok(())
}

fn load_vectors(folder: &Path, entry: &VectorEntry, dimensions: usize, state: &mut State) -> Result<(), IndexError> {
    let (part, rows) = VectorPart::open(folder, entry.number, dimensions, entry.sums)?;
    let mut dead = entry.dead.iter().peekable();
    let mut slots: Vec<u32> = Vec::with_capacity(rows.len());
    let mut live = 0;
    for (index, row) in rows.iter().enumerate() {
        if dead.peek().is_some_and(|dead| **dead as usize == index) {
            dead.next();
            slots.push(NONE);
            continue;
        }
        let lost = || IndexError::damaged(format!("a vector belongs to row {row}, which does not exist"));
        let slot = state.documents.slot_of(*row).ok_or_else(lost)?;
        let before = state.documents.vectors(slot);
        let start = index as u32;
        if before.count == 0 {
            state.documents.set_vectors(slot, VectorRange { part: entry.number, start, count: 1 });
        } else if before.part == entry.number && before.start + before.count == start {
            state.documents.move_vectors(slot, VectorRange { count: before.count + 1, ..before });
        } else {
            return Err(IndexError::damaged(format!("the vectors of row {row} are not contiguous")));
        }
        slots.push(slot);
        live += 1;
    }
    state.vectors.push(VectorSlots { number: entry.number, part: Arc::new(part), slots, live });
    Ok(())
}
