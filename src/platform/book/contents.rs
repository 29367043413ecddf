//! The sections of the book, and the pages of a directory in the order of the book.

use std::path::Path;

use crate::BookError;

/// A section: a directory of `docs/` with all directories in it.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// What the overview says about it.
    pub(crate) summary: &'static str,
    /// Empty for the pages that lie in no directory.
    directory: &'static str,
    order: Order,
}

enum Order {
    /// These pages, then the others by title.
    Title(&'static [&'static str]),
    FileName,
}

/// The sections, in the order of the book.
pub(crate) const SECTIONS: [Section; 7] = [
    Section {
        title: "Tutorial",
        summary: "Learn by doing, from the first hub to two of them.",
        directory: "tutorial",
        order: Order::Title(&["five-minutes", "containers", "second-hub"]),
    },
    Section {
        title: "How to",
        summary: "Steps for one task each.",
        directory: "how-to",
        order: Order::Title(&[
            "install-and-upgrade-a-hub",
            "run-an-agent",
            "use-the-console",
            "manage-ha-groups",
            "run-workloads",
        ]),
    },
    Section {
        title: "Reference",
        summary: "Commands, settings, API, metrics and events.",
        directory: "reference",
        order: Order::Title(&["cli", "settings", "orchestration", "agent", "api"]),
    },
    Section {
        title: "Explanation",
        summary: "How it works, and why it can be relied on.",
        directory: "explanation",
        order: Order::Title(&[]),
    },
    Section {
        title: "Design",
        summary: "The rules that the program implements.",
        directory: "design",
        order: Order::Title(&["design", "requirements"]),
    },
    Section {
        title: "Decision records",
        summary: "What was decided, and what follows from it.",
        directory: "adr",
        order: Order::FileName,
    },
    Section {
        title: "Development",
        summary: "Build, test and change the program.",
        directory: "",
        order: Order::Title(&[]),
    },
];

/// A page of the book.
pub(crate) struct Document {
    /// Path below `docs/`, with `.md`.
    pub(crate) path: String,
    /// Position in [`SECTIONS`].
    pub(crate) section: usize,
    pub(crate) title: String,
    pub(crate) text: String,
}

impl Document {
    /// Returns the address below the listener's root.
    pub(crate) fn href(&self) -> String {
        format!("/manual/{}", self.path.trim_end_matches(".md"))
    }

    fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    fn stem(&self) -> &str {
        let name = self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name);
        name.trim_end_matches(".md")
    }
}

/// Everything in `docs/`.
pub(crate) struct Contents {
    /// In the order of the book.
    pub(crate) documents: Vec<Document>,
    /// Paths and bytes of files that pages refer to, sorted by path.
    pub(crate) attachments: Vec<(String, Vec<u8>)>,
}

/// Reads all files below `docs`.
pub(crate) fn read(docs: &Path) -> Result<Contents, BookError> {
    let mut paths = Vec::new();
    list(docs, "", &mut paths)?;
    paths.sort();
    let mut contents = Contents { documents: Vec::new(), attachments: Vec::new() };
    for path in paths {
        let file = docs.join(&path);
        let unreadable = |source| BookError::Read { path: file.clone(), source };
        if path.ends_with(".md") {
            let text = std::fs::read_to_string(&file).map_err(unreadable)?;
            contents.documents.push(document(path, text)?);
        } else {
            contents.attachments.push((path, std::fs::read(&file).map_err(unreadable)?));
        }
    }
    contents.documents.sort_by_cached_key(position);
    Ok(contents)
}

fn list(docs: &Path, below: &str, paths: &mut Vec<String>) -> Result<(), BookError> {
    let directory = docs.join(below);
    let unreadable = |source| BookError::Read { path: directory.clone(), source };
    for entry in std::fs::read_dir(&directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().map_err(unreadable)?.is_dir() {
            list(docs, &path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

fn document(path: String, text: String) -> Result<Document, BookError> {
    let directory = path.split_once('/').map_or("", |(directory, _)| directory);
    let Some(section) = SECTIONS.iter().position(|section| section.directory == directory) else {
        return Err(BookError::NoSection { path });
    };
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).map(str::to_owned);
    let Some(title) = title else { return Err(BookError::NoTitle { path }) };
    Ok(Document { path, section, title, text })
}

/// Returns what pages are sorted by: within a section the README of a directory comes first, and directories inside come after its pages.
fn position(document: &Document) -> (usize, String, bool, usize, String) {
    let stem = document.stem();
    let (rank, name) = match SECTIONS[document.section].order {
        Order::Title(first) => {
            let rank =
                first.iter().position(|one| *one == stem && document.directory().matches('/').count() == 0);
            (rank.unwrap_or(first.len()), document.title.to_lowercase())
        }
        Order::FileName => (0, stem.to_owned()),
    };
    (document.section, document.directory().to_owned(), stem != "README", rank, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(paths_and_titles: &[(&str, &str)]) -> Vec<String> {
        let read = |(path, title): &(&str, &str)| document((*path).to_owned(), format!("# {title}\n"));
        let mut documents: Vec<Document> =
            paths_and_titles.iter().map(|one| read(one).expect("a page")).collect();
        documents.sort_by_cached_key(position);
        documents.into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn pages_follow_sections_then_the_listed_order_then_titles() {
        let sorted = sorted(&[
            ("adr/0002-b.md", "2. A"),
            ("adr/0001-a.md", "1. B"),
            ("design/parts/a.md", "A"),
            ("design/parts/README.md", "Z"),
            ("design/b.md", "A"),
            ("design/README.md", "Z"),
            ("how-to/zebra.md", "Alpha"),
            ("how-to/apple.md", "beta"),
            ("tutorial/second-hub.md", "A"),
            ("tutorial/five-minutes.md", "Z"),
            ("development.md", "Development"),
        ]);
        assert_eq!(
            sorted,
            [
                "tutorial/five-minutes.md",
                "tutorial/second-hub.md",
                "how-to/zebra.md",
                "how-to/apple.md",
                "design/README.md",
                "design/b.md",
                "design/parts/README.md",
                "design/parts/a.md",
                "adr/0001-a.md",
                "adr/0002-b.md",
                "development.md",
            ]
        );
    }

    #[test]
    fn page_without_section_or_title_is_refused() {
        let refused = |path: &str, text: &str| {
            document(path.to_owned(), text.to_owned()).err().map(|one| one.to_string())
        };
        assert!(
            refused("recipes/x.md", "# X\n").is_some_and(|text| text.contains("recipes/x.md: no section"))
        );
        assert!(refused("how-to/x.md", "X\n").is_some_and(|text| text.contains("no first heading")));
    }

    #[test]
    fn first_pages_of_sections_exist() {
        let contents = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs"))).expect("docs");
        for section in &SECTIONS {
            let Order::Title(first) = section.order else { continue };
            for stem in first {
                let path = format!("{}/{stem}.md", section.directory);
                assert!(contents.documents.iter().any(|document| document.path == path), "{path}");
            }
        }
    }
}
