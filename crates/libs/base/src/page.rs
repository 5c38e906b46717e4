//! Pagination of lists: `limit` and `offset`, rejected outside their range rather than clamped.

use crate::Problems;

/// Page size limits of a list. Unless the API contract says otherwise: default 50, maximum 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    pub default: u32,
    pub maximum: u32,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { default: 50, maximum: 200 }
    }
}

/// Requested page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub limit: u32,
    pub offset: u64,
}

impl Page {
    /// Validates the two query parameters; missing ones take their defaults. If anything was added to `problems`, the
    /// returned page must not be used.
    #[must_use]
    pub fn checked(limit: Option<i64>, offset: Option<i64>, limits: PageLimits, problems: &mut Problems) -> Self {
        let page_limit = match limit {
            None => limits.default,
            Some(wanted) => match u32::try_from(wanted) {
                Ok(wanted) if wanted >= 1 && wanted <= limits.maximum => wanted,
                _ => {
                    problems.add("limit", format!("must be between 1 and {}", limits.maximum));
                    limits.default
                }
            },
        };
        let page_offset = match offset.map(u64::try_from) {
            None => 0,
            Some(Ok(wanted)) if i64::try_from(wanted).is_ok() => wanted,
            Some(_) => {
                problems.add("offset", "must be 0 or more");
                0
            }
        };
        Self { limit: page_limit, offset: page_offset }
    }
}
