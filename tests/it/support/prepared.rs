//! The directory of a hub and a key, made once: they take most of the time of a first start.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use evenkeel_wire::agreement::PrivateKey;
use nix::unistd::Uid;
use tokio::sync::OnceCell;

use super::wait::must;
use super::{Hub, Scratch};

/// The directory of a hub that was started and stopped, kept beside the program that made it.
static HUB: OnceCell<PathBuf> = OnceCell::const_new();

/// A key pair for everyone who needs one that is nobody else's business.
pub static KEY: LazyLock<PrivateKey> =
    LazyLock::new(|| must(PrivateKey::generate(&mut rand::rng(), 2048), "a key"));

/// Copies the directory of a hub that was started before.
pub async fn put_hub(to: &Path) {
    copy(HUB.get_or_init(make_hub).await, to);
}

/// Gives an agent its key pair, unless it has one.
pub fn give_key(directory: &Path) {
    if directory.exists() {
        return;
    }
    must(std::fs::create_dir(directory), "a directory");
    let public = must(KEY.public_key(), "a public key").to_pem();
    must(std::fs::write(directory.join("publicMessagingKey.pem"), public), "a key file");
    must(
        std::fs::write(directory.join("privateMessagingKey.pem"), must(KEY.to_pkcs1_pem(), "a key")),
        "a key file",
    );
}

async fn make_hub() -> PathBuf {
    let made_by = must(std::fs::metadata(env!("CARGO_BIN_EXE_evenkeel")), "the program");
    let version = format!("{}-{}-{}", Uid::current(), made_by.mtime(), made_by.mtime_nsec());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hub-{version}"));
    if kept.exists() {
        return kept;
    }
    let scratch = Scratch::new();
    let hub = Hub::start_as(&scratch, &[], None).await;
    assert_eq!(hub.stop().await, 0);
    must(std::fs::remove_file(scratch.join("hub/url")), "the address");
    // Another process may make the same.
    let unfinished = kept.with_extension(std::process::id().to_string());
    copy(&scratch.join("hub"), &unfinished);
    if std::fs::rename(&unfinished, &kept).is_err() {
        must(std::fs::remove_dir_all(&unfinished), "removing a directory");
    }
    kept
}

/// Copies a directory with the owners of its files.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(must(copied, "cp").success(), "{} is not copied", from.display());
}
