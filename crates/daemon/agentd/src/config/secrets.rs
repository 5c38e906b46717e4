//! Secrets given as a value, as a file path, or as a systemd credential.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use agentd_base::Secret;
use agentd_core::runtime::{TrustedFileError, read_trusted};

const MAX_BYTES: u64 = 64 << 10;

/// Sources of one secret.
pub(super) struct SecretSource<'s> {
    /// Name of the variable; the variable for the path ends in `_FILE`.
    pub(super) variable: &'static str,
    pub(super) value: Option<&'s Secret>,
    pub(super) file: Option<&'s Path>,
    /// Name of the systemd credential.
    pub(super) credential: &'static str,
}

impl SecretSource<'_> {
    /// Reads the secret from the value, the named file, or the credential if it exists in `credentials`.
    pub(super) fn read(&self, credentials: Option<&Path>, problems: &mut Vec<String>) -> Option<Secret> {
        let Self { variable, credential, .. } = *self;
        let value = self.value.filter(|value| !value.is_empty());
        match (value, self.file) {
            (Some(_), Some(_)) => {
                problems.push(format!("{variable} and {variable}_FILE are both set; keep one of them"));
                None
            }
            (Some(value), None) => Some(value.clone()),
            (None, Some(file)) if file.as_os_str().is_empty() => {
                problems.push(format!("{variable}_FILE is empty; name a file, or leave it out"));
                None
            }
            (None, Some(file)) => self.read_file(&format!("{variable}_FILE"), file, problems),
            (None, None) => {
                let file = credentials?.join(credential);
                // Credentials are optional: the systemd unit decides which ones it loads.
                let exists = file.try_exists().unwrap_or(true);
                exists.then(|| self.read_file(&format!("the credential {credential}"), &file, problems))?
            }
        }
    }

    fn read_file(&self, name: &str, file: &Path, problems: &mut Vec<String>) -> Option<Secret> {
        let problem = match read_trusted(file, MAX_BYTES).map(|text| text.trim_end().to_owned()) {
            Ok(text) if !text.is_empty() => return Some(Secret::new(text)),
            Ok(_) => format!("{name}: {} is empty; write the secret into it", file.display()),
            Err(error) => format!("{name}: {}", describe(&error)),
        };
        problems.push(problem);
        None
    }
}

fn describe(error: &TrustedFileError) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Returns the directory with the credentials that systemd loads for `LoadCredential=`.
pub(super) fn credentials_directory() -> Option<PathBuf> {
    std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from).filter(|directory| directory.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(
        value: Option<&str>,
        file: Option<&Path>,
        credentials: Option<&Path>,
    ) -> Result<Option<String>, Vec<String>> {
        let value = value.map(|text| Secret::new(text.to_owned()));
        let source =
            SecretSource { variable: "SVC_DATABASE_URL", value: value.as_ref(), file, credential: "database_url" };
        let mut problems = Vec::new();
        let found = source.read(credentials, &mut problems).map(|secret| secret.expose().to_owned());
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    #[test]
    fn value_and_file_take_precedence_over_credential() {
        let folder = tempfile::tempdir().unwrap();
        let (file, credentials) = (folder.path().join("url"), folder.path());
        std::fs::write(&file, "postgres://file\n").unwrap();
        assert_eq!(read(None, None, Some(credentials)), Ok(None), "the credential does not exist");
        std::fs::write(folder.path().join("database_url"), "postgres://credential \n\n").unwrap();
        let found = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(read(None, None, Some(credentials)), found("postgres://credential"));
        assert_eq!(read(None, Some(&file), Some(credentials)), found("postgres://file"));
        assert_eq!(read(Some("postgres://value"), None, Some(credentials)), found("postgres://value"));
        assert_eq!(read(Some(""), None, None), Ok(None));
    }

    #[test]
    fn problem_names_file_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        let refused = |expected: &str| {
            let problems = read(None, Some(&file), None).unwrap_err();
            let problem = &problems[0];
            assert!(problem.starts_with("SVC_DATABASE_URL_FILE: ") && problem.contains(expected), "{problem}");
            assert!(!problem.contains("s3cret"), "{problem}");
        };
        refused("cannot be read");
        std::fs::write(&file, "\n").unwrap();
        refused("is empty");
        std::fs::write(&file, "s3cret".repeat(20_000)).unwrap();
        refused("larger than");
        std::fs::write(&file, "s3cret").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o622)).unwrap();
        refused("chmod go-w");
        let both = read(Some("postgres://x"), Some(&file), None).unwrap_err();
        assert!(both[0].contains("SVC_DATABASE_URL and SVC_DATABASE_URL_FILE are both set"), "{both:?}");
        assert!(read(None, Some(Path::new("")), None).unwrap_err()[0].contains("SVC_DATABASE_URL_FILE is empty"));
    }
}
