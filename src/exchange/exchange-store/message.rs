//! Mailboxes of nodes and agbots.

use std::ops::Add;

use evenkeel_access::right;
use evenkeel_ids::{NodeId, UserId};
use evenkeel_store::{StoreError, from_sql, to_sql};
use jiff::Timestamp;
use sqlx::PgConnection;

use super::permitted::{ClearsAgbotMailbox, ClearsNodeMailbox, Permitted};

/// Removes expired messages from all mailboxes.
pub async fn delete_expired(conn: &mut PgConnection, now: Timestamp) -> Result<u64, StoreError> {
    let of_nodes = sqlx::query!(
        "-- message.delete_expired_of_nodes
        DELETE FROM node_message WHERE expires_at < $1",
        to_sql(now) as _,
    )
    .execute(&mut *conn)
    .await?;
    let of_agbots = sqlx::query!(
        "-- message.delete_expired_of_agbots
        DELETE FROM agbot_message WHERE expires_at < $1",
        to_sql(now) as _,
    )
    .execute(conn)
    .await?;
    Ok(of_nodes.rows_affected() + of_agbots.rows_affected())
}

/// Messages, and the bytes of them and of their senders' keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of messages.
    pub messages: i64,
    /// Their bytes.
    pub bytes: i64,
}

impl Add for Volume {
    type Output = Volume;

    fn add(self, other: Volume) -> Volume {
        let bytes = self.bytes.saturating_add(other.bytes);
        Volume { messages: self.messages.saturating_add(other.messages), bytes }
    }
}

impl Volume {
    /// Returns whether this is no more than a limit, neither in number nor in bytes.
    #[must_use]
    pub fn fits(self, limit: Volume) -> bool {
        self.messages <= limit.messages && self.bytes <= limit.bytes
    }
}

/// A message in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Sequence number; ascending in order of arrival.
    pub message_id: i64,
    /// Organization of the sender.
    pub sender_org: String,
    /// Bare id of the sender.
    pub sender: String,
    /// Key of the sender.
    pub public_key: String,
    /// The message.
    pub message: String,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A message to insert.
#[derive(Debug, Clone, Copy)]
pub struct NewMessage<'m> {
    /// Organization of the receiver.
    pub org: &'m str,
    /// Bare id of the receiver.
    pub receiver: &'m str,
    /// Organization of the sender.
    pub sender_org: &'m str,
    /// Bare id of the sender.
    pub sender: &'m str,
    /// Key of the sender.
    pub public_key: &'m str,
    /// The message.
    pub message: &'m str,
    /// When it is sent.
    pub sent_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// The filter of a mailbox's messages.
#[derive(Debug, Clone, Copy)]
pub struct MessageFilter {
    /// Only this one.
    pub message_id: Option<i64>,
    /// Only those after this one.
    pub after: Option<i64>,
    /// Only those that expire after this instant.
    pub now: Timestamp,
    /// Maximum number of messages.
    pub limit: i64,
}

/// Lists messages to a node, oldest first.
pub async fn list_to_node(
    conn: &mut PgConnection,
    org: &str,
    node: &str,
    filter: MessageFilter,
) -> Result<Vec<MessageRow>, StoreError> {
    let rows = sqlx::query!(
        r#"-- message.list_to_node
        SELECT message_id, agbot_org, agbot, public_key, message, sent_at AS "sent_at: jiff_sqlx::Timestamp",
               expires_at AS "expires_at: jiff_sqlx::Timestamp"
        FROM node_message
        WHERE org = $1 AND node = $2 AND ($3::bigint IS NULL OR message_id = $3) AND expires_at > $4
          AND message_id > COALESCE($5::bigint, 0)
        ORDER BY message_id
        LIMIT $6"#,
        org,
        node,
        filter.message_id,
        to_sql(filter.now) as _,
        filter.after,
        filter.limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| MessageRow {
            message_id: row.message_id,
            sender_org: row.agbot_org,
            sender: row.agbot,
            public_key: row.public_key,
            message: row.message,
            sent_at: from_sql(row.sent_at),
            expires_at: from_sql(row.expires_at),
        })
        .collect())
}

/// The nodes whose messages a reader of the mailbox of an agbot sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Senders {
    /// All.
    All,
    /// One node.
    Node(NodeId),
    /// The nodes of an account.
    OwnedBy(UserId),
}

/// Lists messages to an agbot, oldest first.
pub async fn list_to_agbot(
    conn: &mut PgConnection,
    (org, agbot): (&str, &str),
    senders: &Senders,
    filter: MessageFilter,
) -> Result<Vec<MessageRow>, StoreError> {
    let (node, owner) = match senders {
        Senders::All => (None, None),
        Senders::Node(node) => (Some(node), None),
        Senders::OwnedBy(owner) => (None, Some(owner)),
    };
    let rows = sqlx::query!(
        r#"-- message.list_to_agbot
        SELECT message_id, node_org, node, public_key, message, sent_at AS "sent_at: jiff_sqlx::Timestamp",
               expires_at AS "expires_at: jiff_sqlx::Timestamp"
        FROM agbot_message
        WHERE org = $1 AND agbot = $2 AND ($3::bigint IS NULL OR message_id = $3) AND expires_at > $4
          AND message_id > COALESCE($5::bigint, 0)
          AND ($7::text IS NULL OR (node_org, node) = ($7, $8))
          AND ($9::text IS NULL OR EXISTS (
              SELECT 1 FROM node AS sender
              WHERE sender.org = node_org AND sender.node = agbot_message.node AND sender.owner_org = $9 AND sender.owner = $10))
        ORDER BY message_id
        LIMIT $6"#,
        org,
        agbot,
        filter.message_id,
        to_sql(filter.now) as _,
        filter.after,
        filter.limit,
        node.map(NodeId::org),
        node.map(NodeId::name),
        owner.map(UserId::org),
        owner.map(UserId::name),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| MessageRow {
            message_id: row.message_id,
            sender_org: row.node_org,
            sender: row.node,
            public_key: row.public_key,
            message: row.message,
            sent_at: from_sql(row.sent_at),
            expires_at: from_sql(row.expires_at),
        })
        .collect())
}

/// Puts a message into the mailbox of a node and returns its number.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the node or the agbot does not exist.
pub async fn insert_to_node(
    tx: &mut Permitted<right::NodeMessage>,
    message: NewMessage<'_>,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        "-- message.insert_to_node
        INSERT INTO node_message (org, node, agbot_org, agbot, public_key, message, sent_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        RETURNING message_id",
        message.org,
        message.receiver,
        message.sender_org,
        message.sender,
        message.public_key,
        message.message,
        to_sql(message.sent_at) as _,
        to_sql(message.expires_at) as _,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(row.message_id)
}

/// Puts a message into the mailbox of an agbot and returns its number.
///
/// # Errors
/// [`StoreError::ParentMissing`] when the agbot does not exist.
pub async fn insert_to_agbot(
    tx: &mut Permitted<right::AgbotMessage>,
    message: NewMessage<'_>,
) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        "-- message.insert_to_agbot
        INSERT INTO agbot_message (org, agbot, node_org, node, public_key, message, sent_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        RETURNING message_id",
        message.org,
        message.receiver,
        message.sender_org,
        message.sender,
        message.public_key,
        message.message,
        to_sql(message.sent_at) as _,
        to_sql(message.expires_at) as _,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(row.message_id)
}

/// Removes a message to a node, or those that expired before an instant when no id is given.
pub async fn delete_to_node<R: ClearsNodeMailbox>(
    tx: &mut Permitted<R>,
    org: &str,
    node: &str,
    message_id: Option<i64>,
    expired_before: Timestamp,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- message.delete_to_node
        DELETE FROM node_message
        WHERE org = $1 AND node = $2 AND (message_id = $3 OR ($3::bigint IS NULL AND expires_at < $4))",
        org,
        node,
        message_id,
        to_sql(expired_before) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Removes a message to an agbot, or those that expired before an instant when no id is given.
pub async fn delete_to_agbot<R: ClearsAgbotMailbox>(
    tx: &mut Permitted<R>,
    org: &str,
    agbot: &str,
    message_id: Option<i64>,
    expired_before: Timestamp,
) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "-- message.delete_to_agbot
        DELETE FROM agbot_message
        WHERE org = $1 AND agbot = $2 AND (message_id = $3 OR ($3::bigint IS NULL AND expires_at < $4))",
        org,
        agbot,
        message_id,
        to_sql(expired_before) as _,
    )
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected())
}

/// Returns what the mailbox of a node holds, and how much of it is of one agbot.
pub async fn usage_of_node(
    tx: &mut PgConnection,
    (org, node): (&str, &str),
    (sender_org, sender): (&str, &str),
) -> Result<(Volume, Volume), StoreError> {
    let row = sqlx::query!(
        r#"-- message.usage_of_node
        SELECT count(*) AS "messages!",
               COALESCE(sum(octet_length(message) + octet_length(public_key)), 0)::bigint AS "bytes!",
               count(*) FILTER (WHERE agbot_org = $3 AND agbot = $4) AS "own_messages!",
               COALESCE(sum(octet_length(message) + octet_length(public_key)) FILTER (WHERE agbot_org = $3 AND agbot = $4), 0)::bigint
                   AS "own_bytes!"
        FROM node_message
        WHERE org = $1 AND node = $2"#,
        org,
        node,
        sender_org,
        sender,
    )
    .fetch_one(tx)
    .await?;
    let own = Volume { messages: row.own_messages, bytes: row.own_bytes };
    Ok((Volume { messages: row.messages, bytes: row.bytes }, own))
}

/// Returns what the mailbox of an agbot holds of one node.
pub async fn usage_of_agbot_by_sender(
    tx: &mut PgConnection,
    (org, agbot): (&str, &str),
    (sender_org, sender): (&str, &str),
) -> Result<Volume, StoreError> {
    let row = sqlx::query!(
        r#"-- message.usage_of_agbot_by_sender
        SELECT count(*) AS "messages!",
               COALESCE(sum(octet_length(message) + octet_length(public_key)), 0)::bigint AS "bytes!"
        FROM agbot_message
        WHERE org = $1 AND agbot = $2 AND node_org = $3 AND node = $4"#,
        org,
        agbot,
        sender_org,
        sender,
    )
    .fetch_one(tx)
    .await?;
    Ok(Volume { messages: row.messages, bytes: row.bytes })
}

/// Returns what the mailbox of an agbot holds at an instant, by organization of the senders; at most so many messages are counted.
/// Expired ones are not: their reader is not shown them, and they are deleted later.
pub async fn usage_of_agbot(
    conn: &mut PgConnection,
    org: &str,
    agbot: &str,
    now: Timestamp,
    most: i64,
) -> Result<Vec<(String, Volume)>, StoreError> {
    let rows = sqlx::query!(
        r#"-- message.usage_of_agbot
        SELECT counted.node_org AS "org!", count(*) AS "messages!", COALESCE(sum(counted.bytes), 0)::bigint AS "bytes!"
        FROM (
            SELECT node_org, octet_length(message) + octet_length(public_key) AS bytes
            FROM agbot_message
            WHERE org = $1 AND agbot = $2 AND expires_at > $3
            LIMIT $4
        ) AS counted
        GROUP BY counted.node_org"#,
        org,
        agbot,
        to_sql(now) as _,
        most,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.org, Volume { messages: row.messages, bytes: row.bytes })).collect())
}

/// Counts the messages in the mailbox of an agbot.
pub async fn count_to_agbot(tx: &mut PgConnection, org: &str, agbot: &str) -> Result<i64, StoreError> {
    let row = sqlx::query!(
        r#"-- message.count_to_agbot
        SELECT count(*) AS "count!" FROM agbot_message WHERE org = $1 AND agbot = $2"#,
        org,
        agbot,
    )
    .fetch_one(tx)
    .await?;
    Ok(row.count)
}

#[cfg(test)]
mod tests {
    use evenkeel_test_database::TestDatabase;

    use super::*;
    use crate::tests::{Org, ROLES, at};

    /// A message that lives until a second.
    fn message<'m>(
        org: &'m Org,
        receiver: &'m str,
        (sender_org, sender): (&'m str, &'m str),
    ) -> NewMessage<'m> {
        // The text has three letters in four bytes.
        let (public_key, message) = ("k", "für");
        NewMessage {
            org,
            receiver,
            sender_org,
            sender,
            public_key,
            message,
            sent_at: at(0),
            expires_at: at(100),
        }
    }

    async fn send_to_node(org: &Org, message: NewMessage<'_>) -> i64 {
        org.write(async |tx| insert_to_node(tx, message).await).await
    }

    async fn send_to_agbot(org: &Org, message: NewMessage<'_>) -> i64 {
        org.write(async |tx| insert_to_agbot(tx, message).await).await
    }

    fn page(after: Option<i64>, limit: i64) -> MessageFilter {
        MessageFilter { message_id: None, after, now: at(50), limit }
    }

    fn ids(messages: Vec<MessageRow>) -> Vec<i64> {
        messages.into_iter().map(|message| message.message_id).collect()
    }

    #[test]
    fn volume_fits_a_limit_in_messages_and_in_bytes() {
        let limit = Volume { messages: 2, bytes: 10 };
        assert!(limit.fits(limit));
        assert!(!Volume { messages: 3, bytes: 1 }.fits(limit));
        assert!(!Volume { messages: 1, bytes: 11 }.fits(limit));
    }

    #[tokio::test]
    async fn mailbox_of_a_node_counts_bytes_of_texts_and_keys_in_all_and_of_one_sender() {
        let (org, other) = (Org::new("mail-count").await, Org::new("mail-count-other").await);
        org.add_nodes(&["n", "m"]).await;
        for (org, agbot) in [(&org, "a"), (&org, "b"), (&other, "a")] {
            org.add_agbot(agbot, "u").await;
        }
        for sender in [(&*org, "a"), (&org, "a"), (&org, "b"), (&other, "a")] {
            send_to_node(&org, message(&org, "n", sender)).await;
        }
        send_to_node(&org, message(&org, "m", (&org, "a"))).await;
        let mut connection = org.connection().await;
        let usage = usage_of_node(&mut connection, (&org, "n"), (&org, "a")).await.unwrap();
        let expected = (Volume { messages: 4, bytes: 20 }, Volume { messages: 2, bytes: 10 });
        assert_eq!(usage, expected);
    }

    #[tokio::test]
    async fn mailbox_of_an_agbot_counts_unexpired_messages_of_each_organization_up_to_a_bound() {
        let org = Org::new("mail-agbot").await;
        org.add_agbot("a", "u").await;
        org.add_agbot("b", "u").await;
        for sender in [("p", "n"), ("p", "m"), ("q", "n")] {
            send_to_agbot(&org, message(&org, "a", sender)).await;
        }
        send_to_agbot(&org, NewMessage { expires_at: at(50), ..message(&org, "a", ("q", "n")) }).await;
        send_to_agbot(&org, message(&org, "b", ("p", "n"))).await;
        let mut connection = org.connection().await;
        let mut usage = usage_of_agbot(&mut connection, &org, "a", at(50), 100).await.unwrap();
        usage.sort_by(|left, right| left.0.cmp(&right.0));
        let expected = [("p", 2), ("q", 1)]
            .map(|(org, messages)| (org.to_owned(), Volume { messages, bytes: 5 * messages }));
        assert_eq!(usage, expected);
        let bounded = usage_of_agbot(&mut connection, &org, "a", at(50), 2).await.unwrap();
        assert_eq!(bounded.iter().map(|(_, volume)| volume.messages).sum::<i64>(), 2);
        let of_sender = usage_of_agbot_by_sender(&mut connection, (&org, "a"), ("q", "n")).await.unwrap();
        assert_eq!(of_sender.messages, 2, "expired ones count until they are deleted");
        assert_eq!(count_to_agbot(&mut connection, &org, "a").await.unwrap(), 4);
    }

    #[tokio::test]
    async fn pages_of_a_mailbox_follow_each_other_without_expired_messages() {
        let org = Org::new("mail-pages").await;
        org.add_nodes(&["n"]).await;
        org.add_agbot("a", "u").await;
        let (mut to_node, mut to_agbot) = (Vec::new(), Vec::new());
        for expires_at in [at(60), at(50), at(60), at(60)] {
            to_node
                .push(send_to_node(&org, NewMessage { expires_at, ..message(&org, "n", (&org, "a")) }).await);
            to_agbot.push(
                send_to_agbot(&org, NewMessage { expires_at, ..message(&org, "a", (&org, "n")) }).await,
            );
        }
        let mut connection = org.connection().await;
        for (after, expected) in [(None, [0, 2].as_slice()), (Some(2), &[3]), (Some(3), &[])] {
            let of = |all: &[i64]| expected.iter().map(|place| all[*place]).collect::<Vec<_>>();
            let filter = page(after.map(|place: usize| to_node[place]), 2);
            assert_eq!(ids(list_to_node(&mut connection, &org, "n", filter).await.unwrap()), of(&to_node));
            let filter = page(after.map(|place: usize| to_agbot[place]), 2);
            let found = list_to_agbot(&mut connection, (&org, "a"), &Senders::All, filter).await.unwrap();
            assert_eq!(ids(found), of(&to_agbot));
        }
    }

    #[tokio::test]
    async fn message_is_deleted_only_from_its_mailbox() {
        let org = Org::new("mail-delete").await;
        org.add_nodes(&["n", "m"]).await;
        org.add_agbot("a", "u").await;
        let kept = send_to_node(&org, message(&org, "n", (&org, "a"))).await;
        send_to_node(&org, NewMessage { expires_at: at(10), ..message(&org, "n", (&org, "a")) }).await;
        let delete = async |node: &str, id: Option<i64>| {
            let deleted =
                async |tx: &mut Permitted<right::NodeWrite>| delete_to_node(tx, &org, node, id, at(50)).await;
            org.write(deleted).await
        };
        assert_eq!(delete("m", Some(kept)).await, 0, "of another node");
        assert_eq!(delete("m", None).await, 0, "of another node");
        assert_eq!(delete("n", None).await, 1, "the expired one");
        assert_eq!(delete("n", Some(kept)).await, 1);
    }

    #[tokio::test]
    async fn expired_messages_leave_all_mailboxes() {
        let database = TestDatabase::new(ROLES).await;
        let org = Org::in_database(&database, "o").await;
        org.add_nodes(&["n"]).await;
        org.add_agbot("a", "u").await;
        for expires_at in [at(10), at(20)] {
            send_to_node(&org, NewMessage { expires_at, ..message(&org, "n", (&org, "a")) }).await;
            send_to_agbot(&org, NewMessage { expires_at, ..message(&org, "a", (&org, "n")) }).await;
        }
        let mut connection = org.connection().await;
        let mut removed = Vec::new();
        for now in [at(10), at(11), at(21)] {
            removed.push(delete_expired(&mut connection, now).await.unwrap());
        }
        assert_eq!(removed, [0, 2, 2]);
    }
}
