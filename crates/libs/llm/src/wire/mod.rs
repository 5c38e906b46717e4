//! The three wire formats: Anthropic's Messages, OpenAI's chat completions (used by six vendors, each with deviations),
//! and Google's `streamGenerateContent`. Requests are encoded and events decoded here, independent of connections and
//! time.

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

/// Encodes a request. `is_official_endpoint` is false if a compatible server (Ollama, a proxy) answers in place of the
/// vendor.
pub(crate) fn call(vendor: Vendor, is_official_endpoint: bool, request: &ModelRequest) -> Call {
    match vendor {
        Vendor::Anthropic => anthropic::call(is_official_endpoint, request),
        Vendor::Google => google::call(is_official_endpoint, request),
        Vendor::Openai | Vendor::Mistral | Vendor::Groq | Vendor::Deepseek | Vendor::Xai | Vendor::Openrouter => {
            openai::call(vendor, is_official_endpoint, request)
        }
    }
}
