//! Pure domain of Evenkeel: versions, the policy language and its rules, error messages.
//!
//! No async, no input or output, no clock, no environment, no logging: every input of a function is an argument.
//! See the design, "The agbot" and "How it is tested".

pub mod assigned_role;
pub mod causes;
pub mod document;
pub mod object;
pub mod orchestration;
pub mod policy;
pub mod review;
pub mod text;
#[cfg(any(test, feature = "vectors"))]
pub mod vectors_reader;
pub mod version;

#[cfg(test)]
mod vectors;
