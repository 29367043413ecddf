//! `hzn exchange service`: services, their keys, registry logins and policies (exchange API 4.6).

use std::path::PathBuf;

use clap::Subcommand;
use evenkeel_wire::RawJson;
use evenkeel_wire::exchange::service::PutDockAuth;
use serde_json::{Value, json};

use super::publish::{PublishArguments, publish, show_verification};
use super::revision::{self, PolicyOwner, PolicyRevisionCommand, RevisionCommand};
use super::service_removal;
use crate::constraints;
use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::input::{read_shape, secret, template};
use crate::output::{Table, View, print_note};
use crate::resource::Part;
use crate::resource::kinds::SERVICES;
use crate::resource::selection::ListSelection;
use crate::shape::{self, ServicePolicyFile};

/// Commands for services.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Shows the services that the caller may see, or one of them
    List {
        /// Service to show, as NAME_VERSION_ARCH
        service: Option<String>,
        /// Show everything, not only names
        #[arg(short = 'l', long)]
        long: bool,
        /// Write the deployment of the service to this file, exactly as it was signed
        #[arg(short = 'f', long = "deployment-file", value_name = "FILE", requires = "service")]
        deployment_file: Option<PathBuf>,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Prints a template for a service
    New,
    /// Signs and publishes a service, or replaces it
    Publish(PublishArguments),
    /// Tests that a key belongs to the signature of a service
    Verify {
        /// Service to test
        service: String,
        /// Public key [default: HZN_PUBLIC_KEY_FILE, else ~/.hzn/keys/service.public.pem]
        #[arg(short = 'k', long = "public-key-file", value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Removes a service
    #[command(visible_alias = "delete")]
    Remove {
        /// Service to remove
        service: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Shows the names of the signing keys of a service, or one key
    Listkey {
        /// Service whose keys are shown
        service: String,
        /// Key to show
        key: Option<String>,
    },
    /// Removes a signing key of a service
    Removekey {
        /// Service whose key is removed
        service: String,
        /// Key to remove
        key: String,
    },
    /// Shows the registry logins of a service
    Listauth {
        /// Service whose logins are shown
        service: String,
    },
    /// Removes a registry login of a service
    Removeauth {
        /// Service whose login is removed
        service: String,
        /// Number of the login
        number: u64,
    },
    /// Adds a registry login to a service
    Addauth {
        /// Service that gets the login
        service: String,
        /// Host of the registry
        registry: String,
        /// Token or password; - reads it from standard input
        token: String,
        /// User name at the registry
        #[arg(long, default_value = "token")]
        username: String,
    },
    /// Shows the policy of a service
    Listpolicy {
        /// Service whose policy is shown
        service: String,
    },
    /// Prints a template for the policy of a service
    Newpolicy,
    /// Replaces the policy of a service
    #[command(visible_alias = "setpolicy")]
    Addpolicy {
        /// Service that gets the policy
        service: String,
        /// JSON or YAML file with the policy, - for standard input
        #[arg(short = 'f', long = "json-file", value_name = "FILE")]
        file: PathBuf,
    },
    /// Removes the policy of a service
    Removepolicy {
        /// Service whose policy is removed
        service: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
    #[command(flatten)]
    Revision(RevisionCommand),
    #[command(flatten)]
    PolicyRevision(PolicyRevisionCommand),
}

/// Runs a command for services.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: ServiceCommand, context: &Context, exchange: &Exchange) -> Outcome {
    use ServiceCommand as C;
    let client = &exchange.server.client;
    match command {
        C::List { service: Some(service), deployment_file: Some(file), .. } => {
            save_deployment(exchange, &service, &file).await
        }
        C::List { service, long, selection, watch, .. } => {
            context
                .show_watched(&watch, async || {
                    SERVICES.list_selected(exchange, service.as_deref(), long, &selection).await
                })
                .await
        }
        C::Revision(command) => revision::run(command, &SERVICES, context, exchange).await,
        C::PolicyRevision(command) => {
            revision::run_for_policy(command, PolicyOwner::Service, context, exchange).await
        }
        C::New => show_template(context),
        C::Newpolicy => show_policy_template(context),
        C::Publish(arguments) => publish(&arguments, context, exchange).await,
        C::Verify { service, key } => show_verification(context, exchange, &service, key.as_deref()).await,
        C::Remove { service, force } => service_removal::remove(exchange, &service, force).await,
        C::Listkey { service, key } => list_key(context, exchange, &service, key.as_deref()).await,
        C::Removekey { service, key } => {
            let (org, id) = exchange.split(&service);
            let list_with = format!("hzn exchange service listkey {service}");
            let removed = client.delete_service_key(&org, &id, &key);
            part(&service, &format!("key {key}")).remove_named(exchange, &list_with, removed).await
        }
        C::Listauth { service } => list_auth(context, exchange, &service).await,
        C::Removeauth { service, number } => {
            let (org, id) = exchange.split(&service);
            let list_with = format!("hzn exchange service listauth {service}");
            let removed = client.delete_service_dockauth(&org, &id, number);
            part(&service, &format!("login {number}")).remove_named(exchange, &list_with, removed).await
        }
        C::Addauth { service, registry, token, username } => {
            let token = secret(&token, "token")?;
            add_auth(exchange, &service, &registry, &username, &token).await
        }
        C::Listpolicy { service } => {
            let (org, id) = exchange.split(&service);
            part(&service, "policy").show(context, exchange, client.service_policy(&org, &id)).await
        }
        C::Addpolicy { service, file } => {
            put_policy(exchange, &service, read_shape::<ServicePolicyFile>(&file, context)?).await
        }
        C::Removepolicy { service, force } => {
            let (org, id) = exchange.split(&service);
            part(&service, "policy").remove(exchange, force, client.delete_service_policy(&org, &id)).await
        }
    }
}

fn part<'a>(service: &'a str, noun: &'a str) -> Part<'a> {
    Part { kind: &SERVICES, owner: service, noun }
}

/// Replaces the policy of a service.
///
/// # Errors
/// With status 5 when the exchange refuses it.
pub async fn put_policy(exchange: &Exchange, service: &str, policy: Value) -> Outcome {
    constraints::check(&policy)?;
    shape::check_properties(&format!("service {service}"), &policy)?;
    let (org, id) = exchange.split(service);
    let written = exchange.server.client.put_service_policy(&org, &id, &policy);
    exchange.server.call(&format!("setting the policy of service {service}"), written).await?;
    exchange.server.report_done(&format!("the policy of service {service} is set"));
    Ok(())
}

/// Adds a registry login to a service.
///
/// # Errors
/// With status 5 when the exchange refuses it.
pub async fn add_auth(
    exchange: &Exchange,
    service: &str,
    registry: &str,
    username: &str,
    token: &str,
) -> Outcome {
    let (org, id) = exchange.split(service);
    let login = PutDockAuth {
        registry: registry.to_owned(),
        username: Some(username.to_owned()),
        token: token.to_owned(),
    };
    let doing = format!("adding a login for {registry} to service {service}");
    exchange.server.call(&doing, exchange.server.client.add_service_dockauth(&org, &id, &login)).await?;
    exchange.server.report_done(&format!("service {service} has a login for {registry}"));
    Ok(())
}

async fn list_key(context: &Context, exchange: &Exchange, service: &str, key: Option<&str>) -> Outcome {
    let doing = format!("reading the keys of service {service}");
    let (org, id) = exchange.split(service);
    let Some(key) = key else {
        let names = exchange.server.client.find_service_keys(&org, &id);
        let names = part(service, "keys").find(exchange, names).await?.unwrap_or_default();
        return context.screen.show(&View::of(json!(names)));
    };
    let pem = exchange.server.call(&doing, exchange.server.client.service_key(&org, &id, key)).await?;
    let pem = pem
        .ok_or_else(|| CliError::not_found("key", key, &format!("hzn exchange service listkey {service}")))?;
    context.screen.show(&View::plain(pem.clone(), Value::String(pem)))
}

async fn list_auth(context: &Context, exchange: &Exchange, service: &str) -> Outcome {
    let (org, id) = exchange.split(service);
    let found = exchange.server.client.service_dockauth_records(&org, &id);
    let found = part(service, "registry logins").find(exchange, found).await?.unwrap_or_default();
    let mut logins: Vec<Value> = found.into_iter().map(RawJson::into_value).collect();
    for login in &mut logins {
        login["token"] = Value::from("********");
    }
    let columns = [
        ("number", "dockAuthId"),
        ("registry", "registry"),
        ("user", "username"),
        ("changed", "lastUpdated"),
    ];
    let table = Table::of_list(&logins, &columns);
    context.screen.show(&View::new(Value::Array(logins), table))
}

async fn save_deployment(exchange: &Exchange, service: &str, file: &std::path::Path) -> Outcome {
    let (org, id) = exchange.split(service);
    let doing = format!("reading service {service}");
    let found = exchange.server.call(&doing, exchange.server.client.service(&org, &id)).await?;
    let found = found.ok_or_else(|| SERVICES.missing(service))?;
    std::fs::write(file, found.deployment).map_err(|error| CliError::file("writing", file, &error))?;
    print_note(format!("the deployment of service {service} is in {}", file.display()));
    Ok(())
}

/// Prints a template for a service.
///
/// # Errors
/// When nothing can be written.
pub fn show_template(context: &Context) -> Outcome {
    let text = r#"{
  "org": "$HZN_ORG_ID",             /* organization, must be that of the command */
  "label": "",                      /* name for people */
  "description": "",
  "public": false,                  /* true: other organizations may use it */
  "documentation": "",
  "url": "",                        /* the name, such as camera */
  "version": "1.0.0",
  "arch": "amd64",
  "sharable": "multiple",           /* multiple, singleton or exclusive */
  "requiredServices": [],           /* [{"org": "", "url": "", "versionRange": "[1.0.0,INFINITY)", "arch": ""}] */
  "userInput": [],                  /* [{"name": "", "label": "", "type": "string", "defaultValue": ""}] */
  "deployment": {                   /* signed when it is published */
    "services": {
      "camera": {
        "image": "",
        "environment": []
      }
    }
  }
}"#;
    context.screen.show(&View::plain(text, template(text)))
}

/// Prints a template for the policy of a service.
///
/// # Errors
/// When nothing can be written.
pub fn show_policy_template(context: &Context) -> Outcome {
    let text = r#"{
  "label": "",
  "description": "",
  "properties": [                   /* properties of the service */
    {"name": "", "value": ""}
  ],
  "constraints": [                  /* conditions on the properties of nodes */
    "myproperty == myvalue"
  ]
}"#;
    context.screen.show(&View::plain(text, template(text)))
}
