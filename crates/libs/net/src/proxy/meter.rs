//! Byte counts and time limits of a connection.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use url::Host;

use crate::{NetPolicy, PolicyHandle, Trust};

/// Destination of a connection, which is checked again when the policy has changed.
pub(super) struct Permission {
    pub(super) policy: PolicyHandle,
    pub(super) granted_under: ArcSwap<NetPolicy>,
    pub(super) trust: Trust,
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) address: IpAddr,
}

impl Permission {
    fn is_permitted(&self) -> bool {
        let current = self.policy.current();
        if Arc::ptr_eq(&current, &self.granted_under.load()) {
            return true;
        }
        let is_permitted = current.check_target(&self.host, self.port, self.trust).is_ok()
            && current.check_address(&self.host.to_string(), self.address, self.trust).is_ok();
        if is_permitted {
            self.granted_under.store(current);
        }
        is_permitted
    }
}

/// Limits shared by a stream and the tasks that monitor it.
pub(super) struct Meter {
    started: Instant,
    idle_timeout: Duration,
    total_timeout: Option<Duration>,
    bytes_each_way: Option<u64>,
    permission: Option<Permission>,
    /// Time of the last progress, in milliseconds after `started`.
    last_progress_ms: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Meter {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        Self {
            started: Instant::now(),
            idle_timeout,
            total_timeout: None,
            bytes_each_way: None,
            permission: None,
            last_progress_ms: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    pub(super) fn with_limits(mut self, total_timeout: Duration, bytes_each_way: Option<u64>) -> Self {
        (self.total_timeout, self.bytes_each_way) = (Some(total_timeout), bytes_each_way);
        self
    }

    pub(super) fn with_permission(mut self, permission: Permission) -> Self {
        self.permission = Some(permission);
        self
    }

    fn deadline(&self) -> Instant {
        let last_progress = self.started + Duration::from_millis(self.last_progress_ms.load(Ordering::Relaxed));
        let idle_until = last_progress + self.idle_timeout;
        self.total_timeout.map_or(idle_until, |total| idle_until.min(self.started + total))
    }

    pub(super) fn is_expired(&self) -> bool {
        self.deadline() <= Instant::now()
    }

    /// Waits until the connection has exceeded its idle or total time.
    pub(super) async fn expired(&self) {
        while !self.is_expired() {
            tokio::time::sleep_until(self.deadline()).await;
        }
    }

    fn check_permission(&self) -> io::Result<()> {
        match &self.permission {
            Some(permission) if !permission.is_permitted() => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }

    fn count(&self, direction: &AtomicU64, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let so_far = direction.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_progress_ms.store(elapsed_ms, Ordering::Relaxed);
        match self.bytes_each_way {
            Some(limit) if so_far > limit => Err(io::ErrorKind::QuotaExceeded.into()),
            _ => Ok(()),
        }
    }
}

/// Stream that counts and checks every chunk before passing it on.
pub(super) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        let checked = this.meter.check_permission().and_then(|()| this.meter.count(&this.meter.read, bytes));
        if checked.is_err() {
            buffer.set_filled(before);
        }
        Poll::Ready(checked)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.meter.check_permission()?;
        let written = std::task::ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.meter.count(&this.meter.written, written)?;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
