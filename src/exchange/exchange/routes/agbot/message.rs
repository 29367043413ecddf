//! The mailbox of an agbot.
//!
//! Source: exchange-api 4.5.
use std::sync::Arc;

use axum::Json;
use evenkeel_access::{Caller, MULTI_TENANT_ORG, Permission, Role, right};
use evenkeel_api::{List, NoContent};
use evenkeel_exchange_store::facts::FactKind;
use evenkeel_exchange_store::message::{self, MessageFilter, MessageRow, NewMessage, Senders};
use evenkeel_exchange_store::node_limit::{lock_agbot_parts, lock_node_parts};
use evenkeel_exchange_store::{agbot, node};
use evenkeel_ids::NodeId;
use evenkeel_wire::exchange::message::{AgbotMessage, AgbotMessagesResponse, MessagesQuery, PostMessage};
use evenkeel_wire::exchange::time::wire_time;

use crate::error::{Created, created};
use crate::extract::{Body, Query};
use crate::feed::row::agbot_change;
use crate::operation::row::{delete, get, post};
use crate::operation::{ExchangeRequest, Op, Operation, PartPath, ResourcePath};
use crate::routes::mailbox::{
    Place, check_sender, check_space, expiry, long_expired, measure, parse_id, with_key,
};
use crate::routes::pages::{self, Page};
use crate::{ApiError, Exchange};

const TAG: &str = "agbot message";
const ALL: &str = "/orgs/{organization}/agbots/{agreementbot}/msgs";
const ONE: &str = "/orgs/{organization}/agbots/{agreementbot}/msgs/{msgid}";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        get(ALL, "list_agbot_messages", list_messages)
            .doc(TAG, "Lists the messages to an agbot, oldest first")
            .success("the messages")
            .empty("there is none"),
        post(ALL, "create_agbot_message", create_message)
            .doc(TAG, "Sends a message of a node to an agbot")
            .success("sent"),
        get(ONE, "get_agbot_message", get_message)
            .doc(TAG, "Returns a message to an agbot")
            .success("the message"),
        delete(ONE, "delete_agbot_message", delete_message)
            .doc(TAG, "Removes a message to an agbot")
            .success("removed, or not there"),
    ]
}

async fn list_messages(
    op: Op<ResourcePath, Query<MessagesQuery>>,
    _: Permission<right::AgbotMessagesRead>,
) -> Result<List<AgbotMessagesResponse>, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path, parameters: Query(query) } = op;
    let senders = seen_senders(&exchange, &caller, &path.org, &path.id).await?;
    let (mailbox, first) = (Arc::new((path, senders)), Place::first(exchange.now(), &query));
    pages::list(r#"{"messages":["#, r#"],"lastIndex":0}"#, move |place: Option<Place>| {
        page(exchange.clone(), mailbox.clone(), place, first)
    })
    .await
}

async fn page(
    exchange: Exchange,
    mailbox: Arc<(ResourcePath, Senders)>,
    place: Option<Place>,
    first: Place,
) -> Result<Page<Place>, ApiError> {
    let (ResourcePath { org, id }, senders) = &*mailbox;
    let (is_first, mut place) = (place.is_none(), place.unwrap_or(first));
    let mut rows = exchange
        .database()
        .read(async |connection| message::list_to_agbot(connection, (org, id), senders, place.filter()).await)
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
    _: Permission<right::AgbotMessagesRead>,
) -> Result<Json<AgbotMessagesResponse>, ApiError> {
    let Op {
        request: ExchangeRequest { exchange, caller, .. },
        path: PartPath { org, id, part: number },
        ..
    } = op;
    let senders = seen_senders(&exchange, &caller, &org, &id).await?;
    let filter =
        MessageFilter { message_id: Some(parse_id(&number)?), after: None, now: exchange.now(), limit: 1 };
    let rows = exchange
        .database()
        .read(async |connection| message::list_to_agbot(connection, (&org, &id), &senders, filter).await)
        .await?;
    if rows.is_empty() {
        return Err(ApiError::not_found("not found"));
    }
    let messages = rows.into_iter().map(shape).collect();
    Ok(Json(AgbotMessagesResponse { messages, last_index: 0 }))
}

/// Returns the nodes whose messages the caller sees: a mailbox of an agbot of the shared organization names the nodes of every organization. A
/// node sees its own there, users and agbots without approval those of their nodes, unless the agbot is theirs.
async fn seen_senders(
    exchange: &Exchange,
    caller: &Caller,
    org: &str,
    agbot: &str,
) -> Result<Senders, ApiError> {
    if caller.org == org && org != MULTI_TENANT_ORG {
        return Ok(Senders::All);
    }
    match caller.role {
        Role::Node => Ok(Senders::Node(NodeId::new(&caller.org, &caller.id))),
        Role::User | Role::UnapprovedAgbot => {
            let facts = exchange.facts(FactKind::Agbot, org, agbot).await?;
            let is_own = facts.and_then(|facts| facts.owner) == Some(caller.account());
            Ok(if is_own { Senders::All } else { Senders::OwnedBy(caller.account()) })
        }
        Role::Root | Role::HubAdmin | Role::OrgAdmin | Role::Agbot | Role::Viewer | Role::Deployer => {
            Ok(Senders::All)
        }
    }
}

fn shape(row: MessageRow) -> AgbotMessage {
    AgbotMessage {
        msg_id: row.message_id,
        node_id: format!("{}/{}", row.sender_org, row.sender),
        node_pub_key: row.public_key,
        message: row.message,
        time_sent: wire_time(row.sent_at),
        time_expires: wire_time(row.expires_at),
    }
}

async fn create_message(
    op: Op<ResourcePath>,
    permission: Permission<right::AgbotMessage>,
    Body(request): Body<PostMessage>,
) -> Result<Created, ApiError> {
    let Op { request: ExchangeRequest { exchange, caller, .. }, path: ResourcePath { org, id }, .. } = &op;
    if caller.role != Role::Node {
        return Err(ApiError::invalid_input(format!(
            "'{caller}' is not a node: only nodes send messages to agbots"
        )));
    }
    let now = exchange.now();
    let settings = exchange.settings();
    let (capacity, limits) = (settings.limits.messages, &settings.mailboxes);
    let message_volume = measure(&request.message, limits)?;
    let usage = exchange.mailbox_usage();
    usage.reserve(exchange.database(), limits, (org, id), &caller.org, (message_volume, now)).await?;
    let number = op
        .write(&permission, "agbot_message.create", async |mut tx| {
            let public_key = node::find_public_key(&mut tx, &caller.org, &caller.id)
                .await?
                .filter(|key| !key.is_empty())
                .ok_or_else(|| {
                    ApiError::invalid_input(format!(
                        "node '{caller}' has no public key, it cannot send messages"
                    ))
                })?;
            message::delete_to_agbot(&mut tx, org, id, None, long_expired(now)).await?;
            if !agbot::has_agbot(&mut tx, org, id).await? {
                return Err(ApiError::not_found(format!("agbot '{org}/{id}' not found")));
            }
            let new_volume = with_key(message_volume, &public_key)?;
            if capacity > 0 && lock_agbot_parts(&mut tx, org, id).await? {
                check_space(message::count_to_agbot(&mut tx, org, id).await?, capacity)?;
            }
            // Messages of one sender wait for each other here, so that its limit is exact.
            lock_node_parts(&mut tx, &caller.org, &caller.id).await?;
            let sender = (caller.org.as_str(), caller.id.as_str());
            let own = message::usage_of_agbot_by_sender(&mut tx, (org, id), sender).await?;
            check_sender(own, new_volume, limits.agbot_sender)?;
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
            let number = message::insert_to_agbot(&mut tx, new).await.map_err(|error| {
                ApiError::from(error).explain("agbot_message_agbot_fk", || {
                    ApiError::not_found(format!("agbot '{org}/{id}' not found"))
                })
            })?;
            tx.finish_with([agbot_change(org, id, "agbotmsgs", "created")], number)
        })
        .await
        .inspect_err(|_| usage.give_back((org, id), &caller.org, message_volume))?;
    Ok(created(format!("agbot msg {number} inserted")))
}

async fn delete_message(
    op: Op<PartPath>,
    permission: Permission<right::AgbotWrite>,
) -> Result<NoContent, ApiError> {
    let Op { request: ExchangeRequest { exchange, .. }, path: PartPath { org, id, part: number }, .. } = &op;
    let number = parse_id(number)?;
    op.write(&permission, "agbot_message.delete", async |mut tx| {
        message::delete_to_agbot(&mut tx, org, id, Some(number), exchange.now()).await?;
        tx.finish([])
    })
    .await?;
    Ok(NoContent)
}
