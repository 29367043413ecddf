//! `hzn exchange service publish` and `verify`: signs the deployment and publishes the service.
//!
//! Images are published as they are named. For the signatures see [`crate::signer`].

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use evenkeel_domain::policy::compatibility::service::service_id;
use evenkeel_wire::signature;
use serde_json::{Map, Value};

use super::service::{add_auth, put_policy};
use crate::confirm::confirm_by;
use crate::context::{Context, Exchange};
use crate::exit::{CliError, Exit, Outcome};
use crate::input::read_shape;
use crate::key::{KeyPaths, SigningKeys, now_secs};
use crate::output::{View, print_note};
use crate::resource::kinds::SERVICES;
use crate::shape::{self, ServiceFile, ServicePolicyFile, complete_service};
use crate::signer::{DEPLOYMENTS, PublicKey, Signer};
use crate::text_file::read_text;

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
    /// Make the service public or private, overriding the file
    #[arg(long, value_name = "true|false")]
    public: Option<bool>,
    /// Pull images to find their digests (images are published as they are named; accepted for scripts)
    #[arg(short = 'P', long, conflicts_with = "keep_tags")]
    pull_image: bool,
    /// Login for the image registry as REGISTRY:USER:TOKEN or REGISTRY:TOKEN; repeat for more
    #[arg(short = 'r', long = "registry-token", value_name = "LOGIN")]
    logins: Vec<String>,
    /// JSON or YAML file with the policy of the service
    #[arg(short = 'p', long = "service-policy-file", value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Leave image tags as they are (always the case; accepted for scripts)
    #[arg(short = 'I', long = "dont-change-image-tag")]
    keep_tags: bool,
}

/// Signs and publishes.
///
/// # Errors
/// With status 1 or 3 for a service that cannot be published, 4 for unusable files, 5 when the exchange refuses it.
pub async fn publish(arguments: &PublishArguments, context: &Context, exchange: &Exchange) -> Outcome {
    let file = read_shape::<ServiceFile>(&arguments.file, context)?;
    let directory = arguments.file.parent().unwrap_or_else(|| Path::new(""));
    let mut body = body_of(file, &exchange.org, directory)?;
    if let Some(public) = arguments.public {
        body.insert("public".to_owned(), Value::Bool(public));
    }
    shape::check_service(&id_of(&body, &exchange.org), &Value::Object(body.clone()))?;
    let logins = arguments.logins.iter().map(|login| parse_login(login)).collect::<Outcome<Vec<_>>>()?;
    let policy = arguments.policy.as_deref().map(|file| read_shape::<ServicePolicyFile>(file, context));
    let policy = policy.transpose()?;
    let keys = arguments.keys.paths(&context.settings);
    let key = sign(&mut body, &keys)?;
    let id = id_of(&body, &exchange.org);
    if !store(exchange, &id, &Value::Object(body), arguments.overwrite).await? {
        print_note("nothing was published");
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

/// The members that the exchange takes, the deployments as text; `directory` is that of the file.
///
/// # Errors
/// With status 1 for a service that cannot be published, 4 for an archive that cannot be read.
pub fn body_of(mut file: Value, org: &str, directory: &Path) -> Outcome<Map<String, Value>> {
    complete_service(&mut file, org)?;
    embed_archive(&mut file, directory)?;
    let Value::Object(mut members) = file else { return Ok(Map::new()) };
    DEPLOYMENTS.iter().for_each(|member| member.normalize(&mut members));
    Ok(members)
}

/// Replaces the path of an operator's archive in a cluster deployment with the contents of the archive, like the existing tool.
fn embed_archive(file: &mut Value, directory: &Path) -> Outcome {
    const ARCHIVE: &str = "operatorYamlArchive";
    let Some(path) = file.pointer(&format!("/clusterDeployment/{ARCHIVE}")).and_then(Value::as_str) else {
        return Ok(());
    };
    let path = directory.join(path);
    let content =
        std::fs::read(&path).map_err(|error| CliError::file("reading the operator", &path, &error))?;
    file["clusterDeployment"][ARCHIVE] = Value::from(STANDARD.encode(content));
    Ok(())
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

/// Signs and stores a service whose members [`body_of`] has selected; replaces an existing one.
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

/// Creates or replaces; returns false if the user declines to replace.
///
/// # Errors
/// With status 5 when the exchange refuses it.
pub(super) async fn store(exchange: &Exchange, id: &str, body: &Value, overwrites: bool) -> Outcome<bool> {
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

/// Registry, user and token; a registry may contain a port, a token contains no colon.
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
                .map_or_else(|| "it was created with another key".to_owned(), |error| error.to_string());
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
    fn object_becomes_text_once_and_the_organization_is_left_out() {
        let file = json!({
            "org": "acme", "label": "", "url": "https://acme.com/cam", "version": "1.0.0", "arch": "amd64",
            "deployment": {"services": {"z": {"image": "i"}, "a": {}}},
        });
        let body = body_of(file, "acme", Path::new("")).expect("complete");
        assert_eq!(body["deployment"], json!(r#"{"services":{"z":{"image":"i"},"a":{}}}"#));
        assert_eq!(
            (body.get("org"), &body["sharable"], &body["label"]),
            (None, &json!("multiple"), &json!(""))
        );
        assert_eq!(id_of(&body, "acme"), "acme/acme.com-cam_1.0.0_amd64");
    }

    #[test]
    fn service_of_another_organization_or_without_name_is_refused() {
        let file = json!({"org": "other", "url": "u", "version": "1", "arch": "a"});
        assert_eq!(body_of(file, "acme", Path::new("")).map_err(|error| error.exit), Err(Exit::Input));
        assert_eq!(
            body_of(json!({"url": "u", "arch": "a"}), "acme", Path::new("")).map_err(|error| error.exit),
            Err(Exit::Input)
        );
    }

    #[test]
    fn archive_of_an_operator_is_embedded() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("operator.tar.gz"), b"archive").expect("a file");
        let file = |name: &str| json!({"url": "u", "version": "1", "arch": "a", "clusterDeployment": {"operatorYamlArchive": name}});
        let body = body_of(file("operator.tar.gz"), "acme", directory.path()).expect("complete");
        assert_eq!(body["clusterDeployment"], json!(r#"{"operatorYamlArchive":"YXJjaGl2ZQ=="}"#));
        let missing = body_of(file("other.tar.gz"), "acme", directory.path());
        assert_eq!(missing.map_err(|error| error.exit), Err(Exit::File));
    }

    #[test]
    fn signing_covers_the_text_that_is_sent() {
        let directory = tempfile::tempdir().expect("a directory");
        let key = PrivateKey::generate(&mut rand::rng(), 2048).expect("a key");
        let path = directory.path().join("private.key");
        std::fs::write(&path, key.to_pkcs1_pem().expect("PEM")).expect("a file");
        let keys = KeyPaths::choose(Some(&path), None, &crate::settings::Settings::default());
        let file = json!({"url": "u", "version": "1.0.0", "arch": "a", "deployment": {"services": {}}});
        let mut body = body_of(file, "o", Path::new("")).expect("complete");
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
