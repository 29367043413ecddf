//! Exchanges in this process, over real databases: who may do what, and what must hold between requests and between exchanges.

mod access;
mod privacy;
mod request;
mod world;
