//! `hzn exchange service publish` and `verify`: signs the deployment and hands the service over.
//!
//! Images are published as they are named. For the signatures see [`crate::signer`].

use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_domain::policy::compatibility::service::service_id;
use evenkeel_wire::signature;
use serde_json::{Map, Value};

use super::service::{SERVICES, add_auth, put_policy};
use crate::confirm::confirm_by;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::{read_json, read_text};
use crate::key::{KeyPaths, SigningKeys, now_secs};
use crate::output::{View, note};
use crate::signer::{DEPLOYMENTS, PublicKey, Signer};

/// What the exchange takes of a service.
const MEMBERS: [&str; 16] = [
    "label",
    "description",
    "public",
    "documentation",
    "url",
    "version",
    "arch",
    "sharable",
    "matchHardware",
    "requiredServices",
    "userInput",
    "deployment",
    "deploymentSignature",
    "clusterDeployment",
    "clusterDeploymentSignature",
    "imageStore",
];

/// Options of `publish`.
#[derive(Debug, Args)]
pub struct PublishArguments {
    /// JSON or YAML file with the service, - for standard input
    #[arg(short = 'f', long = "json-file", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    keys: SigningKeys,
    /// Replace an existing service without asking
    #[arg(short = 'O', long)]
    overwrite: bool,
    /// Make the service public, whatever the file says
    #[arg(short = 'P', long)]
    public: Option<bool>,
    /// Login for the image registry as REGISTRY:USER:TOKEN or REGISTRY:TOKEN; repeat for more
    #[arg(short = 'r', long = "registry-token", value_name = "LOGIN")]
    logins: Vec<String>,
    /// JSON or YAML file with the policy of the service
    #[arg(short = 'p', long = "service-policy-file", value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Leave image tags as they are (always so; kept for scripts)
    #[arg(short = 'I', long = "dont-change-image-tag")]
    keep_tags: bool,
}

/// Signs and publishes.
///
/// # Errors
/// With status 1 or 3 for a service that cannot be published, 4 for unusable files, 5 when the exchange refuses it.
pub async fn publish(arguments: &PublishArguments, context: &Context, exchange: &Exchange) -> Outcome {
    let mut body = body_of(read_json(&arguments.file, &context.settings)?, &exchange.org)?;
    if let Some(public) = arguments.public {
        body.insert("public".to_owned(), Value::Bool(public));
    }
    let logins = arguments.logins.iter().map(|login| parse_login(login)).collect::<Outcome<Vec<_>>>()?;
    let policy = arguments.policy.as_deref().map(|file| read_json(file, &context.settings)).transpose()?;
    let keys = arguments.keys.paths(&context.settings);
    let key = sign(&mut body, &keys)?;
    let id = id_of(&body, &exchange.org);
    if !store(exchange, &id, &Value::Object(body), arguments.overwrite).await? {
        note("nothing was published");
        return Ok(());
    }
    if let Some(key) = key {
        put_key(exchange, &id, &key).await?;
    }
    for (registry, user, token) in &logins {
        add_auth(exchange, &id, registry, user, token).await?;
    }
    if let Some(policy) = policy {
        put_policy(exchange, &id, policy).await?;
    }
    Ok(())
}

/// The members that the exchange takes, the deployments as text.
///
/// # Errors
/// With status 1 or 3 for a service that cannot be published.
pub fn body_of(file: Value, org: &str) -> Outcome<Map<String, Value>> {
    let refuse = |exit, why: String| {
        CliError::new(
            exit,
            "the service cannot be published",
            why,
            "correct the file; `hzn exchange service new` prints a template",
        )
    };
    let Value::Object(mut members) = file else {
        return Err(refuse(Exit::Json, "the file holds no JSON object".to_owned()));
    };
    if let Some(named) =
        members.remove("org").as_ref().and_then(Value::as_str).filter(|named| !named.is_empty())
        && named != org
    {
        return Err(refuse(
            Exit::Input,
            format!("the file is for organization {named}, the command for {org}"),
        ));
    }
    for member in ["url", "version", "arch"] {
        if members.get(member).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(refuse(Exit::Input, format!("{member} is missing")));
        }
    }
    let unknown: Vec<String> =
        members.keys().filter(|name| !MEMBERS.contains(&name.as_str())).cloned().collect();
    for name in unknown {
        note(format!("the member {name} of the file is left out: services have none of that name"));
        members.remove(&name);
    }
    members.entry("sharable").or_insert_with(|| Value::from("multiple"));
    if !members.contains_key("label") {
        let name = members.get("url").cloned().unwrap_or_default();
        members.insert("label".to_owned(), name);
    }
    DEPLOYMENTS.iter().for_each(|member| member.normalize(&mut members));
    Ok(members)
}

/// Signs the deployments; returns the public key to store.
fn sign(body: &mut Map<String, Value>, keys: &KeyPaths) -> Outcome<Option<PublicKey>> {
    let mut signer = Signer::new(keys);
    for member in DEPLOYMENTS {
        if body.get(member.text).and_then(Value::as_str).is_none_or(str::is_empty) {
            body.insert(member.signature.to_owned(), Value::from(""));
        }
        signer.sign(body, member)?;
    }
    signer.public_key()
}

/// Signs and stores a service whose members [`body_of`] has chosen, replacing one that is there.
///
/// # Errors
/// With status 4 for unusable keys, 5 when the exchange refuses it.
pub async fn publish_document(document: &Value, context: &Context, exchange: &Exchange) -> Outcome {
    let mut body = document.as_object().cloned().unwrap_or_default();
    let key = sign(&mut body, &KeyPaths::choose(None, None, &context.settings))?;
    let id = id_of(&body, &exchange.org);
    store(exchange, &id, &Value::Object(body), true).await?;
    match key {
        Some(key) => put_key(exchange, &id, &key).await,
        None => Ok(()),
    }
}

/// The id of a service, `org/url_version_arch`.
pub fn id_of(body: &Map<String, Value>, org: &str) -> String {
    let text = |member: &str| body.get(member).and_then(Value::as_str).unwrap_or_default();
    service_id(org, text("url"), text("version"), text("arch")).to_string()
}

/// Creates or replaces; false when the user does not want to replace.
async fn store(exchange: &Exchange, id: &str, body: &Value, overwrites: bool) -> Outcome<bool> {
    let (org, name) = exchange.split(id);
    let client = &exchange.server.client;
    let found = exchange.server.call(&format!("reading service {id}"), client.service(&org, &name)).await?;
    let is_there = found.is_some();
    if is_there
        && !confirm_by(
            "-O",
            &format!("Service {id} is published already. Replace it?"),
            overwrites || exchange.server.is_dry_run,
        )?
    {
        return Ok(false);
    }
    let doing = format!("publishing service {id}");
    if is_there {
        SERVICES.replace(exchange, id, body, &doing).await?;
    } else {
        exchange.server.call(&doing, client.create_service(&org, body)).await?;
    }
    exchange
        .server
        .report_done(&format!("service {id} is {}", if is_there { "replaced" } else { "published" }));
    Ok(true)
}

async fn put_key(exchange: &Exchange, id: &str, PublicKey { name, pem }: &PublicKey) -> Outcome {
    let doing = format!("storing key {name} with service {id}");
    let (org, service) = exchange.split(id);
    exchange.server.call(&doing, exchange.server.client.put_service_key(&org, &service, name, pem)).await?;
    exchange.server.report_done(&format!("key {name} is stored with service {id}"));
    Ok(())
}

/// Registry, user and token; a registry may hold a port, a token no colon.
fn parse_login(login: &str) -> Outcome<(String, String, String)> {
    let parts: Vec<&str> = login.split(':').collect();
    let is_port = |text: &str| {
        text.starts_with(|digit: char| digit.is_ascii_digit())
            && text.split('/').next().is_some_and(|port| port.chars().all(|digit| digit.is_ascii_digit()))
    };
    let (registry, rest) = match parts.as_slice() {
        [host, port, rest @ ..] if is_port(port) && !rest.is_empty() => (format!("{host}:{port}"), rest),
        [host, rest @ ..] => ((*host).to_owned(), rest),
        [] => (String::new(), &[][..]),
    };
    let (user, token) = match rest {
        [token] => ("token", *token),
        [user, token] => (*user, *token),
        _ => ("", ""),
    };
    if registry.is_empty() || user.is_empty() || token.is_empty() {
        return Err(CliError::input(
            "a registry login cannot be used",
            "it is not of the form REGISTRY:USER:TOKEN or REGISTRY:TOKEN",
            "correct -r",
        ));
    }
    Ok((registry, user.to_owned(), token.to_owned()))
}

/// Tests the signatures of a stored service with a key.
///
/// # Errors
/// With status 9 when the key does not belong to them.
pub async fn show_verification(
    context: &Context,
    exchange: &Exchange,
    id: &str,
    key: Option<&Path>,
) -> Outcome {
    let keys = KeyPaths::choose(None, key, &context.settings);
    let pem = read_text(&keys.public)?;
    let (org, name) = exchange.split(id);
    let found = exchange.server.client.service(&org, &name);
    let found = exchange.server.call(&format!("reading service {id}"), found).await?;
    let service = found.ok_or_else(|| SERVICES.missing(id))?;
    let mut tested = 0;
    for (member, text, signature) in [
        ("deployment", &service.deployment, &service.deployment_signature),
        ("clusterDeployment", &service.cluster_deployment, &service.cluster_deployment_signature),
    ] {
        if text.is_empty() {
            continue;
        }
        tested += 1;
        let verified = signature::verify_with_key(text, signature, &pem, now_secs());
        if verified != Ok(true) {
            let why = verified
                .err()
                .map_or_else(|| "it was made with another key".to_owned(), |error| error.to_string());
            return Err(CliError::new(
                Exit::SignatureInvalid,
                format!(
                    "the {member} signature of service {id} is not verified by {}",
                    keys.public.display()
                ),
                why,
                format!("see the keys of the service with: hzn exchange service listkey {id}"),
            ));
        }
    }
    let json = serde_json::json!({"service": id, "verified": tested > 0});
    context.screen.show(&View::plain(format!("{tested} signature(s) verified"), json))
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agreement::keys::PrivateKey;
    use serde_json::json;

    use super::*;

    #[test]
    fn object_becomes_text_once_and_foreign_members_are_left_out() {
        let file = json!({
            "org": "acme", "url": "https://acme.com/cam", "version": "1.0.0", "arch": "amd64", "extra": 1,
            "deployment": {"services": {"z": {"image": "i"}, "a": {}}},
        });
        let body = body_of(file, "acme").expect("complete");
        assert_eq!(body["deployment"], json!(r#"{"services":{"z":{"image":"i"},"a":{}}}"#));
        assert_eq!((body.get("org"), body.get("extra")), (None, None));
        assert_eq!((&body["sharable"], &body["label"]), (&json!("multiple"), &json!("https://acme.com/cam")));
        assert_eq!(id_of(&body, "acme"), "acme/acme.com-cam_1.0.0_amd64");
    }

    #[test]
    fn service_of_another_organization_or_without_name_is_refused() {
        let file = json!({"org": "other", "url": "u", "version": "1", "arch": "a"});
        assert_eq!(body_of(file, "acme").map_err(|error| error.exit), Err(Exit::Input));
        assert_eq!(
            body_of(json!({"url": "u", "arch": "a"}), "acme").map_err(|error| error.exit),
            Err(Exit::Input)
        );
        assert_eq!(body_of(json!([]), "acme").map_err(|error| error.exit), Err(Exit::Json));
    }

    #[test]
    fn signing_covers_the_text_that_is_sent() {
        let directory = tempfile::tempdir().expect("a directory");
        let key = PrivateKey::generate(&mut rand::rng(), 2048).expect("a key");
        let path = directory.path().join("private.key");
        std::fs::write(&path, key.to_pkcs1_pem().expect("PEM")).expect("a file");
        let keys = KeyPaths::choose(Some(&path), None, &crate::settings::Settings::default());
        let file = json!({"url": "u", "version": "1.0.0", "arch": "a", "deployment": {"services": {}}});
        let mut body = body_of(file, "o").expect("complete");
        let PublicKey { name, pem } = sign(&mut body, &keys).expect("signed").expect("a key");
        assert_eq!(name, "private.public.pem");
        let text = body["deployment"].as_str().expect("text");
        let given = body["deploymentSignature"].as_str().expect("text");
        assert_eq!(signature::verify_with_key(text, given, &pem, now_secs()), Ok(true));
        assert_eq!(body["clusterDeploymentSignature"], json!(""));
    }

    #[test]
    fn logins_name_registry_user_and_token() {
        let login = |text: &str| parse_login(text).ok();
        let expected =
            |registry: &str, user: &str, token: &str| Some((registry.into(), user.into(), token.into()));
        assert_eq!(login("reg.io:u:t"), expected("reg.io", "u", "t"));
        assert_eq!(login("reg.io:5000/x:u:t"), expected("reg.io:5000/x", "u", "t"));
        assert_eq!(login("reg.io:t"), expected("reg.io", "token", "t"));
        assert_eq!((login("reg.io"), login(""), login("a:b:c:d:e")), (None, None, None));
    }
}
