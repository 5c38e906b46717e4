//! Chunk boundaries must not affect the result of a stream; truncation must be detected.

use agentd_llm::{ModelBackend, ModelError, ModelErrorCode, ModelEvent, Vendor, VendorBackend};
use agentd_testing_llm::{Ending, FakeVendor, Reply, Script};
use bytes::Bytes;

use crate::support::{backend, read, request};
use crate::transcripts::Transcript;

async fn next(backend: &VendorBackend) -> (Vec<ModelEvent>, Option<ModelError>) {
    read(backend.generate(request()).await.unwrap()).await
}

/// Plays all `replies` to one backend and passes each outcome to `check`, with its index.
async fn play_each(vendor: Vendor, replies: Vec<Reply>, check: impl Fn(usize, Vec<ModelEvent>, Option<ModelError>)) {
    let count = replies.len();
    let fake = FakeVendor::start(vendor, Script::queue(replies)).await.unwrap();
    let backend = backend(&fake, vendor);
    for number in 0..count {
        let (events, error) = next(&backend).await;
        check(number, events, error);
    }
}

async fn split_everywhere(vendor: Vendor) {
    for transcript in Transcript::ALL {
        let (bytes, expected) = (Bytes::from_static(transcript.bytes(vendor)), transcript.events(vendor));
        let halves = (1..bytes.len()).map(|at| Reply::chunks(vec![bytes.slice(..at), bytes.slice(at..)]));
        let single = Reply::chunks((0..bytes.len()).map(|at| bytes.slice(at..=at)).collect());
        play_each(vendor, halves.chain([single]).collect(), |number, events, error| {
            assert!(error.is_none(), "{vendor} {transcript:?} split at {}: {error:?}", number + 1);
            assert_eq!(events, expected, "{vendor} {transcript:?} split at {}", number + 1);
        })
        .await;
    }
}

/// Returns the end of the line of the event that carries the finish reason.
fn end_of_finish(bytes: &[u8]) -> usize {
    let text = std::str::from_utf8(bytes).unwrap();
    let names = ["\"finish_reason\":\"", "\"stop_reason\":\"", "\"finishReason\": \""];
    let at = names.iter().find_map(|name| text.find(name)).unwrap();
    at + text[at..].find(['\r', '\n']).unwrap()
}

async fn cut_everywhere(vendor: Vendor) {
    for transcript in Transcript::ALL {
        let (bytes, expected) = (Bytes::from_static(transcript.bytes(vendor)), transcript.events(vendor));
        // One vendor per format is cut at every byte, the others around every line end.
        let is_thorough = matches!(vendor, Vendor::Anthropic | Vendor::Openai | Vendor::Google);
        let at_line_end = |at: usize| bytes[at] == b'\n' || (at > 0 && bytes[at - 1] == b'\n');
        let positions: Vec<usize> = (0..bytes.len()).filter(|at| is_thorough || at_line_end(*at)).collect();
        let cut = |at: &usize| Reply::chunks(vec![bytes.slice(..*at)]).ending(Ending::WithoutEndMarker);
        let complete_from = end_of_finish(&bytes);
        let (content_events, is_end) =
            (expected.len() - 1, |event: &ModelEvent| matches!(event, ModelEvent::Finished(_)));
        play_each(vendor, positions.iter().map(cut).collect(), |number, events, error| {
            let at = positions[number];
            if at >= complete_from {
                assert!(error.is_none(), "{vendor} {transcript:?} cut at {at}: {error:?}");
                assert_eq!(events[..content_events], expected[..content_events], "{vendor} cut at {at}");
                // Usage may be missing.
                assert!(is_end(&events[content_events]), "{vendor} cut at {at}");
                return;
            }
            let error = error.unwrap_or_else(|| panic!("{vendor} {transcript:?} cut at {at} passes for complete"));
            assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{vendor} cut at {at}: {error}");
            assert!(error.message.contains("interrupted"), "{error}");
            assert_eq!(events, expected[..events.len()], "{vendor} cut at {at}");
        })
        .await;
    }
}

macro_rules! for_every_vendor {
    ($($name:ident: $vendor:ident),+ $(,)?) => {
        mod split_at_every_byte {
            $(#[tokio::test] async fn $name() { super::split_everywhere(agentd_llm::Vendor::$vendor).await; })+
        }
        mod cut_off_anywhere {
            $(#[tokio::test] async fn $name() { super::cut_everywhere(agentd_llm::Vendor::$vendor).await; })+
        }
    };
}

for_every_vendor! {
    anthropic: Anthropic,
    openai: Openai,
    google: Google,
    mistral: Mistral,
    groq: Groq,
    deepseek: Deepseek,
    xai: Xai,
    openrouter: Openrouter,
}
