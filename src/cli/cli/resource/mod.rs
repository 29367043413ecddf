//! Operations on all kinds of resources of the exchange: read, list, replace and remove.

pub mod deployment;
pub mod ha_group;
pub mod kinds;
pub mod selection;

use evenkeel_client::{ClientError, Records, Refusal, Resource, Written};
use evenkeel_ids::PolicyId;
use evenkeel_wire::RawJson;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::confirm::confirm;
use crate::constraints;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::orchestration;
use crate::output::{Column, Table, View, print_note};
use crate::shape;

/// A kind of resource of the exchange, as the command line names it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Word for one, such as `deployment policy`.
    pub noun: &'static str,
    /// The kind in the API.
    pub resource: Resource,
    /// Command that lists them.
    pub list_with: &'static str,
    /// Columns of the table besides the name.
    pub columns: &'static [Column<'static>],
}

impl Kind {
    /// Reads one, or all, as the exchange has them.
    ///
    /// # Errors
    /// With status 8 when the named one does not exist.
    pub async fn read(&self, exchange: &Exchange, name: Option<&str>) -> Outcome<Records> {
        match name {
            Some(name) => Ok(vec![self.read_named(exchange, name).await?]),
            None => {
                let doing = format!("reading the list of {}", plural(self.noun));
                let found = exchange.server.client.records(self.resource, &exchange.org);
                let found = exchange.server.call(&doing, found).await?;
                if found.is_none() {
                    require_org(exchange, &exchange.org).await?;
                }
                Ok(found.unwrap_or_default())
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn read_one(&self, exchange: &Exchange, name: &str) -> Outcome<RawJson> {
        self.read_named(exchange, name).await.map(|(_, document)| document)
    }

    async fn read_named(&self, exchange: &Exchange, name: &str) -> Outcome<(String, RawJson)> {
        self.find(exchange, name).await?.ok_or_else(|| self.missing(name))
    }

    /// Returns organization and id of a name; an organization belongs to no organization.
    fn split(&self, exchange: &Exchange, name: &str) -> (String, String) {
        match self.resource {
            Resource::Organization => (name.to_owned(), name.to_owned()),
            _ => exchange.split(name),
        }
    }

    /// Reads one with its qualified name; `None` when it does not exist.
    ///
    /// # Errors
    /// With status 5 when the exchange does not respond.
    pub async fn find(&self, exchange: &Exchange, name: &str) -> Outcome<Option<(String, RawJson)>> {
        let (org, id) = self.split(exchange, name);
        let found = exchange.server.client.record(self.resource, &org, &id);
        exchange.server.call(&format!("reading {} {name}", self.noun), found).await
    }

    /// Fails when the named one does not exist.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn require(&self, exchange: &Exchange, name: &str) -> Outcome {
        self.read_named(exchange, name).await.map(drop)
    }

    /// Shows the names of all, or the details of one or (`is_long`) of all.
    ///
    /// # Errors
    /// See [`Kind::read`].
    pub async fn list(&self, exchange: &Exchange, name: Option<&str>, is_long: bool) -> Outcome<View> {
        let records = self.read(exchange, name).await?;
        Ok(self.view(records, is_long || name.is_some()))
    }

    /// Shows names or details as the existing tool does.
    pub fn view(&self, records: Records, is_long: bool) -> View {
        let map = members_of(records);
        let table = Table::of_map(&map, self.noun, self.columns);
        let json = if is_long { Value::Object(map) } else { map.into_iter().map(|(name, _)| name).collect() };
        View::new(json, table)
    }

    /// Creates one, or replaces it when it exists already (signaled by the status `conflict`).
    ///
    /// # Errors
    /// With status 5 when the exchange refuses both; the reason is that of the first attempt when there is nothing to
    /// replace, because then it was refused for another reason.
    pub async fn put(&self, exchange: &Exchange, name: &str, body: &Value, conflict: StatusCode) -> Outcome {
        self.check(exchange, name, body)?;
        let (org, id) = self.split(exchange, name);
        let server = &exchange.server;
        let doing = format!("creating {} {org}/{id}", self.noun);
        // A resource whose name exists already is replaced instead.
        if server.is_dry_run || shape::check_name(self.noun, &id).is_err() {
            let found = server.client.record(self.resource, &org, &id);
            return match server.call(&doing, found).await? {
                Some(_) => self.replace(exchange, name, body, &doing).await,
                None => self.create(exchange, name, body, &doing).await,
            };
        }
        let written = server.client.create_or_replace_record(self.resource, (&org, &id), body, conflict);
        let done = match written.await {
            Ok(Written::Created) => "created",
            Ok(Written::Replaced) => "replaced",
            Err(Refusal { attempt: Written::Created, error }) => {
                return Err(server.failed(&doing, &error));
            }
            Err(Refusal { attempt: Written::Replaced, error }) => {
                let doing = format!("replacing {} {org}/{id}", self.noun);
                return Err(server.failed(&doing, &error));
            }
        };
        server.report_done(&format!("{} {org}/{id} is {done}", self.noun));
        Ok(())
    }

    /// Creates one; `doing` names the purpose.
    ///
    /// # Errors
    /// With status 5 when the exchange refuses it.
    pub async fn create(&self, exchange: &Exchange, name: &str, body: &Value, doing: &str) -> Outcome {
        self.check(exchange, name, body)?;
        let (org, id) = self.split(exchange, name);
        shape::check_name(self.noun, &id)?;
        let created = exchange.server.client.create_record(self.resource, &org, &id, body);
        exchange.server.call(doing, created).await.map(drop)
    }

    /// Replaces one; `doing` names the purpose.
    ///
    /// # Errors
    /// With status 5 when the exchange refuses it.
    pub async fn replace(&self, exchange: &Exchange, name: &str, body: &Value, doing: &str) -> Outcome {
        self.check(exchange, name, body)?;
        let (org, id) = self.split(exchange, name);
        let replaced = exchange.server.client.replace_record(self.resource, &org, &id, body);
        exchange.server.call(doing, replaced).await.map(drop)
    }

    /// Refuses a name that is a path, a policy with a constraint that cannot be read, or an orchestration that breaks a rule.
    ///
    /// # Errors
    /// With status 1 or 3.
    pub fn check(&self, exchange: &Exchange, name: &str, body: &Value) -> Outcome {
        self.check_name(name)?;
        match self.resource {
            Resource::DeploymentPolicy => {
                constraints::check(body)?;
                let (org, id) = self.split(exchange, name);
                let policy = PolicyId::new(&org, &id);
                orchestration::check(&policy, body)?;
                shape::check_policy(&policy, body)
            }
            Resource::Pattern => shape::check_pattern(name, body),
            Resource::ManagementPolicy => {
                constraints::check(body)?;
                let (org, id) = self.split(exchange, name);
                shape::check_management_policy(&format!("{org}/{id}"), body)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a name with a slash besides the one after the organization, because commands could not refer to such a resource.
    ///
    /// # Errors
    /// With status 1.
    pub fn check_name(&self, name: &str) -> Outcome {
        let id = match self.resource {
            Resource::Organization => name,
            _ => name.split_once('/').map_or(name, |(_, id)| id),
        };
        let is_path = id.contains('/') || name.split('/').any(|part| ["", ".", ".."].contains(&part));
        if !is_path {
            return Ok(());
        }
        Err(CliError::input(
            format!("{} {name} was not written", self.noun),
            "its name is a path",
            "give a name without a slash, or ORG/NAME for one of another organization",
        ))
    }

    /// Changes the members of a document one by one, because the exchange accepts one per request.
    ///
    /// # Errors
    /// With status 1 when there are none, 8 when the resource does not exist.
    pub async fn patch(&self, exchange: &Exchange, name: &str, changes: &Value) -> Outcome {
        let (org, id) = self.split(exchange, name);
        let members = changes.as_object().filter(|members| !members.is_empty()).ok_or_else(|| {
            CliError::input(
                format!("{} {org}/{id} was not changed", self.noun),
                "no attribute is given",
                "give a JSON object with the attributes to change",
            )
        })?;
        if exchange.server.is_dry_run {
            self.require(exchange, name).await?;
        }
        for (member, value) in members {
            let change = json!({ member: value });
            self.check(exchange, name, &change)?;
            self.change_member(exchange, name, member, &change).await?;
        }
        Ok(())
    }

    /// Changes one member of a resource.
    ///
    /// # Errors
    /// With status 8 when the resource does not exist.
    pub async fn change_member(
        &self,
        exchange: &Exchange,
        name: &str,
        member: &str,
        change: &Value,
    ) -> Outcome {
        let (org, id) = self.split(exchange, name);
        let what = self.resource_name(&org, &id);
        let doing = format!("changing {member} of {what}");
        match exchange.server.client.patch_record(self.resource, &org, &id, change).await {
            Ok(_) => {
                exchange.server.report_done(&format!("{member} of {what} is changed"));
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(self.missing(name)),
            Err(error) => Err(exchange.server.failed(&doing, &error)),
        }
    }

    /// Returns noun and name; organizations are in no other organization.
    fn resource_name(&self, org: &str, id: &str) -> String {
        match self.resource {
            Resource::Organization => format!("{} {id}", self.noun),
            _ => format!("{} {org}/{id}", self.noun),
        }
    }

    /// Removes one, after confirmation.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn remove(&self, exchange: &Exchange, name: &str, is_forced: bool) -> Outcome {
        let (org, id) = self.split(exchange, name);
        let question = format!("Remove {} {org}/{id}?", self.noun);
        if exchange.server.is_dry_run {
            self.require(exchange, name).await?;
        }
        self.remove_confirmed(exchange, name, (&question, is_forced)).await
    }

    /// Asks a question and removes one when it is confirmed.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn remove_confirmed(
        &self,
        exchange: &Exchange,
        name: &str,
        (question, is_forced): (&str, bool),
    ) -> Outcome {
        let (org, id) = self.split(exchange, name);
        let removed = exchange.server.client.delete_record(self.resource, &org, &id);
        self.remove_by(exchange, name, (question, is_forced), removed).await
    }

    /// Removes one by another request, which is sent only after confirmation.
    ///
    /// # Errors
    /// With status 8 when it does not exist.
    pub async fn remove_by(
        &self,
        exchange: &Exchange,
        name: &str,
        (question, is_forced): (&str, bool),
        removed: impl Future<Output = Result<bool, ClientError>>,
    ) -> Outcome {
        if !confirm(question, is_forced || exchange.server.is_dry_run)? {
            print_note("nothing was removed");
            return Ok(());
        }
        let (org, id) = self.split(exchange, name);
        let what = self.resource_name(&org, &id);
        if !exchange.server.call(&format!("removing {what}"), removed).await? {
            return Err(self.missing(name));
        }
        exchange.server.report_done(&format!("{what} is removed"));
        Ok(())
    }

    /// The failure for one that does not exist.
    pub fn missing(&self, name: &str) -> CliError {
        CliError::not_found(self.noun, name, self.list_with)
    }
}

fn plural(noun: &str) -> String {
    noun.strip_suffix('y').map_or_else(|| format!("{noun}s"), |stem| format!("{stem}ies"))
}

/// Documents by name, for display.
pub fn members_of(records: Records) -> Map<String, Value> {
    records.into_iter().map(|(name, document)| (name, document.into_value())).collect()
}

/// Names in arguments that select entries of a list, each with its kind.
pub type Selectors<'a> = [(&'a Kind, Option<&'a str>)];

/// Fails when one of the names does not exist; called when they selected nothing.
///
/// # Errors
/// With status 8 for the first name that does not exist.
pub async fn require_selectors(exchange: &Exchange, selectors: &Selectors<'_>) -> Outcome {
    for (kind, name) in selectors {
        if let Some(name) = name {
            kind.require(exchange, name).await?;
        }
    }
    require_org(exchange, &exchange.org).await
}

/// Returns a view without entries only when everything that selected them exists.
///
/// # Errors
/// With status 8 for a name that does not exist.
pub async fn require_if_empty(view: View, exchange: &Exchange, selectors: &Selectors<'_>) -> Outcome<View> {
    if view.table.rows.is_empty() {
        require_selectors(exchange, selectors).await?;
    }
    Ok(view)
}

/// Fails if an organization does not exist.
///
/// # Errors
/// With status 8 when it does not exist, 5 without a response. An organization that the caller may not read counts as existing.
pub async fn require_org(exchange: &Exchange, org: &str) -> Outcome {
    match exchange.server.client.record(Resource::Organization, org, org).await {
        Ok(Some(_)) | Err(ClientError::Status { .. } | ClientError::Decode(_)) => Ok(()),
        Ok(None) => Err(CliError::not_found("organization", org, "hzn exchange org list")),
        Err(error) => Err(exchange.server.failed(&format!("reading organization {org}"), &error)),
    }
}

/// A part of a resource, such as the policy of a node.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Kind of the resource that it belongs to.
    pub kind: &'a Kind,
    /// Name of the resource.
    pub owner: &'a str,
    /// Noun for the resource, such as `policy`.
    pub noun: &'a str,
}

impl Part<'_> {
    /// Awaits the call that reads the part; `None` when the resource has none.
    ///
    /// # Errors
    /// With status 8 when the resource does not exist.
    pub async fn find<T>(
        &self,
        exchange: &Exchange,
        call: impl Future<Output = Result<Option<T>, ClientError>>,
    ) -> Outcome<Option<T>> {
        let found = exchange.server.call(&format!("reading {}", self.what()), call).await?;
        if found.is_none() {
            self.kind.require(exchange, self.owner).await?;
        }
        Ok(found)
    }

    /// Shows the part; an absent one as an empty object, as the existing tool does.
    ///
    /// # Errors
    /// See [`Part::find`].
    pub async fn show(
        &self,
        context: &Context,
        exchange: &Exchange,
        call: impl Future<Output = Result<Option<RawJson>, ClientError>>,
    ) -> Outcome {
        let found = self.find(exchange, call).await?;
        context.screen.show(&View::of(found.map_or_else(|| json!({}), RawJson::into_value)))
    }

    /// Awaits the call that removes the part, after confirmation; an absent one counts as removed.
    ///
    /// # Errors
    /// With status 8 when the resource does not exist.
    pub async fn remove(
        &self,
        exchange: &Exchange,
        is_forced: bool,
        call: impl Future<Output = Result<bool, ClientError>>,
    ) -> Outcome {
        if !self.delete(exchange, is_forced, call).await? {
            self.kind.require(exchange, self.owner).await?;
            print_note(format!("{} was not there", self.what()));
        }
        Ok(())
    }

    /// Awaits the call that removes a part that is chosen by a name.
    ///
    /// # Errors
    /// With status 8 when resource or part do not exist; `list_with` is the command that lists the parts.
    pub async fn remove_named(
        &self,
        exchange: &Exchange,
        list_with: &str,
        call: impl Future<Output = Result<bool, ClientError>>,
    ) -> Outcome {
        if !self.delete(exchange, true, call).await? {
            self.kind.require(exchange, self.owner).await?;
            let (noun, name) = self.noun.split_once(' ').unwrap_or((self.noun, ""));
            return Err(CliError::not_found(noun, name, list_with));
        }
        Ok(())
    }

    async fn delete(
        &self,
        exchange: &Exchange,
        is_forced: bool,
        call: impl Future<Output = Result<bool, ClientError>>,
    ) -> Outcome<bool> {
        let what = self.what();
        if !confirm(&format!("Remove {what}?"), is_forced || exchange.server.is_dry_run)? {
            print_note("nothing was removed");
            return Ok(true);
        }
        let was_there = exchange.server.call(&format!("removing {what}"), call).await?;
        if was_there {
            exchange.server.report_done(&format!("{what} is removed"));
        }
        Ok(was_there)
    }

    fn what(&self) -> String {
        format!("{} of {} {}", self.noun, self.kind.noun, self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind =
        Kind { noun: "thing", resource: Resource::Node, list_with: "x", columns: &[("size", "size")] };

    #[test]
    fn short_lists_hold_names_and_long_ones_everything() {
        let records: Records = vec![
            ("o/a".to_owned(), json!({"size": 1}).into()),
            ("o/b".to_owned(), json!({"size": 2}).into()),
        ];
        assert_eq!(KIND.view(records.clone(), false).json, json!(["o/a", "o/b"]));
        let long = KIND.view(records, true);
        assert_eq!(long.json["o/b"], json!({"size": 2}));
        assert_eq!(long.table.rows, [["o/a", "1"], ["o/b", "2"]]);
        assert_eq!(KIND.view(Records::new(), false).json, json!([]));
    }
}
