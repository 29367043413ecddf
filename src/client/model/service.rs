//! Services (exchange API 4.6).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

tolerant! {
    /// A service definition.
    pub struct Service {
        /// Owner, `org/user`.
        owner: String,
        /// Display name.
        label: String,
        /// Text for people.
        description: String,
        /// Whether other organisations see it.
        public: bool,
        /// Address of its documentation.
        documentation: String,
        /// Name.
        url: String,
        /// Version.
        version: String,
        /// Architecture.
        arch: String,
        /// `multiple`, `singleton`, `single` or `exclusive`.
        sharable: String,
        /// Unused.
        match_hardware: Value,
        /// Dependencies.
        required_services: Vec<RequiredService>,
        /// Declared user input.
        user_input: Vec<Value>,
        /// Deployment text exactly as signed.
        deployment: String,
        /// Signature of the deployment text.
        deployment_signature: String,
        /// Cluster deployment text exactly as signed.
        cluster_deployment: String,
        /// Signature of the cluster deployment text.
        cluster_deployment_signature: String,
        /// Last change.
        last_updated: String,
    }
}

tolerant! {
    /// A dependency of a service.
    pub struct RequiredService {
        /// Name.
        url: String,
        /// Organisation.
        org: String,
        /// Old name of the version range.
        version: String,
        /// Version range.
        version_range: String,
        /// Architecture.
        arch: String,
    }
}

tolerant! {
    /// Login for an image registry.
    pub struct DockAuth {
        /// Number.
        dock_auth_id: i64,
        /// Registry host.
        registry: String,
        /// User name, `token` by default.
        username: String,
        /// Secret.
        token: String,
    }
}

#[derive(Deserialize, Default)]
pub(crate) struct ServiceMap {
    #[serde(default)]
    pub services: BTreeMap<String, Service>,
}
