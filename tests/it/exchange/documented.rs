//! The table of routes states correctly which operations read a body.

use evenkeel_exchange::operation::Content;
use evenkeel_exchange::routes;
use http::StatusCode;
use serde_json::json;

use super::request::{self, Aim};
use super::world::{HOME, ROOT, World};

#[tokio::test]
async fn operations_without_a_documented_body_read_none_and_all_others_do() {
    let mut world = World::new().await;
    let aim = Aim { org: HOME, name: "private" };
    for endpoint in routes::all() {
        let path = request::path(&world, &endpoint, endpoint.paths[0], aim);
        match &endpoint.request {
            Content::None => {
                let without = world.call(ROOT, &endpoint.method, &path, None).await.0;
                world.restore().await;
                // A text that is no JSON, as a body of no kind.
                let with = world.call(ROOT, &endpoint.method, &path, Some(&json!("{"))).await.0;
                assert_eq!(with, without, "{} reads a body", endpoint.operation);
            }
            optional if optional.is_optional() => {
                let status = world.call(ROOT, &endpoint.method, &path, None).await.0;
                assert!(status.is_success(), "{} needs a body", endpoint.operation);
            }
            Content::Json(_) => {
                let (status, body) = world.call(ROOT, &endpoint.method, &path, None).await;
                let text = String::from_utf8_lossy(&body);
                assert_eq!(status, StatusCode::BAD_REQUEST, "{} reads no body", endpoint.operation);
                assert_eq!(text, "Request entity expected but not supplied", "{}", endpoint.operation);
            }
            Content::Text(_) => {}
        }
        world.restore().await;
    }
}
