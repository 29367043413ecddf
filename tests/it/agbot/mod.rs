//! The agbot inside a hub, asked as nodes ask it.

mod rolling;
mod upgrade;
