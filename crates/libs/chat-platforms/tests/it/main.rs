//! Tests of the platforms through their public interface, each against its fake on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod discord;
mod discord_gateway;
mod files;
mod google_chat;
mod markup;
mod markup_reader;
mod slack;
mod slack_socket;
mod support;
mod teams;
mod telegram;
mod whatsapp;
