//! What the import knows of one table: how it is read at the source, what each value must be, where it goes.

/// What a value of the source must be, and how it is written.
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
    /// An instant; nothing is the beginning of time counting.
    Time,
    /// An instant, or nothing.
    OptionalTime,
    /// A truth value, as PostgreSQL writes it.
    Flag,
    /// A whole number.
    Whole,
    /// A UUID.
    Uuid,
    /// Argon2id or bcrypt hash of a secret.
    Hash,
    /// The same, or nothing: nobody can log in with it.
    OptionalHash,
    /// The same, and nothing is the empty text.
    HashOrEmpty,
    /// A list of texts, as PostgreSQL writes it.
    Texts,
    /// Bytes, as PostgreSQL writes them.
    Bytes,
    /// Must be there; the text says what is missing.
    Present(&'static str),
}

impl Check {
    /// The type of a column that holds such values.
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

/// A rule that rows keep together with others: the condition that breaks it, on the row `s`, and the words for it.
pub type Rule = (&'static str, &'static str);

/// How the change feed calls a resource.
#[derive(Debug, Clone, Copy)]
pub struct Feed {
    /// Visibility class.
    pub category: &'static str,
    /// What changed.
    pub resource: &'static str,
    /// The column with the bare id.
    pub id: &'static str,
    /// Whether every organization sees it: a column or `false`.
    pub is_public: &'static str,
}

impl Feed {
    /// A resource that only its organization sees.
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
    /// The table the rows go to.
    pub target: &'static str,
    /// Columns of the target with what their values must be. One whose name begins with `staged_` serves the rules alone.
    pub columns: &'static [(&'static str, Check)],
    /// Columns of the target's key.
    pub key: &'static [&'static str],
    /// Columns that a later import leaves as they are.
    pub fixed: &'static [&'static str],
    /// Column that tells which of two rows is newer; without one, rows that exist stay.
    pub newer_by: Option<&'static str>,
    /// Rules among rows, checked in order.
    pub rules: &'static [Rule],
    /// What the feed calls it.
    pub feed: Option<Feed>,
}

impl Table {
    /// What most tables have in common: the newer row wins as a whole, and the feed does not know it.
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

pub(super) const NO_OWNER_WORDS: &str = "its owner is not there";
pub(super) const NO_ORG: Rule =
    ("NOT EXISTS (SELECT FROM organization AS o WHERE o.org = s.org)", "its organization is not there");
pub(super) const NO_OWNER: Rule =
    ("NOT EXISTS (SELECT FROM account AS a WHERE a.org = s.owner_org AND a.name = s.owner)", NO_OWNER_WORDS);
pub(super) const NO_NODE: Rule =
    ("NOT EXISTS (SELECT FROM node AS n WHERE n.org = s.org AND n.node = s.node)", "its node is not there");
pub(super) const NO_AGBOT_ANYWHERE: Rule = (
    "NOT EXISTS (SELECT FROM agbot AS a WHERE a.org = s.agbot_org AND a.agbot = s.agbot)",
    "its agbot is not there",
);

/// Organization and bare id of an id in the form `org/id`.
macro_rules! parts_of {
    ($column:literal) => {
        concat!("split_part(", $column, ", '/', 1), substr(", $column, ", strpos(", $column, ", '/') + 1)")
    };
}

/// An instant of a column without time zone, as text.
macro_rules! instant {
    ($column:literal) => {
        concat!("to_char(", $column, ", 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    };
}

pub(super) use {instant, parts_of};
