//! Saved views, properties and domains of nodes, and problems that a person has to resolve. They are asked for at the agbot's own address.

use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::attention::PutAcknowledgement;
use evenkeel_wire::agbot::domain::FleetDomains;
use evenkeel_wire::agbot::fleet::{FleetNodes, FleetNodesQuery};
use evenkeel_wire::agbot::known_properties::{KnownProperties, KnownPropertiesQuery};
use evenkeel_wire::agbot::saved_view::{PutSavedView, SavedView, SavedViews};
use evenkeel_wire::exchange::utility::ApiResponse;
use serde::Deserialize;

use crate::{Client, ClientError, Path};

/// The problems of an organization as the agbot sent them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct AttentionRecords {
    attention: Vec<RawJson>,
}

impl Client {
    /// A page of the nodes of an organization.
    pub async fn fleet_nodes(&self, org: &str, query: &FleetNodesQuery) -> Result<FleetNodes, ClientError> {
        self.get_existing(Path::org(org, &["agbot", "nodes"]).parameters(query)?).await
    }

    /// The saved views of an organization, by name; none from an agbot without views.
    pub async fn saved_views(&self, org: &str) -> Result<Vec<SavedView>, ClientError> {
        let found: Option<SavedViews> = self.get(Path::org(org, &["agbot", "views"])).await?;
        Ok(found.unwrap_or_default().views)
    }

    /// Saves a selection of nodes under a name.
    pub async fn put_saved_view(
        &self,
        org: &str,
        name: &str,
        view: &PutSavedView,
    ) -> Result<ApiResponse, ClientError> {
        self.put(Path::org(org, &["agbot", "views", name]), view).await
    }

    /// Removes a saved view; false when there is none.
    pub async fn delete_saved_view(&self, org: &str, name: &str) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["agbot", "views", name])).await
    }

    /// The properties of the nodes of an organization; none from an agbot that does not list them.
    pub async fn known_properties(
        &self,
        org: &str,
        query: &KnownPropertiesQuery,
    ) -> Result<KnownProperties, ClientError> {
        let path = Path::org(org, &["agbot", "nodes", "properties"]).parameters(query)?;
        Ok(self.get(path).await?.unwrap_or_default())
    }

    /// The fault domains of an organization; none from an agbot that does not list them.
    pub async fn fleet_domains(&self, org: &str) -> Result<FleetDomains, ClientError> {
        Ok(self.get(Path::org(org, &["agbot", "domains"])).await?.unwrap_or_default())
    }

    /// The problems of an organization that a person has to resolve, as the agbot sent them.
    pub async fn attention_records(&self, org: &str) -> Result<Vec<RawJson>, ClientError> {
        let found: AttentionRecords = self.get_existing(Path::org(org, &["agbot", "overview"])).await?;
        Ok(found.attention)
    }

    /// Acknowledges a problem.
    pub async fn acknowledge(
        &self,
        org: &str,
        matter: &str,
        acknowledgement: &PutAcknowledgement,
    ) -> Result<ApiResponse, ClientError> {
        self.put(Path::org(org, &["agbot", "attention", matter, "acknowledgement"]), acknowledgement).await
    }

    /// Withdraws the acknowledgement of a problem; false when there is none.
    pub async fn withdraw_acknowledgement(&self, org: &str, matter: &str) -> Result<bool, ClientError> {
        self.delete(Path::org(org, &["agbot", "attention", matter, "acknowledgement"])).await
    }
}
