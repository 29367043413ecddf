//! Saved views: selections of nodes under a name, shared by the accounts of an organization.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Longest name of a saved view, in bytes.
pub const LONGEST_VIEW_NAME: usize = 64;

/// Longest description of a saved view, and longest value of a part of its selection other than the constraint, in bytes.
pub const LONGEST_VIEW_TEXT: usize = 256;

/// Most saved views of an organization.
pub const MOST_VIEWS: u32 = 200;

/// Most saved views of one owner in an organization.
pub const MOST_VIEWS_OF_OWNER: u32 = 50;

/// A selection of nodes to be saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PutSavedView {
    /// Purpose of the view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub description: Option<String>,
    /// Only nodes in this state: `up`, `away`, `down` or `never-heard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only nodes with this availability: `active`, `pause` or `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<String>,
    /// Only members of this HA group, without the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub group: Option<String>,
    /// Only nodes whose properties satisfy this constraint, in the language of policies, such as `site == "north"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub filter: Option<String>,
}

/// A saved view.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedView {
    /// Its name.
    #[schema(required = true)]
    pub name: String,
    /// The account that saved it first, `org/user`: it and administrators may change it.
    #[schema(required = true)]
    pub owner: String,
    /// The last change.
    #[schema(required = true)]
    pub last_updated: String,
    /// Purpose of the view.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub description: Option<String>,
    /// Only nodes in this state: `up`, `away`, `down` or `never-heard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only nodes with this availability: `active`, `pause` or `drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability: Option<String>,
    /// Only members of this HA group, without the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub group: Option<String>,
    /// Only nodes whose properties satisfy this constraint, in the language of policies, such as `site == "north"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub filter: Option<String>,
}

/// The saved views of an organization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SavedViews {
    /// The views, by name.
    #[schema(required = true)]
    pub views: Vec<SavedView>,
}

impl SavedView {
    /// Returns the selection with its description.
    #[must_use]
    pub fn selection(&self) -> PutSavedView {
        let Self { description, state, availability, group, filter, .. } = self.clone();
        PutSavedView { description, state, availability, group, filter }
    }
}
