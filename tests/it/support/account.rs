//! Running as root and as an ordinary user.

use std::os::unix::fs::chown;
use std::path::Path;

use evenkeel_embedded_postgres::Account;
use nix::unistd::{Uid, User};

/// The ordinary user to run as; `None` when the tests themselves do not run as root and so are ordinary already.
pub fn ordinary() -> Option<Account> {
    if !Uid::effective().is_root() {
        return None;
    }
    let nobody = User::from_name("nobody").ok().flatten();
    Some(nobody.map_or(Account { uid: 65534, gid: 65534 }, |user| Account {
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
    }))
}

/// Gives a file or directory to the ordinary user.
pub fn give(path: &Path) {
    if let Some(account) = ordinary() {
        chown(path, Some(account.uid), Some(account.gid)).expect("root may give files away");
    }
}
