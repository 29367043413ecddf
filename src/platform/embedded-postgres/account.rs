//! The operating system account that the server runs as, because PostgreSQL refuses to run as root.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};

/// The ids of an unprivileged user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Main group id.
    pub gid: u32,
}

/// The account `nobody`, for systems that do not list it (an image without `/etc/passwd`).
const NOBODY: Account = Account { uid: 65534, gid: 65534 };

impl Account {
    /// Returns the account to run the server of `directory` as; `None` if this process is not root, and thus unprivileged itself.
    ///
    /// It is the owner of the directory if that is an ordinary user, else `postgres` if it exists, else `nobody`.
    #[must_use]
    pub fn for_directory(directory: &Metadata) -> Option<Self> {
        if !Uid::effective().is_root() {
            return None;
        }
        if directory.uid() != 0 {
            return Some(Self {
                uid: directory.uid(),
                gid: main_group(directory.uid()).unwrap_or(directory.gid()),
            });
        }
        Some(named("postgres").or_else(|| named("nobody")).unwrap_or(NOBODY))
    }

    /// Returns whether this account may traverse a directory, according to the mode of the directory alone.
    #[must_use]
    pub fn may_enter(self, directory: &Metadata) -> bool {
        let mode = directory.mode();
        if directory.uid() == self.uid {
            mode & 0o100 != 0
        } else if directory.gid() == self.gid {
            mode & 0o010 != 0
        } else {
            mode & 0o001 != 0
        }
    }

    /// Returns the innermost directory among `path` and its parents that this account may not traverse.
    #[must_use]
    pub fn first_closed(self, path: &Path) -> Option<&Path> {
        path.ancestors()
            .filter(|directory| !directory.as_os_str().is_empty())
            .find(|directory| !std::fs::metadata(directory).is_ok_and(|metadata| self.may_enter(&metadata)))
    }

    /// The user's name, or its id where it has none.
    #[must_use]
    pub fn name(self) -> String {
        let user = User::from_uid(Uid::from_raw(self.uid)).ok().flatten();
        user.map_or_else(|| self.uid.to_string(), |user| user.name)
    }
}

fn named(name: &str) -> Option<Account> {
    let user = User::from_name(name).ok().flatten()?;
    (!user.uid.is_root()).then_some(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() })
}

fn main_group(uid: u32) -> Option<u32> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
    // The group with id 0 would be a privilege that the server must not have.
    let gid = (user.gid != Gid::from_raw(0)).then_some(user.gid)?;
    Group::from_gid(gid).ok().flatten().map(|group| group.gid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn another_account_is_blocked_by_a_private_parent() {
        let parent = tempfile::tempdir().unwrap();
        let inner = parent.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let other = Account { uid: 54321, gid: 54321 };
        std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(other.first_closed(&inner), Some(parent.path()));
        std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(other.first_closed(&inner), None);
        let owner = Account { uid: std::fs::metadata(&inner).unwrap().uid(), gid: 54321 };
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o011)).unwrap();
        assert!(
            !owner.may_enter(&std::fs::metadata(&inner).unwrap()),
            "the owner's bits count for the owner"
        );
    }
}
