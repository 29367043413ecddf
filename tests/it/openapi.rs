//! The committed document of the API is the one that the code makes.

use crate::support::{Program, Scratch};

#[tokio::test]
async fn the_committed_document_is_what_the_program_prints() {
    let scratch = Scratch::new();
    let mut program = Program::start(&scratch, &["openapi"], None);
    assert_eq!(program.wait().await, 0, "{}", program.errors());
    let committed = include_str!("../../openapi/exchange.json");
    assert!(
        program.output() == committed,
        "openapi/exchange.json is not up to date: evenkeel openapi > openapi/exchange.json"
    );
}
