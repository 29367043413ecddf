//! The messages of the Basic protocol, version 1 (agreement protocol 2.1–2.3).

use serde_json::{Map, Value, json};

use crate::json_fields::{FieldError, Fields};

/// The only protocol name in use.
pub const PROTOCOL: &str = "Basic";
/// The only protocol version in use.
pub const VERSION: i64 = 1;
/// `updateType` of an update that carries new terms; the doubled letter t is part of the wire format.
pub const UPDATE_POLICY: &str = "basicagreementtupdatepolicychange";

/// Reason why a text is not a message of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The text is not a JSON object, or a field has the wrong type.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field that must have a value is empty.
    #[error("field {0} is missing or empty")]
    Missing(&'static str),
    /// The `type` names no message of the protocol.
    #[error("the protocol has no message type {0:?}")]
    UnknownType(String),
}

/// The four fields that every message carries; any of the texts may be empty.
///
/// # Source
/// Agreement-protocol 2.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Message type.
    pub kind: String,
    /// Protocol name.
    pub protocol: String,
    /// Protocol version.
    pub version: i64,
    /// Agreement id.
    pub agreement_id: String,
}

impl Header {
    /// Reads the header alone, which is enough to find the protocol of a message.
    ///
    /// # Errors
    /// [`MessageError::Field`] when the text is no object or a header field has the wrong kind.
    pub fn parse(text: &str) -> Result<Self, MessageError> {
        Self::read(&Fields::parse(text)?)
    }

    fn read(fields: &Fields) -> Result<Self, MessageError> {
        Ok(Self {
            kind: fields.text("type")?,
            protocol: fields.text("protocol")?,
            version: fields.integer("version")?,
            agreement_id: fields.text("agreementId")?,
        })
    }
}

/// Contents of a message, by type.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// An agbot proposes terms to a node.
    Proposal {
        /// Terms and conditions: an internal policy with one workload, as serialized JSON.
        terms: String,
        /// The node's policy as the agbot saw it, as serialized JSON.
        producer_policy: String,
        /// The agbot, `org/id`.
        consumer_id: String,
    },
    /// The node's reply to a proposal.
    Reply {
        /// True if the node accepts.
        decision: bool,
        /// The node, `org/id`.
        device_id: String,
    },
    /// The agbot's response to a reply: whether it still wants the agreement.
    ReplyAck {
        /// True when the agreement continues.
        decision: bool,
    },
    /// The agbot has seen data.
    DataVerification,
    /// The node has recorded it.
    DataVerificationAck,
    /// A meter reading, as serialized JSON.
    MeteringNotification {
        /// The reading.
        meter_reading: String,
    },
    /// Either side ends the agreement.
    Cancel {
        /// Reason code (agreement protocol 2.7).
        reason: u64,
    },
    /// A query of either side whether the other still has the agreement.
    Verification,
    /// The reply to a verification.
    VerificationReply {
        /// True if the sender has the agreement.
        exists: bool,
    },
    /// New secrets or new terms.
    Update {
        /// [`UPDATE_POLICY`], or `basicagreementupdatesecret`.
        update_type: String,
        /// The update, by type.
        metadata: Option<Value>,
    },
    /// The reply to an update.
    UpdateReply {
        /// Type of the update that this replies to.
        update_type: String,
        /// True if the sender accepted the update.
        accepted: bool,
    },
}

impl Body {
    /// The word that travels in the field `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Proposal { .. } => "proposal",
            Self::Reply { .. } => "reply",
            Self::ReplyAck { .. } => "replyack",
            Self::DataVerification => "dataverification",
            Self::DataVerificationAck => "dataverificationack",
            Self::MeteringNotification { .. } => "meteringnotification",
            Self::Cancel { .. } => "cancel",
            Self::Verification => "basicagreementverification",
            Self::VerificationReply { .. } => "basicagreementverificationreply",
            Self::Update { .. } => "basicagreementupdate",
            Self::UpdateReply { .. } => "basicagreementupdatereply",
        }
    }

    fn read(kind: &str, fields: &Fields) -> Result<Self, MessageError> {
        Ok(match kind {
            "proposal" => Self::Proposal {
                terms: required(fields, "tsandcs")?,
                producer_policy: required(fields, "producerPolicy")?,
                consumer_id: required(fields, "consumerId")?,
            },
            "reply" => {
                Self::Reply { decision: fields.flag("decision")?, device_id: required(fields, "deviceId")? }
            }
            "replyack" => Self::ReplyAck { decision: fields.flag("decision")? },
            "dataverification" => Self::DataVerification,
            "dataverificationack" => Self::DataVerificationAck,
            "meteringnotification" => {
                Self::MeteringNotification { meter_reading: required(fields, "meter_reading")? }
            }
            "cancel" => Self::Cancel { reason: fields.unsigned("reason")? },
            "basicagreementverification" => Self::Verification,
            "basicagreementverificationreply" => Self::VerificationReply { exists: fields.flag("exists")? },
            "basicagreementupdate" => {
                Self::Update { update_type: fields.text("updateType")?, metadata: fields.any("metadata") }
            }
            "basicagreementupdatereply" => Self::UpdateReply {
                update_type: fields.text("updateType")?,
                accepted: fields.flag("accepted")?,
            },
            other => return Err(MessageError::UnknownType(other.to_owned())),
        })
    }

    fn write(&self, object: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| {
            object.insert(name.to_owned(), value);
        };
        match self {
            Self::Proposal { terms, producer_policy, consumer_id } => {
                put("tsandcs", json!(terms));
                put("producerPolicy", json!(producer_policy));
                put("consumerId", json!(consumer_id));
            }
            Self::Reply { decision, device_id } => {
                put("decision", json!(decision));
                put("deviceId", json!(device_id));
            }
            Self::ReplyAck { decision } => put("decision", json!(decision)),
            Self::MeteringNotification { meter_reading } => put("meter_reading", json!(meter_reading)),
            Self::Cancel { reason } => put("reason", json!(reason)),
            Self::VerificationReply { exists } => put("exists", json!(exists)),
            Self::Update { update_type, metadata } => {
                put("updateType", json!(update_type));
                if let Some(metadata) = metadata {
                    put("metadata", metadata.clone());
                }
            }
            Self::UpdateReply { update_type, accepted } => {
                put("updateType", json!(update_type));
                put("accepted", json!(accepted));
            }
            Self::DataVerification | Self::DataVerificationAck | Self::Verification => {}
        }
    }
}

/// One message of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Protocol name; receivers act only on [`PROTOCOL`].
    pub protocol: String,
    /// Protocol version; replies repeat the proposal's.
    pub version: i64,
    /// Agreement id, 64 lower-case hexadecimal digits when generated by Evenkeel.
    pub agreement_id: String,
    /// Contents of the message.
    pub body: Body,
}

impl Message {
    /// A message of the Basic protocol, version 1.
    pub fn new(agreement_id: impl Into<String>, body: Body) -> Self {
        Self { protocol: PROTOCOL.to_owned(), version: VERSION, agreement_id: agreement_id.into(), body }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`MessageError`] when the text is no object, a field has the wrong kind, a required field is empty or the
    /// type is unknown.
    pub fn parse(text: &str) -> Result<Self, MessageError> {
        let fields = Fields::parse(text)?;
        let header = Header::read(&fields)?;
        for (name, value) in
            [("type", &header.kind), ("protocol", &header.protocol), ("agreementId", &header.agreement_id)]
        {
            if value.is_empty() {
                return Err(MessageError::Missing(name));
            }
        }
        let body = Body::read(&header.kind, &fields)?;
        Ok(Self {
            protocol: header.protocol,
            version: header.version,
            agreement_id: header.agreement_id,
            body,
        })
    }

    /// The text that travels in an envelope.
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(self.body.kind()));
        object.insert("protocol".to_owned(), json!(self.protocol));
        object.insert("version".to_owned(), json!(self.version));
        object.insert("agreementId".to_owned(), json!(self.agreement_id));
        self.body.write(&mut object);
        Value::Object(object).to_string()
    }
}

fn required(fields: &Fields, name: &'static str) -> Result<String, MessageError> {
    let text = fields.text(name)?;
    if text.is_empty() { Err(MessageError::Missing(name)) } else { Ok(text) }
}

#[cfg(test)]
mod vectors {
    use super::*;
    use crate::vector_file::{self, without_nulls};

    #[test]
    fn every_message_is_judged_and_decoded_as_by_the_reference() {
        vector_file::for_each("messages.jsonl", |line| {
            let text = line["message"].as_str().expect("message");
            let header = Header::parse(text);
            assert_eq!(header.is_ok(), line["protocol_readable"] == true, "{header:?}");
            if let (Ok(header), Some(protocol)) = (&header, line["protocol"].as_str()) {
                assert_eq!(header.protocol, protocol);
            }
            let message = Message::parse(text);
            assert_eq!(message.is_ok(), line["accepted"] == true, "{message:?}");
            let Ok(message) = message else { return };
            assert_eq!(line["accepted_as"], json!([message.body.kind()]));
            let written: Value = serde_json::from_str(&message.to_json()).expect("own text");
            assert_eq!(without_nulls(&written), without_nulls(&line["decoded"]));
            assert_eq!(Message::parse(&message.to_json()), Ok(message));
        });
    }
}
