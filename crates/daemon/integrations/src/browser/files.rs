//! Files of recordings. Each has a folder with `recording.jsonl` (a header, then one line per step), a JPEG per step,
//! and `summary.json` once it has ended.
//!
//! A step is synced to disk before its action is answered. A truncated line is ignored.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_browser::RecordedStep;
use agentd_core::runtime::DataDir;

use super::model::{RecordingHeader, RecordingId, RecordingState, RecordingSummary, StoredStep};

const STEPS_FILE: &str = "recording.jsonl";
const SUMMARY_FILE: &str = "summary.json";
const TEMPORARY_SUMMARY_FILE: &str = "summary.json.new";

/// Folder of recordings. Cheap to clone; its functions block.
#[derive(Debug, Clone)]
pub(super) struct RecordingFiles(Arc<DataDir>);

/// Recording being written.
#[derive(Debug)]
pub(super) struct RecordingWriter {
    folder: PathBuf,
    file: File,
}

impl RecordingFiles {
    pub(super) fn new(data_dir: Arc<DataDir>) -> Self {
        Self(data_dir)
    }

    /// Returns the path of the steps file, relative to the data directory.
    pub(super) fn relative_path(&self, id: &RecordingId) -> String {
        let path = self.folder(id).join(STEPS_FILE);
        path.strip_prefix(self.0.root()).unwrap_or(&path).to_string_lossy().into_owned()
    }

    pub(super) fn relative_picture_path(&self, id: &RecordingId, index: u32) -> String {
        let path = self.folder(id).join(picture_name(index));
        path.strip_prefix(self.0.root()).unwrap_or(&path).to_string_lossy().into_owned()
    }

    fn folder(&self, id: &RecordingId) -> PathBuf {
        self.0.recordings().join(id.as_str())
    }

    /// Creates the folder and the file with its header.
    pub(super) fn create(&self, header: &RecordingHeader) -> io::Result<RecordingWriter> {
        let folder = self.folder(&header.recording_id);
        self.0.make_folder(&folder)?;
        let mut file = owner_only(OpenOptions::new().append(true).create_new(true)).open(folder.join(STEPS_FILE))?;
        file.write_all(&to_json_line(header)?)?;
        file.sync_all()?;
        sync_folder(&folder)?;
        sync_folder(&self.0.recordings())?;
        Ok(RecordingWriter { folder, file })
    }

    /// Returns recordings, newest first; ignores anything else.
    pub(super) fn list(&self) -> io::Result<Vec<RecordingSummary>> {
        let mut ids = self.ids()?;
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids.iter().filter_map(|id| self.summary(id).ok().flatten()).collect())
    }

    pub(super) fn count(&self) -> io::Result<usize> {
        Ok(self.ids()?.iter().filter(|id| self.folder(id).join(STEPS_FILE).is_file()).count())
    }

    fn ids(&self) -> io::Result<Vec<RecordingId>> {
        let entries = match std::fs::read_dir(self.0.recordings()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| RecordingId::is_well_formed(name)).map(RecordingId::from).collect())
    }

    /// Returns the summary; `None` if the recording does not exist. Computed from the steps if the recording was
    /// interrupted.
    pub(super) fn summary(&self, id: &RecordingId) -> io::Result<Option<RecordingSummary>> {
        if !self.exists(id) {
            return Ok(None);
        }
        match std::fs::read(self.folder(id).join(SUMMARY_FILE)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.read(id)?.map(|(summary, _)| summary)),
            Err(error) => Err(error),
        }
    }

    fn exists(&self, id: &RecordingId) -> bool {
        RecordingId::is_well_formed(id.as_str()) && self.folder(id).join(STEPS_FILE).is_file()
    }

    /// Returns the summary and the steps.
    pub(super) fn read(&self, id: &RecordingId) -> io::Result<Option<(RecordingSummary, Vec<StoredStep>)>> {
        if !self.exists(id) {
            return Ok(None);
        }
        let folder = self.folder(id);
        let text = std::fs::read(folder.join(STEPS_FILE))?;
        // An unfinished write has no line end, and may be truncated within a character.
        let end = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let mut lines = text[..end].split(|byte| *byte == b'\n');
        let header: RecordingHeader = serde_json::from_slice(lines.next().unwrap_or_default())?;
        let steps: Vec<StoredStep> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
        let mut summary = RecordingSummary { state: RecordingState::Interrupted, ..RecordingSummary::new(header) };
        summary.size_bytes = text.len() as u64;
        for (index, kept) in (0..).zip(&steps) {
            let picture = std::fs::metadata(folder.join(picture_name(index))).map_or(0, |file| file.len());
            summary.add(&kept.step, picture);
        }
        if let Ok(ended) = std::fs::read(folder.join(SUMMARY_FILE)) {
            summary = serde_json::from_slice(&ended)?;
        }
        Ok(Some((summary, steps)))
    }

    pub(super) fn picture(&self, id: &RecordingId, index: u32) -> io::Result<Option<Vec<u8>>> {
        if !self.exists(id) {
            return Ok(None);
        }
        match std::fs::read(self.folder(id).join(picture_name(index))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Deletes a recording; returns whether it existed. The steps file is deleted first, because it determines whether
    /// the recording exists.
    pub(super) fn delete(&self, id: &RecordingId) -> io::Result<bool> {
        if !self.exists(id) {
            return Ok(false);
        }
        let folder = self.folder(id);
        std::fs::remove_file(folder.join(STEPS_FILE))?;
        sync_folder(&folder)?;
        std::fs::remove_dir_all(&folder)?;
        Ok(true)
    }
}

impl RecordingWriter {
    /// Appends a step; returns it with the number of bytes written after they are synced.
    pub(super) fn append(
        &mut self,
        index: u32,
        step: RecordedStep,
        picture: Option<&[u8]>,
    ) -> io::Result<(StoredStep, u64)> {
        if let Some(jpeg) = picture {
            owner_only(OpenOptions::new().write(true).create(true).truncate(true))
                .open(self.folder.join(picture_name(index)))?
                .write_all(jpeg)?;
        }
        let kept = StoredStep { step, has_picture: picture.is_some() };
        let line = to_json_line(&kept)?;
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        Ok((kept, (line.len() + picture.map_or(0, <[u8]>::len)) as u64))
    }

    /// Writes the final summary.
    pub(super) fn finish(self, summary: &RecordingSummary) -> io::Result<()> {
        let new = self.folder.join(TEMPORARY_SUMMARY_FILE);
        let mut file = owner_only(OpenOptions::new().write(true).create(true).truncate(true)).open(&new)?;
        file.write_all(&to_json_line(summary)?)?;
        file.sync_all()?;
        std::fs::rename(&new, self.folder.join(SUMMARY_FILE))?;
        sync_folder(&self.folder)
    }
}

fn picture_name(index: u32) -> String {
    format!("{index:04}.jpg")
}

fn to_json_line(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn step(at_ms: u64, text: &str) -> RecordedStep {
        let step = json!({"action": "press_key", "parameters": {"key": text}, "tab": 0, "url": "about:blank",
            "at_ms": at_ms, "duration_ms": 5});
        serde_json::from_value(step).unwrap()
    }

    fn files() -> (tempfile::TempDir, RecordingFiles, RecordingHeader) {
        let folder = tempfile::tempdir().unwrap();
        let files = RecordingFiles::new(Arc::new(DataDir::open(folder.path()).unwrap()));
        let header = RecordingHeader {
            format: RecordingHeader::FORMAT,
            recording_id: "rec_01jd3000000000000000000000".into(),
            name: "n".to_owned(),
            started_at: Timestamp::from_micros(0),
        };
        (folder, files, header)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Exactly the acknowledged steps survive a kill at any point.
        #[test]
        fn truncated_file_contains_exactly_its_complete_steps(texts in proptest::collection::vec(".{0,20}", 0..6), cut in any::<prop::sample::Index>()) {
            let (_folder, files, header) = files();
            let mut writer = files.create(&header).unwrap();
            let path = files.folder(&header.recording_id).join(STEPS_FILE);
            let mut ends = vec![std::fs::metadata(&path).unwrap().len()];
            for (index, text) in (0..).zip(&texts) {
                writer.append(index, step(u64::from(index), text), None).unwrap();
                ends.push(std::fs::metadata(&path).unwrap().len());
            }
            let header_end = usize::try_from(ends[0]).unwrap();
            let length = header_end + cut.index(usize::try_from(ends.last().unwrap() - ends[0]).unwrap() + 1);
            File::options().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
            let (summary, steps) = files.read(&header.recording_id).unwrap().unwrap();
            let whole = ends.iter().filter(|end| **end <= length as u64).count() - 1;
            prop_assert_eq!(steps.len(), whole);
            prop_assert_eq!((summary.state, summary.action_count as usize), (RecordingState::Interrupted, whole));
            for (kept, text) in steps.iter().zip(&texts) {
                prop_assert_eq!(kept.step.parameters["key"].as_str(), Some(text.as_str()));
            }
        }
    }

    #[test]
    fn invalid_ids_find_nothing() {
        let (folder, files, header) = files();
        std::fs::write(folder.path().join(STEPS_FILE), "{}\n").unwrap();
        files.create(&header).unwrap();
        for id in ["..", "../x", "downloads", "", "rec_", "rec_01jd3000000000000000000000/../x"] {
            let id = RecordingId::from(id);
            assert!(files.read(&id).unwrap().is_none() && files.summary(&id).unwrap().is_none());
            assert!(files.picture(&id, 0).unwrap().is_none() && !files.delete(&id).unwrap());
        }
        assert_eq!(files.count().unwrap(), 1);
        assert!(files.delete(&header.recording_id).unwrap());
        assert_eq!(files.list().unwrap(), []);
    }
}
