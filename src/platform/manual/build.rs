//! Renders `docs/` into the pages that the manual includes.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let docs = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    evenkeel_book::write_book(&docs, &PathBuf::from(std::env::var("OUT_DIR")?))?;
    Ok(())
}
