//! Audit records: who did what from where, and the hash that chains them.
//!
//! The hash is computed from the record as it is shown, so a reader of the records can check the chain without trusting the hub.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};

/// Name of the canonical form; another form would have another name.
const FORM: &str = "evenkeel.audit.1";

/// Previous hash of the first record of a chain.
pub const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A write, or a rejected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Organization whose chain holds the record.
    pub org: String,
    /// Consecutive number in that chain.
    pub number: i64,
    /// When the write happened, RFC 3339 in UTC.
    pub time: String,
    /// Login of the caller, `org/id`.
    pub caller: String,
    /// Kind of caller.
    pub role: String,
    /// Address of the client; empty for a request from inside the hub's own process.
    pub address: String,
    /// Id of the request, as in the `X-Request-Id` of the response and in the log.
    pub request: String,
    /// HTTP method.
    pub method: String,
    /// Name of the operation in the API document.
    pub operation: String,
    /// Path of the resource below `/v1`, as in the request.
    pub resource: String,
    /// HTTP status of the response: 2xx done, 403 refused.
    pub status: i16,
    /// SHA-256 of the resource before the write, without secrets; empty when there was none.
    pub before: String,
    /// The same after the write.
    pub after: String,
    /// Hash of the record before this one.
    pub previous: String,
    /// Hash of this record.
    pub hash: String,
}

impl AuditRecord {
    /// The hash that this record must have: SHA-256 over the name of the form and all other members in their order, each preceded by
    /// its length in eight bytes, least significant first.
    #[must_use]
    pub fn computed_hash(&self) -> String {
        let number = self.number.to_string();
        let status = self.status.to_string();
        let mut hasher = Sha256::new();
        for text in [
            FORM,
            &self.org,
            &number,
            &self.time,
            &self.caller,
            &self.role,
            &self.address,
            &self.request,
            &self.method,
            &self.operation,
            &self.resource,
            &status,
            &self.before,
            &self.after,
            &self.previous,
        ] {
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hex(&hasher.finalize())
    }
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A position in a chain, up to which all records were checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainPlace {
    /// Number of the record, 0 before the first one.
    pub number: i64,
    /// Its hash.
    pub hash: String,
}

/// The first violation of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BrokenRecord {
    /// Number of the first record that is invalid or missing.
    pub number: i64,
    /// Description of the problem.
    pub reason: String,
}

/// Verifies a chain, record by record, in the order of their numbers.
#[derive(Debug, Clone)]
pub struct ChainWalk {
    place: ChainPlace,
}

impl ChainWalk {
    /// Starts behind a place.
    #[must_use]
    pub fn after(place: ChainPlace) -> ChainWalk {
        ChainWalk { place }
    }

    /// Position of the walk.
    #[must_use]
    pub fn place(&self) -> &ChainPlace {
        &self.place
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// The record that breaks the chain.
    pub fn step(&mut self, record: &AuditRecord) -> Result<(), BrokenRecord> {
        let wanted = self.place.number.saturating_add(1);
        let broken = |reason: &str| Err(BrokenRecord { number: wanted, reason: reason.to_owned() });
        if record.number != wanted {
            return broken("it is missing");
        }
        if record.previous != self.place.hash {
            return broken("it does not name the hash of the record before it");
        }
        if record.hash != record.computed_hash() {
            return broken("its hash is not that of its content");
        }
        self.place = ChainPlace { number: wanted, hash: record.hash.clone() };
        Ok(())
    }

    /// Compares the end of the walk with the recorded end of the chain.
    ///
    /// # Errors
    /// The record that is missing or was put in the place of another one.
    pub fn finish(&self, end: &ChainPlace) -> Result<(), BrokenRecord> {
        let broken = |number: i64, reason: &str| Err(BrokenRecord { number, reason: reason.to_owned() });
        if self.place.number < end.number {
            return broken(self.place.number.saturating_add(1), "it is missing");
        }
        if self.place != *end {
            return broken(end.number, "it is not the last record that the chain names");
        }
        Ok(())
    }
}

/// Records an action that an agbot carries out for the caller.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PostActionRecord {
    /// UUID of the attempt: a repeated request adds no other record.
    pub action: String,
    /// Name of the operation.
    pub operation: String,
    /// HTTP method of the caller's request.
    pub method: String,
    /// Path of the resource, from `/orgs/` and the organization of the chain on.
    pub resource: String,
    /// Status: 202 before the action is carried out, else that of the refusal.
    pub status: u16,
    /// Id of the caller's request.
    #[serde(default)]
    pub request: String,
}

/// Selection of records to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
pub struct AuditQuery {
    /// Only records with greater numbers.
    #[serde(default)]
    pub after: Option<i64>,
    /// Maximum number of records in one response, 1 to 1000 [default: 100].
    #[serde(default)]
    pub limit: Option<i64>,
    /// Only records of this caller, `org/id`.
    #[serde(default)]
    pub caller: Option<String>,
    /// Only records of resources whose path begins with this text.
    #[serde(default)]
    pub resource: Option<String>,
    /// Only records from this time on, RFC 3339.
    #[serde(default)]
    pub since: Option<String>,
    /// Only records before this time, RFC 3339.
    #[serde(default)]
    pub until: Option<String>,
    /// Descending by number instead of ascending.
    #[serde(default)]
    pub newest_first: Option<bool>,
    /// With `newestFirst`: only records with smaller numbers.
    #[serde(default)]
    pub before: Option<i64>,
    /// With `newestFirst`: leaves out reports of nodes about themselves, such as their status.
    #[serde(default)]
    pub without_reports: Option<bool>,
}

/// Records, ascending by number, or descending if requested.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditResponse {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// `after` of the next page, or `before` when it is descending; absent when this was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

/// From where to check a chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerifyQuery {
    /// Begin after this record, whose own hash is trusted [default: the beginning of the chain].
    #[serde(default)]
    pub after: Option<i64>,
    /// Maximum number of records to check, 1 to 100000 [default: 100000].
    #[serde(default)]
    pub limit: Option<i64>,
}

/// Outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerifyResponse {
    /// True if every checked record is valid.
    pub intact: bool,
    /// Number of valid records that were checked.
    pub checked: i64,
    /// Position at which the check began.
    pub begin: ChainPlace,
    /// The last valid record: store it elsewhere, so that later checks also detect whether the end was cut
    /// off or rewritten.
    pub end: ChainPlace,
    /// `after` of the next check, when the limit ended this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
    /// The first invalid record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<BrokenRecord>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(count: i64) -> Vec<AuditRecord> {
        let mut previous = NO_HASH.to_owned();
        (1..=count)
            .map(|number| {
                let mut record = AuditRecord {
                    org: "o".into(),
                    number,
                    time: "2026-01-01T00:00:00.000001Z".into(),
                    caller: "o/u".into(),
                    role: "user".into(),
                    address: "192.0.2.1".into(),
                    request: "r".into(),
                    method: "PUT".into(),
                    operation: "replace_node".into(),
                    resource: "/orgs/o/nodes/n".into(),
                    status: 201,
                    before: String::new(),
                    after: "ab".into(),
                    previous: previous.clone(),
                    hash: String::new(),
                };
                record.hash = record.computed_hash();
                previous.clone_from(&record.hash);
                record
            })
            .collect()
    }

    fn walk(records: &[AuditRecord], end: &ChainPlace) -> Result<(), BrokenRecord> {
        let mut walk = ChainWalk::after(ChainPlace { number: 0, hash: NO_HASH.to_owned() });
        records.iter().try_for_each(|record| walk.step(record))?;
        walk.finish(end)
    }

    fn end(records: &[AuditRecord]) -> ChainPlace {
        let last = records.last().expect("not empty");
        ChainPlace { number: last.number, hash: last.hash.clone() }
    }

    #[test]
    fn whole_chain_holds() {
        let records = chain(5);
        assert_eq!(walk(&records, &end(&records)), Ok(()));
    }

    #[test]
    fn every_altered_member_is_found_at_its_record() {
        let records = chain(4);
        let alterations: [fn(&mut AuditRecord); 14] = [
            |record| record.org.push('x'),
            |record| record.time.push('x'),
            |record| record.caller = "o/other".into(),
            |record| record.role.push('x'),
            |record| record.address.push('x'),
            |record| record.request.push('x'),
            |record| record.method.push('x'),
            |record| record.operation.push('x'),
            |record| record.resource.push('x'),
            |record| record.status = 403,
            |record| record.before = "ab".into(),
            |record| record.after.clear(),
            |record| record.previous = NO_HASH.to_owned(),
            |record| record.hash.push('x'),
        ];
        for (index, alter) in alterations.iter().enumerate() {
            let mut altered = records.clone();
            alter(&mut altered[2]);
            let broken = walk(&altered, &end(&records)).expect_err("altered");
            assert_eq!(broken.number, 3, "alteration {index}: {broken:?}");
        }
    }

    #[test]
    fn text_that_moves_from_one_member_to_the_next_is_found() {
        let mut records = chain(1);
        let last = end(&records);
        (records[0].operation, records[0].resource) = ("replace_node/".into(), "orgs/o/nodes/n".into());
        assert!(walk(&records, &last).is_err());
    }

    #[test]
    fn missing_and_replaced_records_are_found() {
        let records = chain(4);
        let last = end(&records);
        let without_second: Vec<AuditRecord> =
            records.iter().filter(|record| record.number != 2).cloned().collect();
        assert_eq!(walk(&without_second, &last).expect_err("missing").number, 2);
        assert_eq!(walk(&records[..3], &last).expect_err("cut off").number, 4);
        let mut renewed = records.clone();
        renewed[3].caller = "o/other".into();
        renewed[3].hash = renewed[3].computed_hash();
        assert_eq!(walk(&renewed, &last).expect_err("made anew").number, 4);
    }
}
