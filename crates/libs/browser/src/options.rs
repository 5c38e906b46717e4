//! Options for starting a browser.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::Secret;

/// Forward proxy for all traffic.
#[derive(Debug, Clone)]
pub struct ProxyEndpoint {
    pub address: SocketAddr,
    /// User name and password for the proxy.
    pub credential: Option<(String, Secret)>,
}

/// Chromium's own renderer sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChromiumSandbox {
    /// Starting fails on a machine that does not support it.
    #[default]
    Required,
    /// Disabled, for machines that are sandboxed themselves.
    Off,
}

/// Limits of one Chromium.
#[derive(Debug, Clone, Copy)]
pub struct BrowserLimits {
    /// Maximum number of tabs of all contexts; further popups are closed.
    pub tabs: usize,
    /// Maximum number of renderer processes.
    pub renderers: usize,
    /// Maximum number of threads; applies only with a dedicated user.
    pub threads: u64,
    /// Maximum data size of a process in bytes. A page that exceeds it crashes its own tab.
    pub process_bytes: u64,
    /// Maximum size of a download in bytes; a larger one is cancelled.
    pub download_bytes: u64,
    /// Maximum number of concurrent downloads; further ones are cancelled.
    pub downloads: usize,
    /// Maximum total size of all downloads of one Chromium in bytes.
    pub downloads_bytes: u64,
    /// Time limit for an answer to a dialog, which blocks its page.
    pub dialog_timeout: Duration,
    /// Time limit for a response of the browser to a health check; an unresponsive browser is killed.
    pub response_timeout: Duration,
}

impl Default for BrowserLimits {
    /// 20 tabs, 16 renderers, 2,000 threads, 4 GiB a process, downloads of 100 MiB, 50 at a time and 2 GiB in all,
    /// 30 s for a dialog, 20 s to answer.
    fn default() -> Self {
        Self {
            tabs: 20,
            renderers: 16,
            threads: 2_000,
            process_bytes: 4 << 30,
            download_bytes: 100 << 20,
            downloads: 50,
            downloads_bytes: 2 << 30,
            dialog_timeout: Duration::from_secs(30),
            response_timeout: Duration::from_secs(20),
        }
    }
}

/// Options for starting a browser.
#[derive(Debug, Clone)]
pub struct BrowserOptions {
    /// Chromium executable; default: the installed one.
    pub executable: Option<PathBuf>,
    pub headless: bool,
    /// Parent of its temporary directory; other users must have search permission on it.
    pub temporary_directory: PathBuf,
    /// Directory of completed downloads. Without it downloads are cancelled.
    pub download_directory: Option<PathBuf>,
    pub proxy: Option<ProxyEndpoint>,
    pub sandbox: ChromiumSandbox,
    pub limits: BrowserLimits,
    /// Width and height of a page in CSS pixels.
    pub viewport: (u32, u32),
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self {
            executable: None,
            headless: true,
            temporary_directory: std::env::temp_dir(),
            download_directory: None,
            proxy: None,
            sandbox: ChromiumSandbox::default(),
            limits: BrowserLimits::default(),
            viewport: (1280, 800),
        }
    }
}
