//! Documents that keep revisions: how they are named, read, compared, planned and written.

mod approval;
mod command;
mod difference;
mod kind;
mod planned;
mod stored;
mod text;
mod variations;

pub(crate) use command::FILE;
pub(crate) use difference::Difference;
pub(crate) use kind::{Revisable, RevisableKind};
pub(crate) use planned::{PlannedDocument, difference};
pub(crate) use stored::{
    StoredDocument, names, newest, objection, revision, revisions, stored, time_left, write,
};
pub(crate) use text::{MAX_DOCUMENT, is_same, kept_text, read_document, shown_text};
pub(crate) use variations::variations;
