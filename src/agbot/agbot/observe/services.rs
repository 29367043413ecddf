//! Reads services with what they require.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_client::ClientError;
use evenkeel_ids::{ServiceId, ServiceKey};
use evenkeel_placement::matching::needed_services;
use evenkeel_planner_model::event::Event;

use super::read;
use super::served_entries::SHARED_ORG;
use crate::context::Context;

/// The services that were read: each key once, whatever requires it.
#[derive(Default)]
pub(super) struct Services {
    /// Services required by the versions of a service, or the error of reading them.
    requirements: BTreeMap<ServiceKey, Result<BTreeSet<ServiceKey>, ClientError>>,
    found: BTreeSet<ServiceId>,
    events: Vec<Event>,
    /// Organization from which they are seen: private services of others do not exist. None: all are read.
    seen_from: Option<String>,
}

impl Services {
    /// Reads the services that exist for a document of an organization, as the exchange decides when one is written.
    pub fn seen_from(org: &str) -> Self {
        Self { seen_from: Some(org.to_owned()), ..Self::default() }
    }

    fn is_visible(&self, org: &str, is_public: bool) -> bool {
        is_public || self.seen_from.as_deref().is_none_or(|from| [from, SHARED_ORG].contains(&org))
    }

    /// Reads services and their requirements, until no new ones are required.
    ///
    /// # Errors
    /// That of the first service that could not be read, now or before.
    pub async fn read(&mut self, context: &Context, keys: BTreeSet<ServiceKey>) -> Result<(), ClientError> {
        let mut waiting: Vec<ServiceKey> = keys.into_iter().collect();
        let mut done: BTreeSet<ServiceKey> = BTreeSet::new();
        while let Some(key) = waiting.pop() {
            if !done.insert(key.clone()) {
                continue;
            }
            if !self.requirements.contains_key(&key) {
                let read = self.read_versions(context, &key).await;
                self.requirements.insert(key.clone(), read);
            }
            match &self.requirements[&key] {
                Ok(required) => waiting.extend(required.iter().cloned()),
                Err(error) => return Err(error.clone()),
            }
        }
        Ok(())
    }

    async fn read_versions(
        &mut self,
        context: &Context,
        key: &ServiceKey,
    ) -> Result<BTreeSet<ServiceKey>, ClientError> {
        let mut required = BTreeSet::new();
        for (id, service) in context.client.find_services(key.org(), key.name(), None, None).await? {
            if !self.is_visible(key.org(), service.public) {
                continue;
            }
            let events = read::service_events(context, &id, service).await?;
            for event in &events {
                if let Event::ServiceChanged { service } = event {
                    required.extend(needed_services(service));
                }
            }
            self.events.extend(events);
            self.found.insert(id);
        }
        Ok(required)
    }

    /// Returns whether the service was found.
    pub fn has(&self, service: &ServiceId) -> bool {
        self.found.contains(service)
    }

    /// Returns the events about the services that were found since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}
