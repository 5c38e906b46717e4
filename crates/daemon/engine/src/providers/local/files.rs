//! Files of the local model.

use std::path::PathBuf;

use agentd_inference::{LocalModel, read_model_facts};

/// The local model and the folders of its files.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    pub model: LocalModel,
    /// Folders that are searched in this order for `local_model`, or for any GGUF file. The first is `models/` in the
    /// data directory.
    pub folders: Vec<PathBuf>,
}

impl LocalOptions {
    /// Returns the file named by `wanted`, or else the first file by folder and name.
    ///
    /// # Errors
    /// A sentence that describes what is missing and how to obtain it.
    pub(crate) fn find(&self, wanted: Option<&str>) -> Result<PathBuf, String> {
        if !agentd_inference::BUILT_IN {
            return Err("this binary was built without the built-in model; configure a provider instead".to_owned());
        }
        self.find_file(wanted)
    }

    pub(crate) fn find_file(&self, wanted: Option<&str>) -> Result<PathBuf, String> {
        let found = match wanted {
            Some(name) => self.all_files().into_iter().find(|path| path.file_name().is_some_and(|file| file == name)),
            None => self.files().into_iter().next(),
        };
        let folder = self.folders.first().map(|folder| folder.display().to_string()).unwrap_or_default();
        found.ok_or_else(|| match wanted {
            Some(name) => format!(
                "model file {name} not found in {folder}; copy it there, or change `local_model` with \
                 PUT /api/settings/agent"
            ),
            None => format!(
                "no model file found in {folder}; run `make models`, or copy a GGUF file there and set `local_model` \
                 with PUT /api/settings/agent"
            ),
        })
    }

    /// Returns all files of generative models, each name once. Embedding models are in the same folders.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = self.all_files();
        files.retain(|path| !read_model_facts(path).is_ok_and(|facts| facts.is_encoder()));
        files
    }

    /// Returns all model files, each name once.
    fn all_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in &self.folders {
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let is_model = |path: &PathBuf| {
                path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf")) && path.is_file()
            };
            let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_model).collect();
            found.sort();
            for path in found {
                if !files.iter().any(|known| known.file_name() == path.file_name()) {
                    files.push(path);
                }
            }
        }
        files
    }
}

#[cfg(test)]
pub(super) mod tests {
    use agentd_base::Entropy;
    use agentd_inference::LocalModelOptions;
    use agentd_process::Spawner;

    use super::*;

    pub(crate) fn options(folders: Vec<PathBuf>, program: &str) -> LocalOptions {
        let spawner = Spawner::start().unwrap();
        let model = LocalModel::new(LocalModelOptions::new(program, Vec::new(), spawner, Entropy::seeded(1)));
        LocalOptions { model, folders }
    }

    #[tokio::test]
    async fn files_are_found_by_folder_and_name() {
        let (own, packaged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = options(vec![own.path().to_path_buf(), packaged.path().to_path_buf()], "/bin/false");
        let missing = options.find_file(None).unwrap_err();
        assert!(missing.contains("make models") && missing.contains("local_model"), "{missing}");
        for (folder, name) in
            [(&packaged, "a.gguf"), (&own, "z.gguf"), (&own, "m.GGUF"), (&own, "notes.txt"), (&packaged, "z.gguf")]
        {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(own.path().join("b.gguf")).unwrap();
        assert_eq!(options.find_file(None).unwrap(), own.path().join("m.GGUF"));
        assert_eq!(options.find_file(Some("z.gguf")).unwrap(), own.path().join("z.gguf"));
        assert_eq!(options.find_file(Some("a.gguf")).unwrap(), packaged.path().join("a.gguf"));
        assert!(options.find_file(Some("gone.gguf")).unwrap_err().contains("gone.gguf"));
        assert_eq!(options.files().len(), 3);
    }

    #[tokio::test]
    async fn embedding_models_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(vec![folder.path().to_path_buf()], "/bin/false");
        // One metadata entry: the model architecture, in the layout of GGUF version 3.
        let file = |kind: &[u8]| {
            let text = |text: &[u8]| [&u64::try_from(text.len()).unwrap().to_le_bytes()[..], text].concat();
            let setting = [text(b"general.architecture"), 8u32.to_le_bytes().to_vec(), text(kind)].concat();
            [&b"GGUF\x03\0\0\0"[..], &[0; 8], &1u64.to_le_bytes(), &setting].concat()
        };
        std::fs::write(folder.path().join("all-minilm.gguf"), file(b"bert")).unwrap();
        assert!(options.find_file(None).unwrap_err().contains("make models"));
        std::fs::write(folder.path().join("writer.gguf"), file(b"llama")).unwrap();
        assert_eq!(options.find_file(None).unwrap(), folder.path().join("writer.gguf"));
        assert_eq!(options.files().len(), 1);
        // If it is named explicitly, the inference engine reports the error.
        assert_eq!(options.find_file(Some("all-minilm.gguf")).unwrap(), folder.path().join("all-minilm.gguf"));
    }
}
