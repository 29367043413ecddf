//! Messages between nodes and agbots on the wire. Source: exchange-api 4.4.1, 4.5.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{lenient, query};

/// Sends a message.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostMessage {
    /// The message, encrypted by the sender.
    #[serde(deserialize_with = "lenient::text")]
    pub message: String,
    /// Seconds until it expires.
    #[serde(default, deserialize_with = "lenient::int")]
    pub ttl: i64,
}

response! {
    /// A message to a node.
    pub struct NodeMessage {
        /// Number; ascending in order of arrival.
        msg_id: i64,
        /// `org/agbot` of the sender.
        agbot_id: String,
        /// Key of the sender.
        agbot_pub_key: String,
        /// The message.
        message: String,
        /// When it was sent.
        time_sent: String,
        /// When it expires.
        time_expires: String,
    }
}

response! {
    /// A message to an agbot.
    pub struct AgbotMessage {
        /// Number; ascending in order of arrival.
        msg_id: i64,
        /// `org/node` of the sender.
        node_id: String,
        /// Key of the sender.
        node_pub_key: String,
        /// The message.
        message: String,
        /// When it was sent.
        time_sent: String,
        /// When it expires.
        time_expires: String,
    }
}

response! {
    /// Messages to a node.
    pub struct NodeMessagesResponse {
        /// The messages, oldest first.
        messages: Vec<NodeMessage>,
        /// Always 0.
        last_index: i32,
    }
}

response! {
    /// Messages to an agbot.
    pub struct AgbotMessagesResponse {
        /// The messages, oldest first.
        messages: Vec<AgbotMessage>,
        /// Always 0.
        last_index: i32,
    }
}

/// Selection of messages.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct MessagesQuery {
    /// Maximum number of messages; all when absent or not positive.
    #[serde(deserialize_with = "query::optional_int")]
    pub maxmsgs: Option<i32>,
    /// Maximum number of bytes of messages and keys, but at least one message; unlimited when absent or not
    /// positive.
    #[serde(deserialize_with = "query::optional_int")]
    pub maxbytes: Option<i32>,
    /// Only messages with a greater number.
    #[serde(deserialize_with = "query::optional_long")]
    pub after: Option<i64>,
}
