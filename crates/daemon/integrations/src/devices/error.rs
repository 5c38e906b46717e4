//! Errors of devices.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("The request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("the pairing code is wrong, used or expired; create a new one with POST /api/auth/device/code")]
    WrongCode,
    #[error("too many wrong codes from this address; retry after the time in `Retry-After`")]
    TooManyTries { retry_after: Duration },
    #[error("device limit reached ({limit}); delete a device first")]
    TooManyDevices { limit: usize },
    #[error("device `{id}` not found; list devices with GET /api/devices")]
    NotFound { id: String },
    #[error("device token missing; connect with `?token=` and the token returned when the device was paired")]
    MissingToken,
    #[error("the device token is invalid or the device was removed; pair the device again with a new code")]
    WrongToken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for DeviceError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(fields) => ErrorKind::Invalid(fields.clone()),
            Self::WrongCode | Self::MissingToken | Self::WrongToken => ErrorKind::Unauthenticated,
            Self::TooManyTries { retry_after } => ErrorKind::TooMany(*retry_after),
            Self::TooManyDevices { .. } => ErrorKind::Conflict,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::WrongCode => "wrong_code",
            Self::TooManyTries { .. } => "too_many_attempts",
            Self::TooManyDevices { .. } => "too_many_devices",
            Self::NotFound { .. } => "not_found",
            Self::MissingToken => "missing_credential",
            Self::WrongToken => "invalid_credential",
            Self::Store(error) => error.code(),
        }
    }
}
