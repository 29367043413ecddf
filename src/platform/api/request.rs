//! A request as its API knows it.

use std::future::ready;

use axum::response::IntoResponse;

use crate::Refusal;

/// One request as its API knows it: the state that handlers work with, and who asks.
pub trait ApiRequest: Sized + Send + Sync + 'static {
    /// The response to a request that is not carried out.
    type Refusal: From<Refusal> + IntoResponse + Send + 'static;

    /// Input as it arrives: received already, or yet to be received.
    type Incoming: Send + 'static;

    /// Input as it was received.
    type Sent: Send;

    /// Receives the input.
    ///
    /// # Errors
    /// Those of the transfer: too large, broken off, of another type.
    fn receive(
        &self,
        kind: BodyKind,
        incoming: Self::Incoming,
    ) -> impl Future<Output = Result<Self::Sent, Self::Refusal>> + Send;

    /// Called with each request that is about to be carried out, when its permission is granted and its input is read.
    ///
    /// # Errors
    /// When the request must not be carried out.
    fn begin(&self) -> impl Future<Output = Result<(), Self::Refusal>> + Send {
        ready(Ok(()))
    }
}

/// The kind of body that a request sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// A text that the request calls JSON.
    Json,
    /// The same, or anything else, which is left alone.
    OptionalJson,
    /// Bytes of any type.
    Raw,
    /// Nothing: whatever is sent is left alone.
    None,
}
