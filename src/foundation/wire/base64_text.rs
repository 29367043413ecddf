//! Base64 as the protocol's other programs read and write it (agreement protocol, conventions).
//!
//! Standard alphabet with padding. Line breaks are skipped and unused trailing bits are ignored, because
//! signatures made by command line tools often carry a final newline.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The text is not standard base64 with padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is not base64")]
pub struct InvalidBase64;

/// Encodes bytes in the standard alphabet with padding, in one line.
pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// Decodes standard base64, skipping carriage returns and line feeds.
///
/// # Errors
/// [`InvalidBase64`] for any other foreign character and for missing padding.
pub fn decode(text: &str) -> Result<Vec<u8>, InvalidBase64> {
    if text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
        let joined: String = text.chars().filter(|character| !matches!(character, '\r' | '\n')).collect();
        return ENGINE.decode(joined).map_err(|_| InvalidBase64);
    }
    ENGINE.decode(text).map_err(|_| InvalidBase64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_skipped_but_blanks_are_not() {
        assert_eq!(decode("aGVs\r\nbG8=\n").unwrap(), b"hello");
        assert_eq!(decode("aGVs bG8="), Err(InvalidBase64));
    }

    #[test]
    fn padding_is_required() {
        assert_eq!(decode("aGVsbG8"), Err(InvalidBase64));
    }
}
