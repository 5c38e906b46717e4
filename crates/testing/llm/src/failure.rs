//! Documented failures of each vendor: status, headers and body.

use agentd_llm::Vendor;
use serde_json::{Value, json};

/// Failures available to tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentedFailure {
    RateLimit,
    Overloaded,
    WrongKey,
    ContextTooLong,
    /// Internal error of the vendor.
    Broken,
    UnknownModel,
    NoCredit,
}

impl DocumentedFailure {
    pub const ALL: [Self; 7] = [
        Self::RateLimit,
        Self::Overloaded,
        Self::WrongKey,
        Self::ContextTooLong,
        Self::Broken,
        Self::UnknownModel,
        Self::NoCredit,
    ];

    /// Returns status and body. `key` is the key sent by the client, for vendors that repeat it.
    pub(crate) fn render(self, vendor: Vendor, key: &str) -> (u16, Value) {
        match vendor {
            Vendor::Anthropic => self.anthropic(),
            Vendor::Google => self.google(),
            Vendor::Mistral => self.mistral(),
            Vendor::Xai => self.xai(key),
            Vendor::Openrouter => self.openrouter(),
            Vendor::Openai | Vendor::Groq | Vendor::Deepseek => self.openai(vendor, key),
        }
    }

    fn anthropic(self) -> (u16, Value) {
        let (status, kind, message) = match self {
            Self::RateLimit => (429, "rate_limit_error", "This request would exceed your organization's rate limit."),
            Self::Overloaded => (529, "overloaded_error", "Overloaded"),
            Self::WrongKey => (401, "authentication_error", "invalid x-api-key"),
            Self::ContextTooLong => {
                (400, "invalid_request_error", "prompt is too long: 210311 tokens > 200000 maximum")
            }
            Self::Broken => (500, "api_error", "Internal server error"),
            Self::UnknownModel => (404, "not_found_error", "model: claude-nonesuch"),
            Self::NoCredit => (
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            ),
        };
        (status, json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}))
    }

    fn openai(self, vendor: Vendor, key: &str) -> (u16, Value) {
        let (status, kind, code, message) = match self {
            Self::RateLimit => (
                429,
                "requests",
                "rate_limit_exceeded",
                "Rate limit reached for this model on requests per min (RPM): Limit 3, Used 3, Requested 1.".to_owned(),
            ),
            Self::Overloaded => (
                503,
                "server_error",
                "service_unavailable",
                "The engine is currently overloaded, please try again later".to_owned(),
            ),
            Self::WrongKey => (
                401,
                if vendor == Vendor::Deepseek { "authentication_error" } else { "invalid_request_error" },
                "invalid_api_key",
                format!("Incorrect API key provided: {key}. You can find your API key in your account settings."),
            ),
            Self::ContextTooLong => (
                400,
                "invalid_request_error",
                match vendor {
                    Vendor::Deepseek => "invalid_request_error",
                    _ => "context_length_exceeded",
                },
                match vendor {
                    Vendor::Groq => "Please reduce the length of the messages or completion.".to_owned(),
                    _ => "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens."
                        .to_owned(),
                },
            ),
            Self::Broken => (
                500,
                "server_error",
                "internal_error",
                "The server had an error while processing your request. Sorry about that!".to_owned(),
            ),
            Self::UnknownModel => (
                404,
                "invalid_request_error",
                "model_not_found",
                "The model `nonesuch` does not exist or you do not have access to it.".to_owned(),
            ),
            Self::NoCredit if vendor == Vendor::Deepseek => {
                (402, "unknown_error", "invalid_request_error", "Insufficient Balance".to_owned())
            }
            Self::NoCredit => (
                429,
                "insufficient_quota",
                "insufficient_quota",
                "You exceeded your current quota, please check your plan and billing details.".to_owned(),
            ),
        };
        (status, json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
    }

    fn google(self) -> (u16, Value) {
        let (code, status, message, details) = match self {
            Self::RateLimit => (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
                json!([
                    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
                ]),
            ),
            Self::Overloaded => (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", Value::Null),
            Self::WrongKey => (
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                json!([{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com"
                }]),
            ),
            Self::ContextTooLong => (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Value::Null,
            ),
            Self::Broken => (500, "INTERNAL", "An internal error has occurred. Please retry.", Value::Null),
            Self::UnknownModel => (
                404,
                "NOT_FOUND",
                "models/nonesuch is not found for API version v1beta, or is not supported.",
                Value::Null,
            ),
            Self::NoCredit => (403, "PERMISSION_DENIED", "Billing is disabled for this project.", Value::Null),
        };
        (code, json!({"error": {"code": code, "message": message, "status": status, "details": details}}))
    }

    fn mistral(self) -> (u16, Value) {
        let error_body = |status: u16, kind: &str, code: &str, message: &str| {
            (status, json!({"object": "error", "message": message, "type": kind, "param": null, "code": code}))
        };
        match self {
            Self::RateLimit => error_body(429, "rate_limited", "1300", "Rate limit exceeded"),
            Self::Overloaded => error_body(
                429,
                "service_tier_capacity_exceeded",
                "3505",
                "Service tier capacity exceeded for this model.",
            ),
            Self::WrongKey => (401, json!({"detail": "Unauthorized"})),
            Self::ContextTooLong => error_body(
                400,
                "invalid_request_prompt",
                "3051",
                "Prompt contains 40008 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            ),
            Self::Broken => error_body(500, "internal_server_error", "1000", "Service unavailable."),
            Self::UnknownModel => error_body(400, "invalid_model", "1500", "Invalid model: nonesuch"),
            Self::NoCredit => (402, json!({"detail": "Payment required"})),
        }
    }

    fn xai(self, key: &str) -> (u16, Value) {
        let error_body = |status: u16, code: &str, error: String| (status, json!({"code": code, "error": error}));
        let invalid = "Client specified an invalid argument";
        match self {
            Self::RateLimit => error_body(
                429,
                "Some resource has been exhausted",
                "Too many requests for team 3e2f and model grok-4.".to_owned(),
            ),
            Self::Overloaded => error_body(
                503,
                "The service is currently unavailable",
                "The model is at capacity and currently cannot serve this request.".to_owned(),
            ),
            Self::WrongKey => error_body(
                400,
                invalid,
                format!("Incorrect API key provided: {key}. You can obtain an API key from https://console.x.ai."),
            ),
            Self::ContextTooLong => error_body(
                400,
                invalid,
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.".to_owned(),
            ),
            Self::Broken => error_body(500, "Internal error", "An internal error occurred.".to_owned()),
            Self::UnknownModel => error_body(
                404,
                "Some requested entity was not found",
                "The model nonesuch does not exist or your team does not have access to it.".to_owned(),
            ),
            Self::NoCredit => error_body(
                403,
                "The caller does not have permission to execute the specified operation",
                "Your newly created team doesn't have any credits yet.".to_owned(),
            ),
        }
    }

    fn openrouter(self) -> (u16, Value) {
        let (code, message) = match self {
            Self::RateLimit => (429, "Rate limit exceeded: free-models-per-min."),
            Self::Overloaded => (503, "No instances available"),
            Self::WrongKey => (401, "No auth credentials found"),
            Self::ContextTooLong => (
                400,
                "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens.",
            ),
            Self::Broken => (502, "Provider returned error"),
            Self::UnknownModel => (404, "No endpoints found for nonesuch."),
            Self::NoCredit => (402, "Insufficient credits. Add more using https://openrouter.ai/credits"),
        };
        (code, json!({"error": {"code": code, "message": message, "metadata": {}}, "user_id": "user_1"}))
    }
}
