//! Properties of a node, a service or a policy, and the names of the built-in ones.
//!
//! Source: agreement-protocol 3.3.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::version;

/// Names of the built-in properties.
pub mod builtin {
    /// Number of CPUs of the node (number).
    pub const CPU: &str = "openhorizon.cpu";
    /// Memory of the node (number, MB).
    pub const MEMORY: &str = "openhorizon.memory";
    /// Hardware architecture of the node (string, in Go's names: `amd64`, `arm64`, …).
    pub const ARCH: &str = "openhorizon.arch";
    /// Serial number of the machine, or a random one (string, devices only).
    pub const HARDWARE_ID: &str = "openhorizon.hardwareId";
    /// On a node: whether privileged services may run here; on a service: whether it needs that (boolean, may be set by the user).
    pub const ALLOW_PRIVILEGED: &str = "openhorizon.allowPrivileged";
    /// Version of the cluster's control plane (string, clusters only).
    pub const KUBERNETES_VERSION: &str = "openhorizon.kubernetesVersion";
    /// Namespace of the cluster agent (string, clusters only).
    pub const KUBERNETES_NAMESPACE: &str = "openhorizon.kubernetesNamespace";
    /// True if the cluster agent is confined to its namespace (boolean, clusters only).
    pub const KUBERNETES_NAMESPACE_SCOPED: &str = "openhorizon.kubernetesNamespaceScoped";
    /// Operating system of the node (string, empty when not recognized).
    pub const OPERATING_SYSTEM: &str = "openhorizon.operatingSystem";
    /// True if the agent runs in a container (boolean).
    pub const CONTAINERIZED: &str = "openhorizon.containerized";

    /// Name of the HA group that the node belongs to (string); absent when it belongs to none.
    ///
    /// The hub derives it from the group membership whenever it evaluates constraints against a node and never takes it from a
    /// node's policy, so that no node can claim a membership. It lets a constraint require a group by name
    /// (`openhorizon.hagroup == line-3`), one of several (`openhorizon.hagroup in "line-3,line-4"`) or any group
    /// (`openhorizon.hagroup != none`, true in every group, because `none` is no group's name by convention and a missing
    /// property fails every operator). The reference has no such property.
    pub const HA_GROUP: &str = "openhorizon.hagroup";

    /// Name of the service (string).
    pub const SERVICE_URL: &str = "openhorizon.service.url";
    /// Name of the service, repeated (string).
    pub const SERVICE_NAME: &str = "openhorizon.service.name";
    /// Organization of the service (string).
    pub const SERVICE_ORG: &str = "openhorizon.service.org";
    /// Version of the service (string).
    pub const SERVICE_VERSION: &str = "openhorizon.service.version";
    /// Hardware architecture the service runs on (string).
    pub const SERVICE_ARCH: &str = "openhorizon.service.arch";

    /// Returns whether a property is one that an agent reports of its node.
    ///
    /// [`HA_GROUP`] is none of them: it comes from the hub.
    pub fn is_node_property(name: &str) -> bool {
        matches!(
            name,
            CPU | MEMORY
                | ARCH
                | HARDWARE_ID
                | ALLOW_PRIVILEGED
                | KUBERNETES_VERSION
                | KUBERNETES_NAMESPACE
                | KUBERNETES_NAMESPACE_SCOPED
                | OPERATING_SYSTEM
                | CONTAINERIZED
        )
    }

    /// Returns whether an agent overwrites this property of its node.
    pub fn is_read_only(name: &str) -> bool {
        is_node_property(name) && name != ALLOW_PRIVILEGED
    }
}

/// Maximum number of properties of one policy.
pub const MAX_COUNT: usize = 1_000;

/// The reason why a property, or a list of them, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// The name is empty or the value is missing.
    #[error("property \"{name}\" needs a name and a value")]
    Incomplete { name: String },
    /// The declared type is unknown.
    #[error(
        "property \"{name}\" has type \"{declared}\", which is none of: version, string, int, boolean, float, list of strings"
    )]
    UnknownType { name: String, declared: String },
    /// The value is not of the declared type, or of no type a property can have (an object, a list).
    #[error("property \"{name}\" of type \"{declared}\" cannot have the value {value}")]
    WrongValue { name: String, declared: String, value: String },
    /// The property that allows privileged services is neither boolean nor "true" nor "false".
    #[error("property \"{name}\" must be true or false")]
    NotABoolean { name: String },
    /// The list is longer than allowed.
    #[error("{count} properties are more than the {MAX_COUNT} allowed")]
    TooMany { count: usize },
    /// The list has another property of that name.
    #[error("property \"{name}\" is already there")]
    Duplicate { name: String },
}

/// The declared type of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum PropertyType {
    /// Nothing declared.
    #[default]
    Undeclared,
    /// Text.
    String,
    /// A version without pre-release.
    Version,
    /// True or false.
    Boolean,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// Text that holds several values, separated by commas.
    ListOfStrings,
    /// Any other type: kept, but refused by validation.
    Unknown(String),
}

impl PropertyType {
    /// Returns the wire's spelling, empty for [`PropertyType::Undeclared`].
    pub fn as_str(&self) -> &str {
        match self {
            Self::Undeclared => "",
            Self::String => "string",
            Self::Version => "version",
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Float => "float",
            Self::ListOfStrings => "list of strings",
            Self::Unknown(word) => word,
        }
    }

    /// Returns whether nothing is declared.
    pub fn is_undeclared(&self) -> bool {
        *self == Self::Undeclared
    }
}

impl From<&str> for PropertyType {
    fn from(word: &str) -> Self {
        match word {
            "" => Self::Undeclared,
            "string" => Self::String,
            "version" => Self::Version,
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "float" => Self::Float,
            "list of strings" => Self::ListOfStrings,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl Serialize for PropertyType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PropertyType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.as_deref().unwrap_or_default().into())
    }
}

/// A property of a node, a service or a policy.
///
/// # Shape
/// As on the wire `{"name","value","type"}`, `type` absent when undeclared. Reading accepts what validation refuses: a missing
/// value becomes null.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Property {
    /// The name that constraints use.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// The value: boolean, number or string.
    #[serde(default)]
    pub value: Value,
    /// The declared type of the value.
    #[serde(rename = "type", default, skip_serializing_if = "PropertyType::is_undeclared")]
    pub declared: PropertyType,
}

impl Property {
    /// Creates a property without a declared type.
    pub fn new(name: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { name: name.into(), value: value.into(), declared: PropertyType::Undeclared }
    }

    /// Creates a property with a declared type.
    pub fn typed(name: impl Into<String>, value: impl Into<Value>, declared: PropertyType) -> Self {
        Self { name: name.into(), value: value.into(), declared }
    }

    /// Returns whether two properties are equal: same name, types equal or one undeclared, same kind of value and equal
    /// values; the order of a list does not matter.
    pub fn is_same(&self, other: &Self) -> bool {
        let types_agree = self.declared == other.declared
            || self.declared.is_undeclared()
            || other.declared.is_undeclared();
        if self.name != other.name || !types_agree {
            return false;
        }
        match (&self.value, &other.value) {
            (Value::String(left), Value::String(right)) => {
                let is_list = self.declared == PropertyType::ListOfStrings
                    || other.declared == PropertyType::ListOfStrings;
                left == right || (is_list && is_same_set(left, right))
            }
            (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
            (Value::Bool(left), Value::Bool(right)) => left == right,
            _ => false,
        }
    }

    /// Tests the property by itself.
    ///
    /// # Errors
    /// [`PropertyError::Incomplete`], [`PropertyError::UnknownType`] or [`PropertyError::WrongValue`].
    pub fn validate(&self) -> Result<(), PropertyError> {
        if self.name.is_empty() || self.value.is_null() {
            return Err(PropertyError::Incomplete { name: self.name.clone() });
        }
        if let PropertyType::Unknown(declared) = &self.declared {
            return Err(PropertyError::UnknownType { name: self.name.clone(), declared: declared.clone() });
        }
        if self.has_value_of_declared_type() {
            return Ok(());
        }
        Err(PropertyError::WrongValue {
            name: self.name.clone(),
            declared: self.declared.as_str().to_owned(),
            value: self.value.to_string(),
        })
    }

    fn has_value_of_declared_type(&self) -> bool {
        use PropertyType as T;
        match &self.value {
            Value::Bool(_) => matches!(self.declared, T::Undeclared | T::Boolean),
            Value::Number(number) => match self.declared {
                T::Undeclared | T::Float => true,
                T::Int => number.as_f64().is_some_and(is_whole_64_bit_number),
                _ => false,
            },
            Value::String(text) => match self.declared {
                T::Undeclared | T::String | T::ListOfStrings => true,
                T::Version => version::is_property_version(text),
                _ => false,
            },
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

/// The bounds are powers of two and therefore exact.
fn is_whole_64_bit_number(number: f64) -> bool {
    number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number)
}

fn is_same_set(left: &str, right: &str) -> bool {
    let holds_all =
        |whole: &str, part: &str| part.split(',').all(|one| whole.split(',').any(|other| other == one));
    holds_all(left, right) && holds_all(right, left)
}

/// Properties in the order in which they were given.
///
/// # Shape
/// Names may repeat in what was read; then the first one counts. JSON null reads as the empty list.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct PropertyList(Vec<Property>);

impl PropertyList {
    /// Creates the empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the property of that name, the first one if there are several.
    pub fn get(&self, name: &str) -> Option<&Property> {
        self.0.iter().find(|property| property.name == name)
    }

    /// Returns whether there is a property of that name.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Validates every property; duplicate names are allowed, as in the reference.
    ///
    /// # Errors
    /// [`PropertyError::TooMany`], or the error of [`Property::validate`] for the first invalid one.
    pub fn validate(&self) -> Result<(), PropertyError> {
        if self.len() > MAX_COUNT {
            return Err(PropertyError::TooMany { count: self.len() });
        }
        self.0.iter().try_for_each(Property::validate)
    }

    /// Appends a property whose name is new.
    ///
    /// # Errors
    /// [`PropertyError::Duplicate`], or the error of [`Property::validate`]; then the list is unchanged.
    pub fn add(&mut self, property: Property) -> Result<(), PropertyError> {
        property.validate()?;
        if self.has(&property.name) {
            return Err(PropertyError::Duplicate { name: property.name });
        }
        self.0.push(property);
        Ok(())
    }

    /// Replaces the first property of that name, or appends it.
    ///
    /// # Errors
    /// The error of [`Property::validate`]; then the list is unchanged.
    pub fn replace(&mut self, property: Property) -> Result<(), PropertyError> {
        property.validate()?;
        match self.0.iter_mut().find(|existing| existing.name == property.name) {
            Some(existing) => *existing = property,
            None => self.0.push(property),
        }
        Ok(())
    }

    /// Removes every property of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|property| property.name != name);
    }

    /// Adds the properties of another list; for an existing name `replaces` decides which one stays. Invalid ones are left out, as
    /// in the reference.
    pub fn merge(&mut self, addition: &Self, replaces: bool) {
        // A map, because neither list need have been validated, so both may be long.
        let mut positions = BTreeMap::new();
        for (position, property) in self.0.iter().enumerate() {
            positions.entry(property.name.clone()).or_insert(position);
        }
        for property in addition.0.iter().filter(|property| property.validate().is_ok()) {
            match positions.get(&property.name) {
                Some(position) if replaces => self.0[*position] = property.clone(),
                Some(_) => {}
                None => {
                    positions.insert(property.name.clone(), self.0.len());
                    self.0.push(property.clone());
                }
            }
        }
    }

    /// Returns whether two lists of one length are equal, in any order.
    pub fn is_same(&self, other: &Self) -> bool {
        let others = other.by_name();
        let has_counterpart = |one: &Property| {
            others.get(one.name.as_str()).is_some_and(|named| named.iter().any(|two| one.is_same(two)))
        };
        self.0.len() == other.0.len() && self.0.iter().all(has_counterpart)
    }

    fn by_name(&self) -> BTreeMap<&str, Vec<&Property>> {
        let mut named: BTreeMap<&str, Vec<&Property>> = BTreeMap::new();
        for property in &self.0 {
            named.entry(&property.name).or_default().push(property);
        }
        named
    }

    /// Returns the name of a property that has different values in the two lists.
    ///
    /// With `ignores_capacity` the memory and the number of CPUs may differ, because they change over time.
    /// # Source
    /// Agreement-protocol 2.6 (step 11).
    pub fn conflict_with(&self, other: &Self, ignores_capacity: bool) -> Option<&str> {
        let is_exempt = |name: &str| ignores_capacity && matches!(name, builtin::CPU | builtin::MEMORY);
        let others = other.by_name();
        let mut differing = self.0.iter().filter(|one| {
            let named = others.get(one.name.as_str());
            !is_exempt(&one.name) && named.is_some_and(|named| named.iter().any(|two| !one.is_same(two)))
        });
        differing.next().map(|property| property.name.as_str())
    }

    /// Converts the texts "true" and "false" of the property that allows privileged services into booleans.
    ///
    /// # Errors
    /// [`PropertyError::NotABoolean`] when it is anything else.
    pub fn normalize_allow_privileged(&mut self) -> Result<(), PropertyError> {
        let name = builtin::ALLOW_PRIVILEGED;
        let allowed = match self.get(name).map(|property| &property.value) {
            None | Some(Value::Bool(_)) => return Ok(()),
            Some(Value::String(word)) if word == "true" => true,
            Some(Value::String(word)) if word == "false" => false,
            Some(_) => return Err(PropertyError::NotABoolean { name: name.to_owned() }),
        };
        self.replace(Property::new(name, allowed))
    }

    /// Returns whether privileged services are allowed: the boolean value of that property, else no.
    pub fn allows_privileged(&self) -> bool {
        self.get(builtin::ALLOW_PRIVILEGED).and_then(|property| property.value.as_bool()).unwrap_or(false)
    }

    /// Sets or removes the property that names the HA group.
    pub fn set_ha_group(&mut self, group: Option<&str>) {
        self.remove(builtin::HA_GROUP);
        self.0.extend(group.map(|name| Property::new(builtin::HA_GROUP, name)));
    }
}

impl Deref for PropertyList {
    type Target = [Property];

    fn deref(&self) -> &[Property] {
        &self.0
    }
}

impl From<Vec<Property>> for PropertyList {
    fn from(properties: Vec<Property>) -> Self {
        Self(properties)
    }
}

impl FromIterator<Property> for PropertyList {
    fn from_iter<I: IntoIterator<Item = Property>>(properties: I) -> Self {
        Self(properties.into_iter().collect())
    }
}

impl<'de> Deserialize<'de> for PropertyList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        null_as_default(deserializer).map(Self)
    }
}

/// Reads JSON null as the default value, as the reference does for every field.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
