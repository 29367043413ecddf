//! Small responses.

response! {
    /// Response of the liveness test.
    pub struct TestResponse {
        /// `OK`.
        result: String,
    }
}

response! {
    /// Outcome of a write: a machine-readable code and a human-readable message.
    pub struct ApiResponse {
        /// Symbol.
        code: String,
        /// Text.
        msg: String,
    }
}

response! {
    /// Response to a read of one attribute; structured values are JSON text.
    pub struct AttributeResponse {
        /// Name as asked for.
        attribute: String,
        /// Value as text.
        value: String,
    }
}
