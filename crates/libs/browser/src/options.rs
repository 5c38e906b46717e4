//! What whoever starts a browser decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentd_base::Secret;

/// A forward proxy that everything goes through.
#[derive(Debug, Clone)]
pub struct ProxyEndpoint {
    pub address: SocketAddr,
    /// User and password that it asks for.
    pub credential: Option<(String, Secret)>,
}

/// Whether Chromium isolates its own renderers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChromiumSandbox {
    /// A machine that cannot provide it gets no browser.
    #[default]
    Required,
    /// For machines that are a sandbox themselves and whose owner says so.
    Off,
}

/// Bounds of one Chromium.
#[derive(Debug, Clone, Copy)]
pub struct BrowserLimits {
    /// Tabs over all contexts; a popup beyond them is closed.
    pub tabs: usize,
    /// Processes that render pages.
    pub renderers: usize,
    /// Threads of its user; only where it has a user of its own.
    pub threads: u64,
    /// Data of one process. A page that needs more crashes its own tab.
    pub process_bytes: u64,
    /// One download; more cancels it.
    pub download_bytes: u64,
    /// Downloads at a time; further ones are cancelled.
    pub downloads: usize,
    /// All downloads of one Chromium.
    pub downloads_bytes: u64,
    /// For somebody to answer a dialog, with which its page stands still.
    pub dialog_time: Duration,
    /// For the browser itself to say that it is there; one that does not is killed.
    pub answer_time: Duration,
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
            dialog_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(20),
        }
    }
}

/// How a browser is started.
#[derive(Debug, Clone)]
pub struct BrowserOptions {
    /// The program; without one it is looked for.
    pub executable: Option<PathBuf>,
    pub headless: bool,
    /// Where its temporary folder is made; other users must be able to pass through it.
    pub temporary_directory: PathBuf,
    /// Finished downloads are moved here. Without it a download is cancelled.
    pub download_directory: Option<PathBuf>,
    pub proxy: Option<ProxyEndpoint>,
    pub sandbox: ChromiumSandbox,
    pub limits: BrowserLimits,
    /// Width and height of a page.
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
