//! Errors of devices.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("The request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("The code is wrong, was used, or has expired; ask for a new one where you are logged in")]
    WrongCode,
    #[error("Too many wrong codes from this address; try again later")]
    TooManyTries { retry_after: Duration },
    #[error("There are {limit} devices already; remove some that are not used")]
    TooManyDevices { limit: usize },
    #[error("There is no device `{id}`; GET /api/devices lists those there are")]
    NotFound { id: String },
    #[error("A device opens its socket with `?token=`, the token that it got when it was paired")]
    MissingToken,
    #[error("The device token is invalid, or the device was removed; pair it again with a new code")]
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
