//! Checks of the data directory, the database and the key file.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentd_core::migrations::MIGRATIONS;
use agentd_core::runtime::DataDir;
use agentd_core::vault::{Vault, VaultError};
use agentd_store::{DatabaseUrl, Inspection, StoreError, inspect};

use super::report::Report;
use crate::config::Config;

const MIB: u64 = 1024 * 1024;
/// Free space below which a warning is reported.
const LOW_SPACE: u64 = 1024 * MIB;
/// Free space below which the database cannot work reliably.
const NO_SPACE: u64 = 64 * MIB;

pub(super) fn check_data_dir(config: &Config, report: &mut Report) {
    const CHECK: &str = "data directory";
    let path = &config.data_dir;
    let shown = path.display();
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report.warning(
                CHECK,
                format!("{shown} does not exist yet"),
                "it is created at the first start of `agentd`",
            );
            return;
        }
        Err(error) => {
            report.broken(
                CHECK,
                format!("{shown} cannot be accessed: {error}"),
                "set SVC_DATA_DIR to another directory",
            );
            return;
        }
    };
    if !found.is_dir() {
        report.broken(
            CHECK,
            format!("{shown} is not a directory"),
            "move it away, or set SVC_DATA_DIR to another path",
        );
        return;
    }
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != user {
        report.broken(
            CHECK,
            format!("{shown} belongs to user {}, you are {user}", found.uid()),
            format!("run agentd as that user, or `chown -R {user} {shown}`"),
        );
        return;
    }
    if let Err(error) = tempfile::tempfile_in(path) {
        report.broken(
            CHECK,
            format!("{shown} cannot be written: {error}"),
            "free disk space, or correct its permissions",
        );
        return;
    }
    if found.mode() & 0o077 != 0 && !DataDir::contains_own_files(path) {
        report.broken(
            CHECK,
            format!(
                "{shown} is accessible to other users (mode {:o}) and contains no files of this program",
                found.mode() & 0o777
            ),
            format!("set SVC_DATA_DIR to a separate directory, or chmod 700 {shown}"),
        );
    } else if found.mode() & 0o077 != 0 {
        report.warning(
            CHECK,
            format!("{shown} is readable by other users (mode {:o})", found.mode() & 0o777),
            format!("chmod 700 {shown}"),
        );
    } else {
        report.good(CHECK, shown.to_string());
    }
    check_space(path, report);
}

fn check_space(path: &Path, report: &mut Report) {
    const CHECK: &str = "disk space";
    match rustix::fs::statvfs(path) {
        Err(error) => report.warning(CHECK, format!("unknown: {error}"), "check with `df`"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!("{} MiB free", free / MIB);
            let remedy = format!("free disk space on the file system of {}", path.display());
            match free {
                0..NO_SPACE => report.broken(CHECK, text, remedy),
                NO_SPACE..LOW_SPACE => report.warning(CHECK, text, remedy),
                _ => report.good(CHECK, text),
            }
        }
    }
}

pub(super) async fn check_database(config: &Config, report: &mut Report) {
    const CHECK: &str = "database";
    let found = match DatabaseUrl::parse(config.database_url.as_ref(), &config.data_dir) {
        Ok(url) => inspect(&url).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(None) => report.warning(CHECK, "does not exist yet", "it is created at the first start of `agentd`"),
        Ok(Some(found)) => evaluate_database(found, report),
        Err(error @ StoreError::InvalidUrl { .. }) => {
            report.broken(CHECK, error.to_string(), "correct SVC_DATABASE_URL")
        }
        Err(error) if config.database_url.is_some() => report.broken(
            CHECK,
            format!("the PostgreSQL server cannot be used: {}", with_causes(&error)),
            "check that it is running, and check the host, user, password and database in SVC_DATABASE_URL",
        ),
        Err(error) => report.broken(
            CHECK,
            format!("cannot be read: {}", with_causes(&error)),
            "restore a backup with `agentd restore FILE`; copies from before migrations are in backups/",
        ),
    }
}

fn evaluate_database(found: Inspection, report: &mut Report) {
    const CHECK: &str = "database";
    report.not_before = found.migrated_at;
    report.key_fingerprint = found.info.get("vault_key_fingerprint").cloned();
    let Inspection { engine, schema_version, damage, .. } = found;
    let known_version = MIGRATIONS.last().map_or(0, |last| last.version);
    if !damage.is_empty() {
        report.broken(
            CHECK,
            format!("damaged: {}", damage.join("; ")),
            "stop the daemon, keep a copy of the data directory, and restore a backup with `agentd restore FILE`",
        );
    } else if schema_version > known_version {
        report.broken(
            CHECK,
            format!("{engine}, schema {schema_version}; this program supports only {known_version}"),
            "use the newer version that created it",
        );
    } else if schema_version < known_version {
        report.warning(
            CHECK,
            format!("{engine}, schema {schema_version} of {known_version}"),
            "it is migrated at the next start of `agentd`, after a copy to backups/",
        );
    } else {
        report.is_database_usable = true;
        report.good(CHECK, format!("{engine}, schema {schema_version}, undamaged"));
    }
}

pub(super) fn check_key_file(config: &Config, report: &mut Report) {
    const CHECK: &str = "key file";
    let path = config.secret_key_file.clone().unwrap_or_else(|| config.data_dir.join("secret.key"));
    let shown = path.display();
    match (Vault::key_file_fingerprint(&path), report.key_fingerprint.take()) {
        (Ok(None), None) => report.good(CHECK, format!("{shown} is created at the first start")),
        (Ok(None), Some(_)) => report.broken(
            CHECK,
            format!("{shown} does not exist, but the stored secrets are encrypted with it"),
            "restore it, or set its path with SVC_SECRET_KEY_FILE",
        ),
        (Ok(Some(found)), Some(needed)) if found != needed => report.broken(
            CHECK,
            format!("{shown} is not the key that encrypts the stored secrets"),
            "restore the correct key, or set its path with SVC_SECRET_KEY_FILE",
        ),
        (Ok(Some(_)), _) => report.good(CHECK, format!("{shown} is private and matches the database")),
        (Err(VaultError::KeyFileExposed { mode, .. }), _) => {
            report.broken(
                CHECK,
                format!("{shown} is readable by other users (mode {mode:o})"),
                format!("chmod 600 {shown}"),
            );
        }
        (Err(VaultError::KeyFileUntrusted(error)), _) => {
            report.broken(
                CHECK,
                with_causes(&error),
                "correct its owner and mode, or set SVC_SECRET_KEY_FILE to another file",
            );
        }
        (Err(error), _) => report.broken(CHECK, with_causes(&error), "restore the correct file"),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
