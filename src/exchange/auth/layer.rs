//! Middleware around every route below `/v1`: credentials first, then routing; headers of every answer.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::basic::parse_login;
use crate::Exchange;

/// Authenticates the caller and puts it into the request's extensions.
pub(crate) async fn authenticate(
    State(exchange): State<Exchange>,
    mut request: Request,
    next: Next,
) -> Response {
    let login = match parse_login(request.headers()) {
        Ok(login) => login,
        Err(error) => return error.into_response(),
    };
    match exchange.credentials().identify(login).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}
