//! What the nouns of the exchange have in common: reading maps by name, listing them, replacing and removing.

use evenkeel_client::{Path, Refusal, Written};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::api::is_success;
use crate::confirm::confirm;
use crate::constraints;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Column, Table, View, note};

/// A kind of resource that the exchange keeps in maps by `org/name`.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Word for one, such as `deployment policy`.
    pub noun: &'static str,
    /// Path below the organization.
    pub path: &'static [&'static str],
    /// Member of the answer that holds the map.
    pub member: &'static str,
    /// Command that lists them.
    pub list_with: &'static str,
    /// Columns of the table besides the name.
    pub columns: &'static [Column<'static>],
}

impl Kind {
    /// The path of one, or of all.
    pub fn path_of(&self, org: &str, name: Option<&str>) -> Path {
        let path = Path::org(org, self.path);
        name.into_iter().fold(path, |path, name| path.push(name))
    }

    /// Reads one, or all, as the exchange has them.
    ///
    /// # Errors
    /// With status 8 when one is asked for that is not there.
    pub async fn read(&self, exchange: &Exchange, name: Option<&str>) -> Outcome<Map<String, Value>> {
        let (org, id) = match name {
            Some(name) => exchange.split(name),
            None => (exchange.org.clone(), String::new()),
        };
        let id = name.map(|_| id.as_str());
        let doing = match name {
            Some(name) => format!("reading {} {name}", self.noun),
            None => format!("reading the list of {} items", self.noun),
        };
        let answer = exchange.api.find(&doing, &self.path_of(&org, id)).await?;
        if answer.is_none() && name.is_none() {
            require_org(exchange, &org).await?;
        }
        let found = answer.and_then(|mut answer| match answer.get_mut(self.member).map(Value::take) {
            Some(Value::Object(map)) => Some(map),
            _ => None,
        });
        match (found, name) {
            (Some(map), Some(name)) if map.is_empty() => Err(self.missing(name)),
            (None, Some(name)) => Err(self.missing(name)),
            (found, _) => Ok(found.unwrap_or_default()),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// With status 8 when it is not there.
    pub async fn read_one(&self, exchange: &Exchange, name: &str) -> Outcome<Value> {
        let map = self.read(exchange, Some(name)).await?;
        map.into_iter().next().map(|(_, value)| value).ok_or_else(|| self.missing(name))
    }

    /// Fails when the named one does not exist.
    ///
    /// # Errors
    /// With status 8 when it is not there.
    pub async fn require(&self, exchange: &Exchange, name: &str) -> Outcome {
        let (org, id) = exchange.split(name);
        let doing = format!("reading {} {name}", self.noun);
        let found = exchange.api.find(&doing, &self.path_of(&org, Some(&id))).await?;
        found.map(|_| ()).ok_or_else(|| self.missing(name))
    }

    /// Names of all, or everything about one or (`is_long`) about all.
    ///
    /// # Errors
    /// As [`Kind::read`].
    pub async fn list(&self, exchange: &Exchange, name: Option<&str>, is_long: bool) -> Outcome<View> {
        let map = self.read(exchange, name).await?;
        Ok(self.view(map, is_long || name.is_some()))
    }

    /// Names, or everything, as the existing tool shows them.
    pub fn view(&self, map: Map<String, Value>, is_long: bool) -> View {
        let table = Table::of_map(&map, self.noun, self.columns);
        let json = if is_long { Value::Object(map) } else { map.into_iter().map(|(name, _)| name).collect() };
        View::new(json, table)
    }

    /// Creates one, or replaces it when it is there already (`conflict` is the status that says so).
    ///
    /// # Errors
    /// With status 5 when the exchange refuses both; the reason is that of the first attempt when there is nothing to
    /// replace, because then it was refused for another reason.
    pub async fn put(&self, exchange: &Exchange, name: &str, body: &Value, conflict: StatusCode) -> Outcome {
        let (org, id) = exchange.split(name);
        let path = self.path_of(&org, Some(&id));
        let doing = format!("creating {} {org}/{id}", self.noun);
        if exchange.api.is_dry_run {
            let is_there = exchange.api.find(&doing, &path).await?.is_some();
            let method = if is_there { Method::PUT } else { Method::POST };
            exchange.api.attempt(&doing, method, &path, Some(body)).await?;
            return Ok(());
        }
        constraints::check(path.shown(), body.to_string().as_bytes())?;
        let done = match exchange.api.client.create_or_replace(path, body, conflict).await {
            Ok(Written::Created) => "created",
            Ok(Written::Replaced) => "replaced",
            Err(Refusal { attempt: Written::Created, error }) => {
                return Err(exchange.api.failed(&doing, &error));
            }
            Err(Refusal { attempt: Written::Replaced, error }) => {
                let doing = format!("replacing {} {org}/{id}", self.noun);
                return Err(exchange.api.failed(&doing, &error));
            }
        };
        exchange.api.report_done(&format!("{} {org}/{id} is {done}", self.noun));
        Ok(())
    }

    /// Changes the members of a document one by one, as the exchange takes them.
    ///
    /// # Errors
    /// With status 1 when there are none, 8 when the resource is not there.
    pub async fn patch(&self, exchange: &Exchange, name: &str, changes: &Value) -> Outcome {
        let (org, id) = exchange.split(name);
        let members = changes.as_object().filter(|members| !members.is_empty()).ok_or_else(|| {
            CliError::input(
                format!("{} {org}/{id} was not changed", self.noun),
                "no attribute is given",
                "give a JSON object with the attributes to change",
            )
        })?;
        if exchange.api.is_dry_run {
            self.require(exchange, name).await?;
        }
        for (member, value) in members {
            let doing = format!("changing {member} of {} {org}/{id}", self.noun);
            let path = self.path_of(&org, Some(&id));
            let answer =
                exchange.api.attempt(&doing, Method::PATCH, &path, Some(&json!({ member: value }))).await?;
            match answer.status.as_u16() {
                404 => return Err(self.missing(name)),
                _ if is_success(answer.status) => {
                    exchange.api.report_done(&format!("{member} of {} {org}/{id} is changed", self.noun))
                }
                _ => return Err(exchange.api.failed(&doing, &answer.unexpected())),
            }
        }
        Ok(())
    }

    /// Removes one, after asking.
    ///
    /// # Errors
    /// With status 8 when it is not there.
    pub async fn remove(&self, exchange: &Exchange, name: &str, is_forced: bool) -> Outcome {
        let (org, id) = exchange.split(name);
        let question = format!("Remove {} {org}/{id}?", self.noun);
        if exchange.api.is_dry_run {
            self.require(exchange, name).await?;
        }
        if !confirm(&question, is_forced || exchange.api.is_dry_run)? {
            note("nothing was removed");
            return Ok(());
        }
        let doing = format!("removing {} {org}/{id}", self.noun);
        if !exchange.api.delete(&doing, &self.path_of(&org, Some(&id))).await? {
            return Err(self.missing(name));
        }
        exchange.api.report_done(&format!("{} {org}/{id} is removed", self.noun));
        Ok(())
    }

    /// The failure for one that is not there.
    pub fn missing(&self, name: &str) -> CliError {
        CliError::not_found(self.noun, name, self.list_with)
    }
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

/// Fails when an organization does not exist.
///
/// # Errors
/// With status 8 when it is not there; one that the caller may not read counts as there.
pub async fn require_org(exchange: &Exchange, org: &str) -> Outcome {
    let doing = format!("reading organization {org}");
    let answer = exchange.api.attempt(&doing, Method::GET, &Path::org(org, &[]), None).await?;
    match answer.status.as_u16() {
        404 => Err(CliError::not_found("organization", org, "hzn exchange org list")),
        _ => Ok(()),
    }
}

/// A part of a resource, such as the policy of a node.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Kind of the resource that it belongs to.
    pub kind: &'a Kind,
    /// Name of the resource.
    pub owner: &'a str,
    /// What it is, such as `policy`.
    pub noun: &'a str,
    /// Path of the part.
    pub path: &'a Path,
}

impl Part<'_> {
    /// Reads the part; `None` when the resource has none.
    ///
    /// # Errors
    /// With status 8 when the resource does not exist.
    pub async fn find(&self, exchange: &Exchange) -> Outcome<Option<Value>> {
        let found = exchange.api.find(&format!("reading {}", self.what()), self.path).await?;
        if found.is_none() {
            self.kind.require(exchange, self.owner).await?;
        }
        Ok(found)
    }

    /// Shows the part; an absent one as an empty object, as the existing tool does.
    ///
    /// # Errors
    /// As [`Part::find`].
    pub async fn show(&self, context: &Context, exchange: &Exchange) -> Outcome {
        let found = self.find(exchange).await?.unwrap_or_else(|| json!({}));
        context.screen.show(&View::of(found))
    }

    /// Removes the part after asking; an absent one counts as removed.
    ///
    /// # Errors
    /// With status 8 when the resource does not exist.
    pub async fn remove(&self, exchange: &Exchange, is_forced: bool) -> Outcome {
        if !self.delete(exchange, is_forced).await? {
            self.kind.require(exchange, self.owner).await?;
            note(format!("{} was not there", self.what()));
        }
        Ok(())
    }

    /// Removes a part that is chosen by a name.
    ///
    /// # Errors
    /// With status 8 when resource or part do not exist; `list_with` is the command that lists the parts.
    pub async fn remove_named(&self, exchange: &Exchange, list_with: &str) -> Outcome {
        if !self.delete(exchange, true).await? {
            self.kind.require(exchange, self.owner).await?;
            let (noun, name) = self.noun.split_once(' ').unwrap_or((self.noun, ""));
            return Err(CliError::not_found(noun, name, list_with));
        }
        Ok(())
    }

    async fn delete(&self, exchange: &Exchange, is_forced: bool) -> Outcome<bool> {
        let what = self.what();
        if !confirm(&format!("Remove {what}?"), is_forced || exchange.api.is_dry_run)? {
            note("nothing was removed");
            return Ok(true);
        }
        let was_there = exchange.api.delete(&format!("removing {what}"), self.path).await?;
        if was_there {
            exchange.api.report_done(&format!("{what} is removed"));
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

    const KIND: Kind = Kind {
        noun: "thing",
        path: &["a", "things"],
        member: "things",
        list_with: "x",
        columns: &[("size", "size")],
    };

    #[test]
    fn short_lists_hold_names_and_long_ones_everything() {
        let map = json!({"o/a": {"size": 1}, "o/b": {"size": 2}});
        let map = map.as_object().expect("a map");
        assert_eq!(KIND.view(map.clone(), false).json, json!(["o/a", "o/b"]));
        let long = KIND.view(map.clone(), true);
        assert_eq!(long.json["o/b"], json!({"size": 2}));
        assert_eq!(long.table.rows, [["o/a", "1"], ["o/b", "2"]]);
        assert_eq!(KIND.view(Map::new(), false).json, json!([]));
    }

    #[test]
    fn paths_are_below_the_organization() {
        assert_eq!(KIND.path_of("o", Some("x/y")).shown(), "/orgs/o/a/things/x%2Fy");
        assert_eq!(KIND.path_of("o", None).shown(), "/orgs/o/a/things");
    }
}
