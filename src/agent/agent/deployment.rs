//! The deployment text of a service: what a driver starts (agreement protocol 4.1).
//!
//! The text stays exactly as it was signed; this module only reads it. Besides the form for container engines
//! (`image`) there is one for the process driver, `docs/reference/agent.md`:
//!
//! ```json
//! {"services":{"web":{"command":["/usr/bin/web","--fast"],"environment":["MODE=prod"],
//!                     "working_directory":"/srv/web","user":"web"}}}
//! ```

use std::collections::BTreeMap;

use evenkeel_domain::policy::reference_json;
use serde::{Deserialize, Deserializer};

/// The error of an invalid deployment text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentError {
    /// It is not the JSON of a deployment.
    #[error("the deployment cannot be read: {0}")]
    Unreadable(String),
    /// It contains nothing to run.
    #[error("the deployment names no service")]
    Empty,
    /// A name is invalid for files and containers.
    #[error("\"{0}\" is not a usable name for a container or process")]
    Name(String),
}

/// Containers or processes by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deployment {
    /// Containers or processes, in order of name.
    pub services: BTreeMap<String, Container>,
}

/// One container or process.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Image; empty for processes.
    #[serde(deserialize_with = "or_default")]
    pub image: String,
    /// Arguments of the image's entry point, or the complete command line of a process.
    #[serde(deserialize_with = "or_default")]
    pub command: CommandLine,
    /// Replaces the image's entry point.
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: CommandLine,
    /// `NAME=value` pairs.
    #[serde(deserialize_with = "or_default")]
    pub environment: Vec<String>,
    /// Working directory of a process.
    #[serde(deserialize_with = "or_default")]
    pub working_directory: String,
    /// User to run as.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// True if the container is privileged.
    #[serde(deserialize_with = "or_default")]
    pub privileged: bool,
    /// `host`, or empty for a private network.
    #[serde(deserialize_with = "or_default")]
    pub network: String,
    /// Binds and volumes.
    #[serde(deserialize_with = "or_default")]
    pub binds: Vec<String>,
    /// Memory file systems by path.
    #[serde(deserialize_with = "or_default")]
    pub tmpfs: BTreeMap<String, String>,
    /// Published ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
    /// Ports published under a random number.
    #[serde(deserialize_with = "or_default")]
    pub ephemeral_ports: Vec<EphemeralPort>,
    /// Devices, `host[:container[:permissions]]`.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<String>,
    /// Kernel capabilities.
    #[serde(deserialize_with = "or_default")]
    pub cap_add: Vec<String>,
    /// Memory limit in MB, 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub max_memory_mb: i64,
    /// CPU limit, 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub max_cpus: f64,
    /// Process namespace.
    #[serde(deserialize_with = "or_default")]
    pub pid: String,
    /// Inter-process communication namespace.
    #[serde(deserialize_with = "or_default")]
    pub ipc: String,
    /// Kernel parameters.
    #[serde(deserialize_with = "or_default")]
    pub sysctls: BTreeMap<String, String>,
    /// Security options.
    #[serde(deserialize_with = "or_default")]
    pub security_opt: Vec<String>,
    /// Log driver, empty for the engine's own.
    #[serde(deserialize_with = "or_default")]
    pub log_driver: String,
}

/// A published port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Address on the host.
    #[serde(rename = "HostIP", deserialize_with = "or_default")]
    pub host_ip: String,
    /// `host[:container][/protocol]`.
    #[serde(rename = "HostPort", deserialize_with = "or_default")]
    pub host_port: String,
}

/// A port published under a random number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct EphemeralPort {
    /// True if only this machine may connect.
    #[serde(deserialize_with = "or_default")]
    pub localhost_only: bool,
    /// `port[/protocol]`.
    #[serde(deserialize_with = "or_default")]
    pub port_and_protocol: String,
}

/// Arguments of a command line, written as a list or as one text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine(pub Vec<String>);

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            List(Vec<String>),
            Text(String),
        }
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::List(words) => words,
            Form::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        }))
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default, deserialize_with = "or_default")]
    services: BTreeMap<String, Container>,
}

impl Deployment {
    /// Parses a deployment text and overlays the environment of the overrides (may be empty).
    ///
    /// # Errors
    /// [`DeploymentError`] when one of the texts is invalid or names nothing to run.
    pub fn parse(text: &str, overrides: &str) -> Result<Self, DeploymentError> {
        let mut services = read(text)?;
        if services.is_empty() {
            return Err(DeploymentError::Empty);
        }
        if let Some(name) = services.keys().find(|name| !is_usable(name)) {
            return Err(DeploymentError::Name(name.clone()));
        }
        if !overrides.trim().is_empty() {
            for (name, replacement) in read(overrides)? {
                if let Some(container) = services.get_mut(&name) {
                    overlay(&mut container.environment, replacement.environment);
                }
            }
        }
        Ok(Self { services })
    }
}

fn read(text: &str) -> Result<BTreeMap<String, Container>, DeploymentError> {
    reference_json::from_text::<Document>(text)
        .map(|document| document.services)
        .map_err(|error| DeploymentError::Unreadable(error.reason()))
}

/// A variable of the same name replaces the earlier one.
fn overlay(environment: &mut Vec<String>, replacement: Vec<String>) {
    for pair in replacement {
        let name = pair.split('=').next().unwrap_or_default().to_owned();
        environment.retain(|old| old.split('=').next() != Some(name.as_str()));
        environment.push(pair);
    }
}

/// Names become parts of file and container names.
fn is_usable(name: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(is_plain)
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_deployment_is_read() {
        let text =
            r#"{"services":{"a":{"command":["/bin/sleep","1000"],"environment":["A=b"],"image":null}}}"#;
        let deployment = Deployment::parse(text, "").unwrap();
        assert_eq!(deployment.services["a"].command.0, ["/bin/sleep", "1000"]);
    }

    #[test]
    fn members_that_are_null_or_in_another_case_are_read_as_the_reference_reads_them() {
        let text = r#"{"Services":{"a":{"Image":"x","privileged":null,"binds":null,"command":null,
            "ports":[{"hostip":null,"hostport":"80:80/tcp"}],"max_memory_mb":null,"tmpfs":null}}}"#;
        let deployment = Deployment::parse(text, "").unwrap();
        let ports = vec![Port { host_port: "80:80/tcp".to_owned(), ..Port::default() }];
        let expected = Container { image: "x".to_owned(), ports, ..Container::default() };
        assert_eq!(deployment.services["a"], expected);
    }

    #[test]
    fn overrides_replace_variables_of_the_same_name_only() {
        let text = r#"{"services":{"a":{"image":"x","environment":["A=1","B=2"]}}}"#;
        let overrides = r#"{"services":{"a":{"environment":["A=9"]},"other":{"environment":["C=3"]}}}"#;
        let deployment = Deployment::parse(text, overrides).unwrap();
        assert_eq!(deployment.services["a"].environment, ["B=2", "A=9"]);
    }

    #[test]
    fn names_that_would_leave_their_directory_are_refused() {
        let text = r#"{"services":{"../a":{"command":["x"]}}}"#;
        assert_eq!(Deployment::parse(text, ""), Err(DeploymentError::Name("../a".to_owned())));
        assert_eq!(Deployment::parse(r#"{"services":{}}"#, ""), Err(DeploymentError::Empty));
        assert!(matches!(Deployment::parse("5", ""), Err(DeploymentError::Unreadable(_))));
    }
}
