//! `agentd backup` and `agentd restore`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use agentd_base::Secret;
use agentd_core::runtime::read_trusted;
use agentd_operations::backup::{
    ALLOW_INCOMPLETE_HEADER, ArchiveSummary, LEFT_OUT_HEADER, OmittedFiles, OmittedList, PASSPHRASE_HEADER,
    RestoreReport, SecretName, verify,
};
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use futures_util::StreamExt;
use http::{HeaderValue, Method, Request};
use http_body_util::BodyExt;
use tokio_util::io::ReaderStream;

use super::client::{LocalClient, accept, request};
use super::error::CliError;
use super::terminal::{print_message, print_message_piece};
use crate::config::Config;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd backup agentd.tar.gz\n  agentd backup --passphrase-file ~/backup.pass agentd.tar.gz\n  agentd backup - | ssh nas 'cat > agentd.tar.gz'\n\nThe archive is a plain .tar.gz. A running daemon keeps working meanwhile.\nModels and the key file are not included; secrets are included only with a passphrase.\nUnreadable files fail the backup unless --allow-incomplete is set.",
    override_usage = "agentd backup [OPTIONS] <FILE>"
)]
pub(super) struct BackupArgs {
    /// File to write; `-` for stdout
    file: PathBuf,
    /// File with a passphrase; includes stored secrets such as provider keys, encrypted with it
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Skip files that the daemon cannot read and list them, instead of failing
    #[arg(long)]
    allow_incomplete: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agentd restore agentd.tar.gz\n  agentd restore --yes --passphrase-file ~/backup.pass agentd.tar.gz\n  SVC_DATABASE_URL=postgres://… agentd restore agentd.tar.gz   (moves from SQLite to PostgreSQL)\n\nThe whole archive is verified before anything changes. A running daemon is not ready during the restore.\nOn a terminal, the command asks for confirmation. Without a terminal, as in a script, --yes is required.",
    override_usage = "agentd restore [OPTIONS] <FILE>"
)]
pub(super) struct RestoreArgs {
    /// Archive to restore
    file: PathBuf,
    /// File with the passphrase of the archive's secrets
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// Do not ask for confirmation; required without a terminal
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run_backup(config: &Config, arguments: BackupArgs) -> Result<(), CliError> {
    let is_stdout = arguments.file == Path::new("-");
    if is_stdout && std::io::stdout().is_terminal() {
        return Err(CliError::Usage(
            "refusing to write an archive to a terminal; redirect stdout to a file or a pipe".to_owned(),
        ));
    }
    if !is_stdout && !arguments.force && arguments.file.exists() {
        let file = arguments.file.display();
        return Err(CliError::Usage(format!(
            "{file} already exists; choose another name, or overwrite it with --force"
        )));
    }
    let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
    let client = LocalClient::connect(config).await?;
    let mut request = with_passphrase(request(Method::POST, "/local/backup", Body::empty())?, passphrase.as_ref())?;
    if arguments.allow_incomplete {
        request.headers_mut().insert(ALLOW_INCOMPLETE_HEADER, HeaderValue::from_static("true"));
    }
    let outcome = async {
        let answer = accept(client.send(request, None).await?).await?;
        let left_out = answer.headers().get(LEFT_OUT_HEADER).and_then(|value| BASE64.decode(value).ok());
        let left_out: OmittedFiles = left_out
            .and_then(|text| serde_json::from_slice(&text).ok())
            .ok_or_else(|| CliError::broken("its headers"))?;
        let body = answer.into_body();
        let bytes = if is_stdout {
            stream_into(body, &mut std::io::stdout().lock(), Path::new("stdout")).await?
        } else {
            into_file(body, &arguments.file).await?
        };
        Ok::<_, CliError>((bytes, left_out))
    }
    .await;
    client.close().await;
    let (bytes, left_out) = outcome?;
    report_omitted_files(&left_out);
    if is_stdout {
        print_message(format_args!("Wrote {}.", size(bytes)));
        return Ok(());
    }
    let summary = check_archive(&arguments.file).await?;
    print_message(format_args!(
        "Wrote {} ({}) and verified it: the database and {} files, all hashes match.",
        arguments.file.display(),
        size(bytes),
        summary.files
    ));
    if !summary.manifest.has_secrets && !summary.manifest.secrets.is_empty() {
        print_message(
            "Without a passphrase, these secrets are not included and must be entered again after a restore elsewhere:",
        );
        list(&summary.manifest.secrets);
        print_message("To include them encrypted: agentd backup --passphrase-file FILE …");
    }
    Ok(())
}

pub(super) async fn run_restore(config: &Config, arguments: RestoreArgs) -> Result<(), CliError> {
    let passphrase = read_passphrase(arguments.passphrase_file.as_deref())?;
    // A damaged archive is reported before the confirmation.
    let summary = check_archive(&arguments.file).await?;
    report_omitted_files(&summary.manifest.left_out);
    if !arguments.yes {
        confirm(&summary, config)?;
    }
    let file = tokio::fs::File::open(&arguments.file).await.map_err(CliError::file("reading", &arguments.file))?;
    let client = LocalClient::connect(config).await?;
    let body = Body::from_stream(ReaderStream::with_capacity(file, 64 * 1024));
    let outcome = async {
        let request = with_passphrase(request(Method::POST, "/local/restore", body)?, passphrase.as_ref())?;
        let answer = accept(client.send(request, None).await?).await?;
        let body = answer.into_body().collect().await.map_err(CliError::broken)?.to_bytes();
        serde_json::from_slice::<RestoreReport>(&body).map_err(|source| CliError::Unreadable { source })
    }
    .await;
    client.close().await;
    let report = outcome?;
    print_message(format_args!(
        "Restored the state of {}: {} rows, {} files ({}).",
        report.created_at,
        report.rows,
        report.files,
        size(report.bytes)
    ));
    if !report.secrets_missing.is_empty() {
        print_message(if summary.manifest.has_secrets {
            "These secrets are encrypted in the archive; restore it again with --passphrase-file, or enter them again:"
        } else {
            "These secrets were not in the archive; enter them again:"
        });
        list(&report.secrets_missing);
    }
    Ok(())
}

fn confirm(summary: &ArchiveSummary, config: &Config) -> Result<(), CliError> {
    let question = format!(
        "Replace all data in {} with the backup of {}? Type yes: ",
        config.data_dir.display(),
        summary.manifest.created_at
    );
    if !std::io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "a restore replaces all data and must be confirmed, but stdin is not a terminal; use --yes".to_owned(),
        ));
    }
    print_message_piece(question);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|source| CliError::Machine { source })?;
    if answer.trim() == "yes" { Ok(()) } else { Err(CliError::Usage("nothing was changed".to_owned())) }
}

async fn check_archive(file: &Path) -> Result<ArchiveSummary, CliError> {
    let path = file.to_path_buf();
    let checking = tokio::task::spawn_blocking(move || {
        let archive = std::fs::File::open(&path).map_err(CliError::file("reading", &path))?;
        Ok(verify(std::io::BufReader::new(archive))?)
    });
    checking.await.unwrap_or_else(|error| Err(CliError::broken(error)))
}

/// Writes to a temporary file and renames it, so that the target is always a complete archive.
async fn into_file(body: Body, file: &Path) -> Result<u64, CliError> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = file.with_file_name(name);
    let outcome = async {
        let mut sink = private_file(&partial).map_err(CliError::file("creating", &partial))?;
        let bytes = stream_into(body, &mut sink, &partial).await?;
        sink.sync_all().map_err(CliError::file("writing", &partial))?;
        std::fs::rename(&partial, file).map_err(CliError::file("renaming to", file))?;
        Ok(bytes)
    }
    .await;
    if outcome.is_err() {
        // Best effort: a partial archive is useless.
        drop(std::fs::remove_file(&partial));
    }
    outcome
}

fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

async fn stream_into(body: Body, sink: &mut impl Write, path: &Path) -> Result<u64, CliError> {
    let mut chunks = body.into_data_stream();
    let mut bytes = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(CliError::broken)?;
        sink.write_all(&chunk).map_err(CliError::file("writing", path))?;
        bytes += chunk.len() as u64;
    }
    sink.flush().map_err(CliError::file("writing", path))?;
    Ok(bytes)
}

/// Reads the passphrase from the first line of the file.
fn read_passphrase(file: Option<&Path>) -> Result<Option<Secret>, CliError> {
    const LIMIT: u64 = 4096;
    let Some(path) = file else { return Ok(None) };
    let text = read_trusted(path, LIMIT)?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(CliError::Usage(format!("{} has no passphrase in its first line", path.display())));
    }
    Ok(Some(Secret::new(line.to_owned())))
}

fn with_passphrase(mut request: Request<Body>, passphrase: Option<&Secret>) -> Result<Request<Body>, CliError> {
    if let Some(passphrase) = passphrase {
        let mut value = HeaderValue::try_from(BASE64.encode(passphrase.expose()))
            .map_err(|_| CliError::Usage("the passphrase cannot be sent".to_owned()))?;
        value.set_sensitive(true);
        request.headers_mut().insert(PASSPHRASE_HEADER, value);
    }
    Ok(request)
}

fn report_omitted_files(left_out: &OmittedFiles) {
    let OmittedFiles { unreadable, excluded } = left_out;
    for (OmittedList { total, first }, what, unnamed) in [
        (unreadable, "cannot be read and are not in the archive", unreadable.unnamed()),
        (excluded, "are of an unsupported type and are not in the archive", excluded.unnamed()),
    ] {
        if *total == 0 {
            continue;
        }
        print_message(format_args!("{total} files or directories {what}:"));
        for path in first {
            print_message(format_args!("  {}: it {}", path.path.escape_debug(), path.reason));
        }
        if unnamed > 0 {
            print_message(format_args!("  and {unnamed} more"));
        }
    }
}

fn list(names: &[SecretName]) {
    for SecretName { scope, name } in names {
        print_message(format_args!("  {scope}: {name}"));
    }
}

fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
    let number = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", number / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number / 1e6),
        _ => format!("{:.2} GB", number / 1e9),
    }
}
