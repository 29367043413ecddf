//! Bodies are kept compressed, and expanded for the few clients that cannot read them so.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Returns `body` as gzip; the same bytes for the same body.
#[must_use]
pub fn compress(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 3), Compression::best());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory takes every byte")
}

/// Expands what [`compress`] has returned.
#[must_use]
pub fn decompress(gzip: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(gzip.len() * 4);
    GzDecoder::new(gzip).read_to_end(&mut body).expect("the program contains whole bodies only");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_and_compress_to_the_same_bytes() {
        let body = "evenkeel ".repeat(1000);
        let gzip = compress(body.as_bytes());
        assert!(gzip.len() < 200, "{} bytes", gzip.len());
        assert_eq!(gzip, compress(body.as_bytes()));
        assert_eq!(decompress(&gzip), body.as_bytes());
    }
}
