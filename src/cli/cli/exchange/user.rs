//! `hzn exchange user`: users (exchange API 4.3).

use clap::Subcommand;
use evenkeel_wire::exchange::user::PutUser;
use serde_json::json;

use crate::context::{Context, Exchange, Watch};
use crate::exit::Outcome;
use crate::input::secret;
use crate::output::View;
use crate::resource::kinds::USERS;
use crate::shape;

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

/// Runs a command for users.
///
/// # Errors
/// Returns the error of the command.
pub async fn run(command: UserCommand, context: &Context, exchange: &Exchange) -> Outcome {
    match command {
        UserCommand::List { user, all, names, watch } => {
            let named = if all { None } else { Some(user.unwrap_or_else(|| exchange.caller.name())) };
            let list = async || -> Outcome<View> { USERS.list(exchange, named.as_deref(), !names).await };
            context.show_watched(&watch, list).await
        }
        UserCommand::Create { user, password, email, admin, hub_admin } => {
            let (org, id) = exchange.split(&user);
            shape::check_name("user", &id)?;
            let or_id = || if id.contains('@') { id.clone() } else { String::new() };
            let body = PutUser {
                password: Some(new_password(&user, &password)?),
                email: Some(email.unwrap_or_else(or_id)),
                admin,
                hub_admin,
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
        UserCommand::Remove { user, force } => USERS.remove(exchange, &user, force).await,
    }
}

/// Reads a new password and refuses a trivial one.
fn new_password(user: &str, argument: &str) -> Outcome<String> {
    let password = secret(argument, "password")?;
    shape::check_secret(&format!("user {user}"), "password", &password)?;
    Ok(password)
}
