//! The three wire formats: Anthropic's Messages, OpenAI's chat completions (which six vendors
//! speak, each with its quirks), and Google's `streamGenerateContent`. Requests are written and
//! events read here; nothing here knows of connections or time.

mod anthropic;
mod calls;
mod finish;
mod format;
mod google;
mod opaque;
mod openai;
mod usage;

use crate::{ModelRequest, Vendor};

pub(crate) use format::{Call, Decoder, Progress};

/// `is_vendors_own` is false where somebody else answers under the vendor's name (Ollama, a proxy).
pub(crate) fn call(vendor: Vendor, is_vendors_own: bool, request: &ModelRequest) -> Call {
    match vendor {
        Vendor::Anthropic => anthropic::call(is_vendors_own, request),
        Vendor::Google => google::call(is_vendors_own, request),
        Vendor::Openai | Vendor::Mistral | Vendor::Groq | Vendor::Deepseek | Vendor::Xai | Vendor::Openrouter => {
            openai::call(vendor, is_vendors_own, request)
        }
    }
}
