//! Modules inside a crate: the circles among those at its top, which may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::members;
use super::source::{Source, sources, without_comments_and_strings};

/// Circles that are left, by the crate. Modules that are in none use each other in one direction only.
const CIRCLES: &[(&str, &[&str])] = &[];

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_of_a_crate_form_no_further_circle() {
    let mut found = BTreeSet::new();
    let sources = sources();
    for member in members().iter().filter(|member| !member.directory.is_empty()) {
        let directory = format!("{}/", member.directory);
        let own: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(&directory)).collect();
        for circle in circles(&graph(&own, &directory)) {
            found.insert((member.name.clone(), circle));
        }
    }
    let known: BTreeSet<(String, BTreeSet<String>)> = CIRCLES
        .iter()
        .map(|(name, modules)| ((*name).to_owned(), modules.iter().map(|one| (*one).to_owned()).collect()))
        .collect();
    assert_eq!(
        found, known,
        "a circle that is new or larger is to be undone; one that is smaller, to be listed as such"
    );
}

/// Returns which modules at the top of a crate use which others.
fn graph(sources: &[&Source], directory: &str) -> Graph {
    let top = |source: &Source| {
        let path = source.path.strip_prefix(directory).unwrap_or(&source.path);
        path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
    };
    let mut graph: Graph = sources.iter().map(|source| (top(source), BTreeSet::new())).collect();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let module = top(source);
        if matches!(module.as_str(), "lib" | "main") {
            continue;
        }
        let used = used_modules(&without_comments_and_strings(source.product_text()));
        let used: Vec<String> =
            used.into_iter().filter(|one| *one != module && graph.contains_key(one)).collect();
        graph.entry(module).or_default().extend(used);
    }
    graph
}

/// Returns the names after `crate::` in a source, those in a list included.
fn used_modules(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (start, _) in code.match_indices("crate::") {
        let is_word = code[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let rest = &code[start + "crate::".len()..];
        match rest.strip_prefix('{') {
            _ if is_word => {}
            None => used.extend(word(rest)),
            Some(list) => used.extend(heads(list)),
        }
    }
    used
}

fn word(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Returns the first name of each entry of a list, up to its closing brace.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut starts) = (0, vec![0]);
    for (position, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(position + 1),
            _ => {}
        }
    }
    starts.iter().filter_map(|start| word(list[*start..].trim_start())).collect()
}

/// Returns the sets of modules that use each other, by way of others or not.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|module| (module, reachable(graph, module))).collect();
    let circle = |module: &String| {
        let back = |other: &&&String| reached[**other].contains(module);
        reached[module].iter().filter(back).map(|other| (*other).clone()).collect::<BTreeSet<String>>()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

fn reachable<'a>(graph: &'a Graph, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = graph[from].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(&graph[module]);
        }
    }
    reached
}

#[test]
fn circles_are_found() {
    let code = "use crate::{\n    a::{self, b::c},\n    d,\n};\nfn f() { crate::e::g(); my_crate::h(); }";
    assert_eq!(used_modules(code), ["a", "d", "e"].map(str::to_owned).into());
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let graph: Graph = [("a", set(&["b"])), ("b", set(&["c"])), ("c", set(&["a"])), ("d", set(&["a"]))]
        .map(|(module, used)| (module.to_owned(), used))
        .into();
    assert_eq!(circles(&graph), [set(&["a", "b", "c"])].into());
}
