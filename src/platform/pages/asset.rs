//! Style, script and icon, served below `/assets/` under names that change with their content.

use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::compression::compress;
use crate::response::StoredBody;

/// A file that pages refer to.
pub struct Asset {
    href: String,
    body: StoredBody,
}

impl Asset {
    /// Names and compresses a file.
    /// # Shape
    /// `stem` and `extension` form the address, with a hash of the content between them.
    #[must_use]
    pub fn new(stem: &str, extension: &str, content_type: &'static str, content: &[u8]) -> Self {
        let digest = Sha256::digest(content);
        let hash: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let body =
            StoredBody { content_type, etag: hash.clone().into(), gzip: Bytes::from(compress(content)) };
        Self { href: format!("{stem}-{hash}.{extension}"), body }
    }

    /// Returns the address, which names this content forever.
    #[must_use]
    pub fn href(&self) -> &str {
        &self.href
    }

    /// Returns what is served there.
    #[must_use]
    pub fn body(&self) -> &StoredBody {
        &self.body
    }
}

/// The style of all pages.
pub static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("/assets/evenkeel", "css", "text/css; charset=utf-8", include_bytes!("assets/evenkeel.css"))
});

/// The script of all pages, which only adds comfort: every page works without it.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "/assets/evenkeel",
        "js",
        "text/javascript; charset=utf-8",
        include_bytes!("assets/evenkeel.js"),
    )
});

pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("/assets/icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")));

/// Returns the asset with this name below `/assets/`.
#[must_use]
pub fn find_asset(name: &str) -> Option<&'static Asset> {
    let assets: [&'static Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    assets.into_iter().find(|asset| asset.href.strip_prefix("/assets/") == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_with_the_content() {
        let name = |content: &str| Asset::new("/assets/a", "css", "text/css", content.as_bytes()).href;
        assert_eq!(name("one"), name("one"));
        assert_ne!(name("one"), name("two"));
        assert!(name("one").starts_with("/assets/a-") && name("one").ends_with(".css"), "{}", name("one"));
    }

    #[test]
    fn assets_are_found_by_their_whole_name() {
        let name = STYLE.href().strip_prefix("/assets/").expect("an address of an asset");
        assert!(find_asset(name).is_some_and(|asset| asset.href() == STYLE.href()));
        for other in ["", "evenkeel.css", "../evenkeel.css", "evenkeel-0000000000000000.css"] {
            assert!(find_asset(other).is_none(), "{other}");
        }
    }
}
