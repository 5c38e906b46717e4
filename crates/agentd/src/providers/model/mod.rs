//! Providers, wishes, prices and usage; all of it pure.

mod price;
mod provider;
mod usage;
mod view;
mod wish;

pub use price::{PriceTable, PriceTableError};
pub use provider::{LOCAL, ProviderChange, ProviderReport, ProviderStatus, ReportedFailure};
pub use usage::{ModelCall, TokenTotal, UsageFigures, UsageId};
pub use view::{LocalModelState, LocalModelView, ProviderView};
pub use wish::{ModelWish, ResolvedModel};

pub(super) use provider::{Outcome, ProviderRow, known_ids, parse_base_url, parse_key, server_of};
pub(super) use usage::{UsageRow, until_midnight};
use wish::is_provider;

pub(super) use wish::{Candidates, Choice, choose};
