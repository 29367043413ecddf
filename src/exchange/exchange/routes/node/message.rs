//! The mailbox of a node.
//!
//! Source: exchange-api 4.4.1.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Permission, right};
use evenkeel_api::{List, NoContent};
use evenkeel_exchange_store::agbot;
use evenkeel_exchange_store::message::{self, MessageFilter, MessageRow, NewMessage};
use evenkeel_exchange_store::node_limit::lock_node_parts;
use evenkeel_wire::exchange::message::{MessagesQuery, NodeMessage, NodeMessagesResponse, PostMessage};
use evenkeel_wire::exchange::time::wire_time;

use super::missing_node;
use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::node_change;
use crate::operation::row::{delete, get, post};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::routes::mailbox::{
    Place, check_mailbox, check_sender, check_space, expiry, long_expired, measure, parse_id, with_key,
};
use crate::routes::pages::{self, Page};
use crate::{ApiError, Exchange};

const TAG: &str = "node message";
const ALL: &str = "/orgs/{organization}/nodes/{node}/msgs";
const ONE: &str = "/orgs/{organization}/nodes/{node}/msgs/{msgid}";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_node_messages", list_messages)
            .doc(TAG, "Lists the messages to a node, oldest first")
            .success("the messages")
            .empty("there is none"),
        post(ALL, "create_node_message", create_message)
            .doc(TAG, "Sends a message of an agbot to a node")
            .success("sent"),
        get(ONE, "get_node_message", get_message)
            .doc(TAG, "Returns a message to a node")
            .success("the message"),
        delete(ONE, "delete_node_message", delete_message)
            .doc(TAG, "Removes a message to a node")
            .success("removed, or not there"),
    ]
}

async fn list_messages(
    op: Op<ResourcePath, Query<MessagesQuery>>,
    _: Permission<right::NodeMessagesRead>,
) -> Result<List<NodeMessagesResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path, parameters: Query(query) } = op;
    let (mailbox, first) = (Arc::new(path), Place::first(exchange.now(), &query));
    pages::list(r#"{"messages":["#, r#"],"lastIndex":0}"#, move |place: Option<Place>| {
        page(exchange.clone(), mailbox.clone(), place, first)
    })
    .await
}

async fn page(
    exchange: Exchange,
    mailbox: Arc<ResourcePath>,
    place: Option<Place>,
    first: Place,
) -> Result<Page<Place>, ApiError> {
    let ResourcePath { org, id } = &*mailbox;
    let (is_first, mut place) = (place.is_none(), place.unwrap_or(first));
    let mut rows = exchange
        .database()
        .read(async |connection| message::list_to_node(connection, org, id, place.filter()).await)
        .await?;
    let next = match place.cut(&mut rows, is_first) {
        true => None,
        false => place.next(rows.len(), rows.last().map(|row| row.message_id)),
    };
    let mut page = Page::new();
    for row in rows {
        page.push(&shape(row))?;
    }
    page.follow(next);
    Ok(page)
}

async fn get_message(
    op: Op<PartPath>,
    _: Permission<right::NodeMessagesRead>,
) -> Result<Json<NodeMessagesResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: number }, .. } = op;
    let filter =
        MessageFilter { message_id: Some(parse_id(&number)?), after: None, now: exchange.now(), limit: 1 };
    let rows = exchange
        .database()
        .read(async |connection| message::list_to_node(connection, &org, &id, filter).await)
        .await?;
    if rows.is_empty() {
        return Err(ApiError::not_found("not found"));
    }
    let messages = rows.into_iter().map(shape).collect();
    Ok(Json(NodeMessagesResponse { messages, last_index: 0 }))
}

fn shape(row: MessageRow) -> NodeMessage {
    NodeMessage {
        msg_id: row.message_id,
        agbot_id: format!("{}/{}", row.sender_org, row.sender),
        agbot_pub_key: row.public_key,
        message: row.message,
        time_sent: wire_time(row.sent_at),
        time_expires: wire_time(row.expires_at),
    }
}

async fn create_message(
    op: Op<ResourcePath>,
    permission: Permission<right::NodeMessage>,
    Body(request): Body<PostMessage>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    if !caller.role.is_agbot() {
        return Err(ApiError::invalid_input(format!(
            "'{caller}' is not an agbot: only agbots send messages to nodes"
        )));
    }
    let now = exchange.now();
    let settings = exchange.settings();
    let (capacity, limits) = (settings.limits.messages, &settings.mailboxes);
    let message_volume = measure(&request.message, limits)?;
    let number = op
        .write(&permission, "node_message.create", async |mut tx| {
            let public_key = agbot::find_public_key(&mut tx, &caller.org, &caller.id)
                .await?
                .filter(|key| !key.is_empty())
                .ok_or_else(|| {
                    ApiError::invalid_input(format!(
                        "agbot '{caller}' has no public key, it cannot send messages"
                    ))
                })?;
            message::delete_to_node(&mut tx, org, id, None, long_expired(now)).await?;
            let new_volume = with_key(message_volume, &public_key)?;
            if lock_node_parts(&mut tx, org, id).await? {
                let sender = (caller.org.as_str(), caller.id.as_str());
                let (used, own) = message::usage_of_node(&mut tx, (org, id), sender).await?;
                check_space(used.messages, capacity)?;
                check_mailbox(used, new_volume, limits.node)?;
                check_sender(own, new_volume, limits.node_sender)?;
            }
            let new = NewMessage {
                org,
                receiver: id,
                sender_org: &caller.org,
                sender: &caller.id,
                public_key: &public_key,
                message: &request.message,
                sent_at: now,
                expires_at: expiry(now, request.ttl, limits),
            };
            let number = message::insert_to_node(&mut tx, new).await.map_err(|error| {
                ApiError::from(error).explain("node_message_node_fk", || missing_node(org, id))
            })?;
            tx.finish_with([node_change(org, id, "nodemsgs", "created")], number)
        })
        .await?;
    Ok(created(format!("node msg {number} inserted")))
}

async fn delete_message(
    op: Op<PartPath>,
    permission: Permission<right::NodeWrite>,
) -> Result<NoContent, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: number }, .. } = &op;
    let number = parse_id(number)?;
    op.write(&permission, "node_message.delete", async |mut tx| {
        message::delete_to_node(&mut tx, org, id, Some(number), exchange.now()).await?;
        tx.finish([])
    })
    .await?;
    Ok(NoContent)
}
