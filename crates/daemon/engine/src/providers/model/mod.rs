//! Providers, preferences, prices and usage, as pure data and functions.

mod budget;
mod preference;
mod price;
mod provider;
mod usage;
mod view;

pub use preference::{ModelPreference, ResolvedModel};
pub use price::{LongPrompt, Price, PriceOrigin, PriceTable, PriceTableError};
pub use provider::{LOCAL, ProviderChange, ProviderReport, ProviderStatus, ReportedFailure};
pub use usage::{ModelCall, TokenTotal, UsageFigures, UsageId};
pub use view::{DefaultCheck, LocalModelState, LocalModelView, ProviderView};

pub(super) use budget::{ASSUMED_OUTPUT, BudgetState, CallBound, Fit};
use preference::is_provider;
pub(super) use provider::{Outcome, ProviderRow, known_ids, parse_base_url, parse_key, server_origin};
pub(super) use usage::{UsageRow, until_midnight};

pub(super) use preference::{Candidates, Choice, choose};
