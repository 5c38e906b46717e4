//! `/api/chat`.

mod approvals;
mod conversations;
mod messages;
mod sessions;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Chat;

pub(super) fn routes() -> Routes<Chat> {
    Routes::new()
        .protected(
            ApiRouter::new()
                .routes(routes!(conversations::list_conversations, conversations::create_conversation))
                .routes(routes!(
                    conversations::get_conversation,
                    conversations::update_conversation,
                    conversations::delete_conversation
                ))
                .routes(routes!(conversations::get_mode, conversations::update_mode))
                .routes(routes!(conversations::get_execution_mode, conversations::update_execution_mode))
                .routes(routes!(approvals::list_approvals))
                .routes(routes!(approvals::answer_approval))
                .routes(routes!(approvals::respond_to_approval))
                .routes(routes!(messages::stream_message))
                .routes(routes!(messages::inject_message))
                .routes(routes!(messages::truncate_messages))
                .routes(routes!(messages::create_welcome))
                .routes(routes!(sessions::get_session_trace))
                .routes(routes!(sessions::cancel_session)),
        )
        .streams(ApiRouter::new().routes(routes!(sessions::stream_session)))
}
