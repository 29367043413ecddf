//! Messages between nodes and agbots on the wire; see the exchange contract 4.4.1 and 4.5.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{lenient, query};

/// Sends a message.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostMessage {
    /// The message, encrypted by the sender.
    #[serde(deserialize_with = "lenient::text")]
    pub message: String,
    /// Seconds until it expires.
    #[serde(default, deserialize_with = "lenient::int")]
    pub ttl: i64,
}

/// A message to a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMessage {
    /// Number; ascending in order of arrival.
    pub msg_id: i64,
    /// `org/agbot` of the sender.
    pub agbot_id: String,
    /// Key of the sender.
    pub agbot_pub_key: String,
    /// The message.
    pub message: String,
    /// When it was sent.
    pub time_sent: String,
    /// When it expires.
    pub time_expires: String,
}

/// A message to an agbot.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotMessage {
    /// Number; ascending in order of arrival.
    pub msg_id: i64,
    /// `org/node` of the sender.
    pub node_id: String,
    /// Key of the sender.
    pub node_pub_key: String,
    /// The message.
    pub message: String,
    /// When it was sent.
    pub time_sent: String,
    /// When it expires.
    pub time_expires: String,
}

/// Messages to a node.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMessagesAnswer {
    /// The messages, oldest first.
    pub messages: Vec<NodeMessage>,
    /// Always 0.
    pub last_index: i32,
}

/// Messages to an agbot.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgbotMessagesAnswer {
    /// The messages, oldest first.
    pub messages: Vec<AgbotMessage>,
    /// Always 0.
    pub last_index: i32,
}

/// How many messages are wanted.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
pub struct MessagesQuery {
    /// Most messages wanted; all when absent or not positive.
    #[serde(deserialize_with = "query::optional_int")]
    pub maxmsgs: Option<i32>,
}
