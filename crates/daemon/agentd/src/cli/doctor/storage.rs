//! The data directory, the database, the key file.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentd_core::migrations::MIGRATIONS;
use agentd_core::runtime::DataDir;
use agentd_core::vault::{Vault, VaultError};
use agentd_store::{DatabaseUrl, Inspection, StoreError, inspect};

use super::report::Report;
use crate::config::Config;

const MIB: u64 = 1024 * 1024;
/// With less the database soon cannot be written.
const LOW_SPACE: u64 = 1024 * MIB;
const NO_SPACE: u64 = 64 * MIB;

pub(super) fn check_data_dir(config: &Config, report: &mut Report) {
    const CHECK: &str = "data directory";
    let path = &config.data_dir;
    let shown = path.display();
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report.warning(CHECK, format!("{shown} is not there yet"), "the first start of `agentd` makes it");
            return;
        }
        Err(error) => {
            report.broken(CHECK, format!("{shown} cannot be looked at: {error}"), "name another with SVC_DATA_DIR");
            return;
        }
    };
    if !found.is_dir() {
        report.broken(CHECK, format!("{shown} is no directory"), "move it away, or name another with SVC_DATA_DIR");
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
            "free space on the disk, or correct its permissions",
        );
        return;
    }
    if found.mode() & 0o077 != 0 && !DataDir::is_ours(path) {
        report.broken(
            CHECK,
            format!("{shown} is open to others (mode {:o}) and holds nothing of this program", found.mode() & 0o777),
            format!("name a directory of its own with SVC_DATA_DIR, or chmod 700 {shown}"),
        );
    } else if found.mode() & 0o077 != 0 {
        report.warning(
            CHECK,
            format!("{shown} can be read by others (mode {:o})", found.mode() & 0o777),
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
        Err(error) => report.warning(CHECK, format!("it cannot be found out: {error}"), "look with `df`"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!("{} MiB free", free / MIB);
            let remedy = format!("free some on the disk of {}", path.display());
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
        Ok(None) => report.warning(CHECK, "there is none yet", "the first start of `agentd` makes it"),
        Ok(Some(found)) => evaluate_database(found, report),
        Err(error @ StoreError::InvalidUrl { .. }) => {
            report.broken(CHECK, error.to_string(), "correct SVC_DATABASE_URL")
        }
        Err(error) if config.database_url.is_some() => report.broken(
            CHECK,
            format!("the PostgreSQL server cannot be used: {}", with_causes(&error)),
            "check that it runs, and the host, user, password and database in SVC_DATABASE_URL",
        ),
        Err(error) => report.broken(
            CHECK,
            format!("it cannot be read: {}", with_causes(&error)),
            "restore a backup with `agentd restore FILE`; copies made before migrations are in backups/",
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
            format!("it is damaged: {}", damage.join("; ")),
            "stop the daemon, keep a copy of the data directory, and restore a backup with `agentd restore FILE`",
        );
    } else if schema_version > known_version {
        report.broken(
            CHECK,
            format!("{engine}, schema {schema_version}; this program knows only {known_version}"),
            "use the newer program that made it",
        );
    } else if schema_version < known_version {
        report.warning(
            CHECK,
            format!("{engine}, schema {schema_version} of {known_version}"),
            "the next start of `agentd` migrates it, after copying it to backups/",
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
    match (Vault::fingerprint_of(&path), report.key_fingerprint.take()) {
        (Ok(None), None) => report.good(CHECK, format!("{shown} is made by the first start")),
        (Ok(None), Some(_)) => report.broken(
            CHECK,
            format!("{shown} is not there, and the stored secrets are sealed with it"),
            "put it back, or name it with SVC_SECRET_KEY_FILE",
        ),
        (Ok(Some(found)), Some(needed)) if found != needed => report.broken(
            CHECK,
            format!("{shown} is not the key that the stored secrets are sealed with"),
            "put the right one there, or name it with SVC_SECRET_KEY_FILE",
        ),
        (Ok(Some(_)), _) => report.good(CHECK, format!("{shown}, private, and the right one")),
        (Err(VaultError::KeyFileExposed { mode, .. }), _) => {
            report.broken(
                CHECK,
                format!("{shown} can be read by others (mode {mode:o})"),
                format!("chmod 600 {shown}"),
            );
        }
        (Err(VaultError::KeyFileUntrusted(error)), _) => {
            report.broken(
                CHECK,
                with_causes(&error),
                "correct its owner and mode, or name another file with SVC_SECRET_KEY_FILE",
            );
        }
        (Err(error), _) => report.broken(CHECK, with_causes(&error), "put the right file there"),
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
