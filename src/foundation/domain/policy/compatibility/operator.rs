//! The namespace inside a cluster operator: in the packed manifests of a service whose metadata names none.
//!
//! Reads just enough of the archive (base64, gzip, tar) and of the manifests to find one name; everything is bounded.
//! Source: agreement-protocol 4.2, 3.8.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

/// Maximum size of an unpacked archive in bytes.
const MAX_UNPACKED: u64 = 16 * 1024 * 1024;
const BLOCK: usize = 512;

/// The error of an invalid operator archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// The text is not base64.
    #[error("the operator is not base64")]
    NotBase64,
    /// The data does not begin with a gzip header.
    #[error("the operator is not a gzip archive")]
    NotGzip,
    /// The archive ends inside a file.
    #[error("the operator's archive is cut off")]
    CutOff,
    /// The unpacked archive is too large.
    #[error("the operator unpacks to more than {MAX_UNPACKED} bytes")]
    TooLarge,
}

/// Returns the name of the namespace that an operator creates, else that of its deployment, else the empty text.
///
/// # Shape
/// `archive`: base64 of a gzipped tar of manifests; several manifests may share a file.
/// # Errors
/// [`OperatorError`].
pub fn namespace(archive: &str) -> Result<String, OperatorError> {
    let compact: String = archive.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    let packed = STANDARD.decode(compact).map_err(|_| OperatorError::NotBase64)?;
    let mut namespace = String::new();
    for file in files(&unpack(&packed)?)? {
        for text in String::from_utf8_lossy(file).split("---") {
            if let Some(manifest) = Manifest::read(text) {
                manifest.set_namespace(&mut namespace);
            }
        }
    }
    Ok(namespace)
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, OperatorError> {
    let decoder = GzDecoder::new(packed);
    if decoder.header().is_none() {
        return Err(OperatorError::NotGzip);
    }
    let mut unpacked = Vec::new();
    // Data that was unpacked before an error is used; whether it suffices becomes apparent when the files are read.
    let _whole = decoder.take(MAX_UNPACKED + 1).read_to_end(&mut unpacked);
    if u64::try_from(unpacked.len()).is_ok_and(|length| length > MAX_UNPACKED) {
        return Err(OperatorError::TooLarge);
    }
    Ok(unpacked)
}

/// Returns the contents of the archive's files; an invalid header ends the archive.
fn files(mut rest: &[u8]) -> Result<Vec<&[u8]>, OperatorError> {
    let mut found = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        let Some(length) = content_length(header) else {
            break;
        };
        let (kind, length) = (header[156], if header[156] == b'5' { 0 } else { length });
        let content = after.get(..length).ok_or(OperatorError::CutOff)?;
        // Directories, and headers with metadata of the next file.
        if !matches!(kind, b'5' | b'x' | b'g' | b'L' | b'K') {
            found.push(content);
        }
        rest = after.get(length.next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    Ok(found)
}

/// Reads the length of a file from a header of 512 bytes; `None` when its checksum is wrong.
fn content_length(header: &[u8]) -> Option<usize> {
    let stated = octal(&header[148..156])?;
    let outside: usize = header.iter().map(|byte| usize::from(*byte)).sum();
    let inside: usize = header[148..156].iter().map(|byte| usize::from(*byte)).sum();
    // The checksum is computed with blanks in its own field.
    (outside - inside + 8 * usize::from(b' ') == stated).then_some(())?;
    octal(&header[124..136])
}

fn octal(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?;
    usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

/// The relevant part of a manifest.
#[derive(Default)]
struct Manifest {
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
}

impl Manifest {
    fn read(text: &str) -> Option<Self> {
        if text.trim_start().starts_with('{') {
            return Self::from_json(&serde_json::from_str(text).ok()?);
        }
        let mut manifest = Self::default();
        let mut metadata_indent = None;
        let mut is_in_metadata = false;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        {
            let indent = line.len() - line.trim_start().len();
            let Some((key, value)) = line.trim().split_once(':') else {
                continue;
            };
            if indent == 0 {
                is_in_metadata = key == "metadata";
                match key {
                    "apiVersion" => manifest.api_version = scalar(value),
                    "kind" => manifest.kind = scalar(value),
                    _ => {}
                }
            } else if is_in_metadata && *metadata_indent.get_or_insert(indent) == indent {
                match key {
                    "name" => manifest.name = scalar(value),
                    "namespace" => manifest.namespace = scalar(value),
                    _ => {}
                }
            }
        }
        Some(manifest)
    }

    fn from_json(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = object.get("metadata")?;
        Some(Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
        })
    }

    /// Sets the namespace that the manifest determines; the manifest of a namespace takes precedence over that of a deployment.
    fn set_namespace(self, namespace: &mut String) {
        match (self.api_version.as_str(), self.kind.as_str()) {
            ("v1", "Namespace") => *namespace = self.name,
            ("apps/v1", "Deployment") if namespace.is_empty() => *namespace = self.namespace,
            _ => {}
        }
    }
}

/// Returns a value without quotes and trailing comment.
fn scalar(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some((value, _)) = text.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return value.to_owned();
        }
    }
    text.split(" #").next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn tar(files: &[(u8, &str)]) -> Vec<u8> {
        let mut archive = Vec::new();
        for (kind, content) in files {
            let mut header = [0; BLOCK];
            header[..4].copy_from_slice(b"file");
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[148..156].copy_from_slice(b"        ");
            header[156] = *kind;
            let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            archive.extend_from_slice(&header);
            archive.extend_from_slice(content.as_bytes());
            archive.resize(archive.len().next_multiple_of(BLOCK), 0);
        }
        archive.resize(archive.len() + 2 * BLOCK, 0);
        archive
    }

    fn packed(archive: &[u8]) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(archive).unwrap();
        STANDARD.encode(encoder.finish().unwrap())
    }

    const DEPLOYMENT: &str =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n  namespace: 'from-deployment'\n";
    const NAMESPACE: &str =
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  labels:\n    name: no\n  name: own # comment\n";

    #[test]
    fn own_namespace_counts_more_than_that_of_a_deployment() {
        assert_eq!(namespace(&packed(&tar(&[(b'0', DEPLOYMENT)]))), Ok("from-deployment".into()));
        let both = format!("{NAMESPACE}---\n{DEPLOYMENT}");
        assert_eq!(namespace(&packed(&tar(&[(b'5', ""), (b'0', &both)]))), Ok("own".into()));
        assert_eq!(namespace(&packed(&tar(&[(b'0', "kind: Service\n")]))), Ok(String::new()));
        let json = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"as-json"}}"#;
        assert_eq!(namespace(&packed(&tar(&[(b'0', json)]))), Ok("as-json".into()));
    }

    #[test]
    fn broken_archives_are_refused() {
        assert_eq!(namespace("*"), Err(OperatorError::NotBase64));
        assert_eq!(namespace("AAAA"), Err(OperatorError::NotGzip));
        assert_eq!(namespace(""), Err(OperatorError::NotGzip));
        let whole = tar(&[(b'0', DEPLOYMENT)]);
        assert_eq!(namespace(&packed(&whole[..BLOCK + 3])), Err(OperatorError::CutOff));
        assert_eq!(namespace(&packed(b"no archive at all")), Ok(String::new()));
        assert_eq!(namespace(&packed(&vec![0; 17 * 1024 * 1024])), Err(OperatorError::TooLarge));
    }
}
