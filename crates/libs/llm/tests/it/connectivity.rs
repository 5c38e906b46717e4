//! Tests of a provider's address and key.

use agentd_base::Secret;
use agentd_llm::{ModelErrorCode, Vendor, VendorBackend};
use agentd_testing_llm::{FakeVendor, Script};

use crate::support::{KEY, all_text, backend, client};

#[tokio::test]
async fn valid_key_lists_models_that_generate_text() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start_with_key(vendor, Script::queue([]), KEY).await.unwrap();
        let report = backend(&fake, vendor).test().await.unwrap();
        assert_eq!(report.models, ["fake-model"], "{vendor}");
    }
}

#[tokio::test]
async fn invalid_key_is_detected_if_the_model_list_is_public() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start_with_key(vendor, Script::queue([]), KEY).await.unwrap();
        let wrong = Secret::new("sk-wrong-9Zk1".to_owned());
        let backend = VendorBackend::new(vendor, client(), Some(fake.base_url()), Some(wrong));
        let error = backend.test().await.unwrap_err();
        assert_eq!(error.code, ModelErrorCode::Auth, "{vendor}: {error}");
        assert!(!all_text(&error).contains("sk-wrong-9Zk1"), "{vendor}");
    }
}

#[tokio::test]
async fn wrong_address_is_reported() {
    let fake = FakeVendor::start(Vendor::Openai, Script::queue([])).await.unwrap();
    let mut url = fake.base_url();
    url.set_path("");
    let error = VendorBackend::new(Vendor::Openai, client(), Some(url), None).test().await.unwrap_err();
    assert!(error.message.contains("base_url"), "{error}");
}
