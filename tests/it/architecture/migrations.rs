//! Migrations are frozen once they are released: databases that have run them would not run a changed one.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{root, writes_golden};
use crate::support::wait::must;

/// Hash and path of each frozen migration. A new migration is added by WRITE_GOLDEN=1, which leaves existing lines alone.
const GOLDEN: &str = "tests/golden/migrations.txt";

#[test]
fn migrations_are_frozen() {
    let mut found = BTreeMap::new();
    add_hashes(&root().join("migrations"), &mut found);
    let golden = must(std::fs::read_to_string(root().join(GOLDEN)), GOLDEN);
    let mut frozen: BTreeMap<String, String> = golden.lines().filter_map(row).collect();
    if writes_golden() {
        for (path, hash) in &found {
            frozen.entry(path.clone()).or_insert_with(|| hash.clone());
        }
        let lines: String = frozen.iter().map(|(path, hash)| format!("{hash}  {path}\n")).collect();
        must(std::fs::write(root().join(GOLDEN), lines), GOLDEN);
    }
    for (path, hash) in &frozen {
        let now = found.get(path);
        assert!(now == Some(hash), "{path} is frozen: undo the change and add a migration instead");
    }
    for path in found.keys() {
        assert!(
            frozen.contains_key(path),
            "{path} is not in {GOLDEN}: WRITE_GOLDEN=1 cargo test --test it migrations_are_frozen"
        );
    }
}

fn row(line: &str) -> Option<(String, String)> {
    let (hash, path) = line.split_once("  ")?;
    Some((path.to_owned(), hash.to_owned()))
}

fn add_hashes(directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in must(std::fs::read_dir(directory), "a directory of migrations") {
        let path = must(entry, "an entry").path();
        if path.is_dir() {
            add_hashes(&path, found);
            continue;
        }
        let bytes = must(std::fs::read(&path), "a migration");
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let path = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        found.insert(path, hash);
    }
}
