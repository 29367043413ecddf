//! `hzn exchange user`: users (exchange API 4.3).

use clap::Subcommand;
use evenkeel_domain::assigned_role::AssignedRole;
use evenkeel_wire::exchange::user::{NewApiKey, PutUser};
use serde_json::json;

use crate::context::{Context, Exchange, Watch};
use crate::exit::{CliError, Outcome};
use crate::input::secret;
use crate::output::View;
use crate::resource::kinds::USERS;
use crate::resource::selection::ListSelection;
use crate::shape;

/// The login that sends an API key in place of a password.
const API_KEY: &str = "apikey";

/// Commands for users.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Shows the caller, another user, or all users
    List {
        /// User to show [default: the caller]
        user: Option<String>,
        /// Show all users of the organization
        #[arg(short = 'a', long)]
        all: bool,
        /// With -a, show only names
        #[arg(short = 'N', long)]
        names: bool,
        #[command(flatten)]
        selection: ListSelection,
        #[command(flatten)]
        watch: Watch,
    },
    /// Creates a user
    Create {
        /// Name of the user
        user: String,
        /// Password; - reads it from standard input, so that no other user of the machine sees it
        password: String,
        /// E-mail address [default: the name, if it is an e-mail address]
        email: Option<String>,
        /// Make the user an administrator of the organization
        #[arg(short = 'A', long)]
        admin: bool,
        /// Make the user an administrator of the hub (in the organization root only)
        #[arg(short = 'H', long = "hubadmin")]
        hub_admin: bool,
        #[command(flatten)]
        role: RoleOptions,
    },
    /// Sets the password of a user
    Setpassword {
        /// Name of the user
        user: String,
        /// New password; - reads it from standard input
        password: String,
    },
    /// Sets whether a user is an administrator of the organization
    Setadmin {
        /// Name of the user
        user: String,
        /// true or false
        #[arg(action = clap::ArgAction::Set)]
        is_admin: bool,
    },
    /// Limits a user to reading, or to reading and some deployment policies, or lifts the limit
    Setrole {
        /// Name of the user
        user: String,
        /// viewer, deployer, or user for an ordinary user
        role: String,
        /// Deployment policies of a deployer, separated by commas: names, and beginnings of names that end in *
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        policies: Vec<String>,
    },
    /// Creates an API key and shows it, this once
    Createkey {
        /// User of the key [default: the caller]
        user: Option<String>,
        /// Name for display
        #[arg(short = 'l', long)]
        label: Option<String>,
        /// Description
        #[arg(short = 'd', long)]
        description: Option<String>,
        /// Seconds until the key expires, 60 to 31536000 [default: it does not]
        #[arg(long, value_name = "SECONDS")]
        expires_in: Option<i64>,
        #[command(flatten)]
        role: RoleOptions,
    },
    /// Removes an API key
    Removekey {
        /// User of the key
        user: String,
        /// Id of the key
        key: String,
    },
    /// Removes a user and everything that the user owns
    #[command(visible_alias = "delete")]
    Remove {
        /// Name of the user
        user: String,
        /// Do not ask
        #[arg(short = 'f', long)]
        force: bool,
    },
}

/// A role that limits what is created.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RoleOptions {
    /// Limit to a role: viewer reads, deployer also writes deployment policies [default: no limit]
    #[arg(long)]
    role: Option<String>,
    /// Deployment policies of a deployer, separated by commas: names, and beginnings of names that end in *
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "role")]
    policies: Vec<String>,
}

impl RoleOptions {
    /// Returns role and policies as the API takes them.
    ///
    /// # Errors
    /// With status 1 when the role is invalid.
    fn read(self) -> Outcome<(Option<String>, Option<Vec<String>>)> {
        let Some(role) = self.role else { return Ok((None, None)) };
        check_role(&role, &self.policies)?;
        Ok((Some(role), (!self.policies.is_empty()).then_some(self.policies)))
    }
}

fn check_role(role: &str, policies: &[String]) -> Outcome {
    let checked = AssignedRole::read(role, policies);
    checked.map(drop).map_err(|error| {
        let advice = "give --role viewer, or --role deployer with --policies, such as --policies shop-*,web";
        CliError::input(format!("the role {role} is invalid"), error.to_string(), advice)
    })
}

/// Runs a command for users.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: UserCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        UserCommand::List { user, all, names, selection, watch } => {
            let is_list = all || !selection.is_whole() && user.is_none();
            let named = if is_list { None } else { Some(user.unwrap_or_else(|| exchange.caller.name())) };
            let list = async || -> Outcome<View> {
                USERS.list_selected(exchange, named.as_deref(), !names, &selection).await
            };
            context.show_watched(&watch, list).await
        }
        UserCommand::Create { user, password, email, admin, hub_admin, role } => {
            let (org, id) = exchange.split(&user);
            shape::check_name("user", &id)?;
            let or_id = || if id.contains('@') { id.clone() } else { String::new() };
            let (role, policies) = role.read()?;
            let body = PutUser {
                password: Some(new_password(&user, &password)?),
                email: Some(email.unwrap_or_else(or_id)),
                admin,
                hub_admin,
                role,
                policies,
            };
            let doing = format!("creating user {org}/{id}");
            let advice = format!("see what has this id: hzn exchange user list {id}, or node list {id}");
            let server = &exchange.server;
            server.create(&doing, &advice, server.client.create_user(&org, &id, &body)).await?;
            server.report_done(&format!("user {org}/{id} is created"));
            Ok(())
        }
        UserCommand::Setpassword { user, password } => {
            USERS.patch(exchange, &user, &json!({"password": new_password(&user, &password)?})).await
        }
        UserCommand::Setadmin { user, is_admin } => {
            USERS.patch(exchange, &user, &json!({"admin": is_admin})).await
        }
        UserCommand::Setrole { user, role, policies } => {
            check_role(&role, &policies)?;
            let mut change = json!({"role": role});
            if !policies.is_empty() {
                change["policies"] = json!(policies);
            }
            USERS.change_member(exchange, &user, "role", &change).await
        }
        UserCommand::Createkey { user, label, description, expires_in, role } => {
            let (role, policies) = role.read()?;
            let body = NewApiKey { label, description, expires_in, role, policies };
            create_key(context, exchange, user, &body).await
        }
        UserCommand::Removekey { user, key } => remove_key(exchange, &user, &key).await,
        UserCommand::Remove { user, force } => USERS.remove(exchange, &user, force).await,
    }
}

async fn create_key(
    context: &Context,
    exchange: &Exchange,
    user: Option<String>,
    body: &NewApiKey,
) -> Outcome {
    let (org, id) = exchange.split(&user.unwrap_or_else(|| exchange.caller.name()));
    let server = &exchange.server;
    let doing = format!("creating an API key of user {org}/{id}");
    // A caller with an API key is known by no other name.
    let id = match id.as_str() {
        API_KEY => {
            let own = server.call(&doing, server.client.own_user(&org)).await?;
            let name = own.map(|(name, _)| name).unwrap_or_default();
            name.split_once('/').map_or(id, |(_, id)| id.to_owned())
        }
        _ => id,
    };
    let created = server.client.create_api_key(&org, &id, body).await;
    if server.is_dry_run {
        // The request was shown, and there is no key in its response.
        return Ok(());
    }
    let key = created.map_err(|error| server.failed(&doing, &error))?;
    server.report_done(&format!("API key {} of user {org}/{id} is created; it is not shown again", key.id));
    context.screen.show(&View::of(json!(key)))
}

async fn remove_key(exchange: &Exchange, user: &str, key: &str) -> Outcome {
    let (org, id) = exchange.split(user);
    let doing = format!("removing API key {key} of user {org}/{id}");
    let server = &exchange.server;
    if !server.call(&doing, server.client.delete_api_key(&org, &id, key)).await? {
        return Err(CliError::not_found("API key", key, &format!("hzn exchange user list {id}")));
    }
    server.report_done(&format!("API key {key} of user {org}/{id} is removed"));
    Ok(())
}

/// Reads a new password and refuses a trivial one.
fn new_password(user: &str, argument: &str) -> Outcome<String> {
    let password = secret(argument, "password")?;
    shape::check_secret(&format!("user {user}"), "password", &password)?;
    Ok(password)
}
