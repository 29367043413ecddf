//! The documents of `hzn apply`: a kind, a name and the specification of the resource.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::Context;
use crate::exit::{CliError, Exit, Outcome};
use crate::input::{Shaped, read_documents, shaped};
use crate::shape::{DeploymentPolicyFile, HaGroupFile, NmpFile, ServiceFile};
use crate::text_file::shown;

/// Kinds of documents, in the order in which they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// A service.
    Service,
    /// An HA group.
    HaGroup,
    /// A deployment policy.
    Policy,
    /// A management policy.
    Nmp,
}

impl DocumentKind {
    /// All kinds in the order in which they are applied.
    pub const ALL: [Self; 4] = [Self::Service, Self::HaGroup, Self::Policy, Self::Nmp];

    /// The word in documents and output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::HaGroup => "hagroup",
            Self::Policy => "policy",
            Self::Nmp => "nmp",
        }
    }
}

/// One document.
#[derive(Debug)]
pub struct Document {
    /// Kind of the resource.
    pub kind: DocumentKind,
    /// Name of the resource; a service is named by its url, version and arch.
    pub name: String,
    /// Desired contents.
    pub spec: Shaped,
    /// The directory of the file that holds it.
    pub directory: PathBuf,
}

/// A document as it is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
struct DocumentFile {
    kind: String,
    name: String,
    spec: Value,
}

/// Reads the documents of a file, of standard input for `-`, or of the files of a directory in the order of their names.
///
/// # Errors
/// With status 3 or 4 for files that cannot be used, 1 for a document without a name.
pub fn read(path: &Path, context: &Context) -> Outcome<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files(path)? {
        for value in read_documents(&file, context)? {
            let values = if let Value::Array(values) = value { values } else { vec![value] };
            for value in values {
                documents.push(understood(&file, &value, context)?);
            }
        }
    }
    documents.sort_by_key(|document| document.kind);
    Ok(documents)
}

fn files(path: &Path) -> Outcome<Vec<PathBuf>> {
    if path == Path::new("-") || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: std::io::Error| CliError::file("reading", path, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("json" | "yaml" | "yml")) {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}

fn understood(file: &Path, value: &Value, context: &Context) -> Outcome<Document> {
    let refuse = |exit: Exit, why: String| {
        CliError::new(
            exit,
            format!("{} cannot be applied", shown(file)),
            why,
            "a document has kind (service, hagroup, policy or nmp), name and spec",
        )
    };
    let written = shaped::<DocumentFile>(&shown(file), value, context)?.document;
    let DocumentFile { kind: word, name, spec } =
        serde_json::from_value(written).map_err(|error| refuse(Exit::Json, error.to_string()))?;
    let kind = DocumentKind::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(&word));
    let Some(kind) = kind else {
        return Err(refuse(Exit::Json, format!("{word:?} is not a kind of document")));
    };
    if name.is_empty() && kind != DocumentKind::Service {
        return Err(refuse(Exit::Input, format!("a document of kind {} has no name", kind.word())));
    }
    let part = if name.is_empty() {
        format!("the spec of a {}", kind.word())
    } else {
        format!("the spec of {name}")
    };
    if !spec.is_object() {
        return Err(refuse(Exit::Json, format!("{part} is not an object")));
    }
    let part = format!("{}, {part}", shown(file));
    let spec = match kind {
        DocumentKind::Service => shaped::<ServiceFile>(&part, &spec, context)?,
        DocumentKind::HaGroup => shaped::<HaGroupFile>(&part, &spec, context)?,
        DocumentKind::Policy => shaped::<DeploymentPolicyFile>(&part, &spec, context)?,
        DocumentKind::Nmp => shaped::<NmpFile>(&part, &spec, context)?,
    };
    let directory = file.parent().unwrap_or_else(|| Path::new("")).to_owned();
    Ok(Document { kind, name, spec, directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_a_directory_are_applied_in_the_order_of_their_kinds() {
        let directory = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
        write(
            "a.yaml",
            "kind: policy\nname: p\nspec: {label: x}\n---\nkind: hagroup\nname: g\nspec: {members: [n1]}\n",
        );
        write("b.json", r#"[{"kind": "service", "spec": {"url": "s"}}]"#);
        write("README.md", "no document");
        let documents = read(directory.path(), &Context::default()).expect("documents");
        let kinds: Vec<&str> = documents.iter().map(|document| document.kind.word()).collect();
        assert_eq!(kinds, ["service", "hagroup", "policy"]);
    }

    #[test]
    fn documents_without_name_kind_or_spec_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let exit = |text: &str| {
            let file = directory.path().join("d.yaml");
            std::fs::write(&file, text).expect("a file");
            read(&file, &Context::default()).map_err(|error| error.exit).map(|documents| documents.len())
        };
        assert_eq!(exit("kind: policy\nspec: {}\n"), Err(Exit::Input));
        assert_eq!(exit("kind: node\nname: n\nspec: {}\n"), Err(Exit::Json));
        assert_eq!(exit("kind: nmp\nname: n\nspecs: {}\n"), Err(Exit::Json));
        assert_eq!(exit("Kind: NMP\nname: n\nspec: {}\n"), Ok(1));
        assert_eq!(exit("kind: policy\nname: p\nspec: {lable: x}\n"), Ok(1));
        assert_eq!(exit("kind: policy\nname: p\nspec: {label: []}\n"), Err(Exit::Json));
    }
}
