//! Description of one table of the import: its source query, the checks of its values, its target.

/// The check of a source value, and its written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// An id: not empty, without blanks.
    Id,
    /// Any text; nothing is the empty text.
    Text,
    /// Any text, or nothing.
    OptionalText,
    /// A JSON list; nothing is the empty list.
    List,
    /// A JSON object; nothing is the empty object.
    Object,
    /// A JSON object, or nothing.
    OptionalObject,
    /// An instant; nothing is the epoch.
    Time,
    /// An instant, or nothing.
    OptionalTime,
    /// A truth value, as PostgreSQL writes it.
    Flag,
    /// An integer.
    Whole,
    /// A UUID.
    Uuid,
    /// Argon2id or bcrypt hash of a secret.
    Hash,
    /// A hash, or nothing: the login is disabled.
    OptionalHash,
    /// A hash; nothing is the empty text.
    HashOrEmpty,
    /// A list of texts, as PostgreSQL writes it.
    Texts,
    /// Bytes, as PostgreSQL writes them.
    Bytes,
    /// Must be present; the text names what is missing.
    Present(&'static str),
}

impl Check {
    /// Returns the type of a column with such values.
    #[must_use]
    pub fn sql_type(self) -> &'static str {
        match self {
            Check::List | Check::Object => "json",
            Check::OptionalObject => "jsonb",
            Check::Time | Check::OptionalTime => "timestamptz",
            Check::Flag => "boolean",
            Check::Whole => "bigint",
            Check::Uuid => "uuid",
            Check::Texts => "text[]",
            Check::Bytes => "bytea",
            _ => "text",
        }
    }
}

/// A rule across rows: the condition that violates it, on the row `s`, and its description.
pub type Rule = (&'static str, &'static str);

/// The change feed's description of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Feed {
    /// Visibility class.
    pub category: &'static str,
    /// Kind of the changed resource.
    pub resource: &'static str,
    /// The column with the bare id.
    pub id: &'static str,
    /// SQL expression that is true if every organization may read the row: a column or `false`.
    pub is_public: &'static str,
}

impl Feed {
    /// Describes a resource that only its organization sees.
    pub(super) const fn private(category: &'static str, resource: &'static str, id: &'static str) -> Feed {
        Feed { category, resource, id, is_public: "false" }
    }
}

/// One table.
#[derive(Debug)]
pub struct Table {
    /// Name at the source, for the report.
    pub name: &'static str,
    /// The query at the source: the key for the report first, then a column for each of `columns`.
    pub source: &'static str,
    /// The target table.
    pub target: &'static str,
    /// Columns of the target with their checks. One whose name begins with `staged_` is used by rules only.
    pub columns: &'static [(&'static str, Check)],
    /// Columns of the target's key.
    pub key: &'static [&'static str],
    /// Columns that a later import keeps.
    pub fixed: &'static [&'static str],
    /// Column that decides which of two rows is newer; without one, existing rows stay.
    pub newer_by: Option<&'static str>,
    /// Rules across rows, checked in order.
    pub rules: &'static [Rule],
    /// Its description in the change feed.
    pub feed: Option<Feed>,
}

impl Table {
    /// Defaults of most tables: the newer row wins as a whole, and it is not in the feed.
    pub(super) const USUAL: Table = Table {
        name: "",
        source: "",
        target: "",
        columns: &[],
        key: &[],
        fixed: &[],
        newer_by: Some("updated_at"),
        rules: &[],
        feed: None,
    };
}

pub(super) const NO_OWNER_MESSAGE: &str = "its owner is not there";
pub(super) const NO_ORG: Rule =
    ("NOT EXISTS (SELECT FROM organization AS o WHERE o.org = s.org)", "its organization is not there");
pub(super) const NO_OWNER: Rule = (
    "NOT EXISTS (SELECT FROM account AS a WHERE a.org = s.owner_org AND a.name = s.owner)",
    NO_OWNER_MESSAGE,
);
pub(super) const NO_NODE: Rule =
    ("NOT EXISTS (SELECT FROM node AS n WHERE n.org = s.org AND n.node = s.node)", "its node is not there");
pub(super) const NO_AGBOT_ANYWHERE: Rule = (
    "NOT EXISTS (SELECT FROM agbot AS a WHERE a.org = s.agbot_org AND a.agbot = s.agbot)",
    "its agbot is not there",
);

/// Splits an id in the form `org/id` into organization and bare id.
macro_rules! parts_of {
    ($column:literal) => {
        concat!("split_part(", $column, ", '/', 1), substr(", $column, ", strpos(", $column, ", '/') + 1)")
    };
}

/// Formats an instant of a column without time zone as text.
macro_rules! instant {
    ($column:literal) => {
        concat!("to_char(", $column, ", 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    };
}

pub(super) use {instant, parts_of};
