//! What every operation of the API has in common.

pub(crate) mod transaction;
