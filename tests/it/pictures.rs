//! The pictures of the manual: each belongs to a page of the console that exists, and is shown by a page of the manual.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::architecture::source::files;
use crate::support::wait::must;

/// Bytes of all pictures: they are a part of the program.
const MOST_BYTES: u64 = 600 * 1024;
/// Width in pixels.
const WIDTH: u32 = 1_200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    must(std::fs::read_to_string(root().join(path)), path)
}

/// Returns the pictures that the list names, each with its page and its height.
fn listed() -> Vec<(String, String, u32)> {
    let found: Value = must(serde_json::from_str(&read("docs/images/pictures.json")), "the list of pictures");
    let text = |one: &Value, name: &str| one[name].as_str().expect("a text").to_owned();
    let entries = found.as_array().expect("a list");
    let entry = |one: &Value| {
        let height = one["height"].as_u64().and_then(|height| u32::try_from(height).ok());
        (text(one, "file"), text(one, "page"), height.expect("a height"))
    };
    entries.iter().map(entry).collect()
}

/// Returns whether a route with parameters matches a path.
fn matches(route: &str, path: &str) -> bool {
    let (route, path): (Vec<&str>, Vec<&str>) = (route.split('/').collect(), path.split('/').collect());
    let is_it = |(one, other): (&&str, &&str)| one.starts_with('{') || one == other;
    route.len() == path.len() && route.iter().zip(&path).all(is_it)
}

#[test]
fn pictures_are_the_listed_ones_and_small() {
    let listed = listed();
    let directory = root().join("docs/images");
    let found: BTreeSet<String> = files(&directory, "png")
        .iter()
        .map(|file| file.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let names: BTreeSet<String> = listed.iter().map(|(file, ..)| file.clone()).collect();
    assert_eq!(found, names, "make them with tests/pictures.sh, or change docs/images/pictures.json");
    let mut bytes = 0;
    for (file, _, height) in &listed {
        let content = must(std::fs::read(directory.join(file)), file);
        assert!(content.starts_with(b"\x89PNG\r\n\x1a\n"), "{file} is no PNG");
        let number = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((number(16), number(20)), (WIDTH, *height), "{file}");
        bytes += content.len() as u64;
    }
    assert!(bytes < MOST_BYTES, "{bytes} bytes");
}

#[test]
fn each_picture_is_of_a_page_that_exists_and_is_shown() {
    let routes = [read("src/console/console/lib.rs"), read("src/console/console/fleet/mod.rs")].concat();
    let routes: Vec<&str> =
        routes.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let pages: String = files(&root().join("docs"), "md")
        .iter()
        .map(|page| must(std::fs::read_to_string(page), "a page"))
        .collect();
    for (file, page, _) in listed() {
        let path = page.split('?').next().unwrap_or_default();
        assert!(routes.iter().any(|route| matches(route, path)), "{file}: the console has no page {path}");
        assert!(pages.contains(&format!("images/{file})")), "no page of the manual shows {file}");
    }
    assert!(!matches("/console/orgs/{org}/now", "/console/orgs/o/later"));
}

#[test]
fn drawings_have_a_title_a_description_and_dark_colors() {
    for name in ["rollout", "failover", "claim"] {
        let drawing = read(&format!("docs/explanation/{name}.svg"));
        for part in [
            "role=\"img\" aria-labelledby=\"title desc\"",
            "<title id=\"title\">",
            "<desc id=\"desc\">",
            "@media (prefers-color-scheme: dark)",
        ] {
            assert!(drawing.contains(part), "{name}.svg has no {part}");
        }
        assert!(!drawing.contains("<script") && !drawing.contains("href="), "{name}.svg");
    }
}
