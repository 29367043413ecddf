//! Executes management policies: fetches, requests the group's permission, installs, reports every phase
//! (agreement protocol 6).

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use evenkeel_ids::NmpId;
use evenkeel_runtime::worker::Worker;

use super::{
    PassError, Signals, canceled_if_ended,
    package::{self, PackageError},
};
use crate::{
    AgentSettings, clock,
    hub::Hub,
    journal::Journal,
    keyring,
    order::{Ended, Handle, Order},
    step::management::{self, Job, MOST_DOWNLOADS, ManagementCommand, Phase, Unreadable, VersionStep},
    upgrade::{self, Replacement},
};

/// Number of phases of a job in one pass, plus one for finding nothing left to do.
const MOST_ROUNDS: u32 = 8;
/// Seconds until a failed fetch is retried.
const FETCH_AGAIN_SECS: u64 = 60;

/// Follows management policies.
pub(super) struct Management {
    hub: Arc<Hub>,
    handle: Handle,
    settings: Arc<AgentSettings>,
    signals: Arc<Signals>,
    /// Architecture of the machine.
    arch: &'static str,
    /// True if the jobs of the previous run have been handled.
    has_recovered: bool,
    /// The policies that could not be read in the last pass.
    unreadable: BTreeMap<NmpId, Unreadable>,
}

impl Worker for Management {
    type Error = Infallible;
    const NAME: &'static str = "management_policies";
    const IS_INTERRUPTIBLE: bool = true;

    async fn pass(&mut self) -> Result<(), Infallible> {
        let result = if self.has_recovered {
            self.follow_policies().await
        } else {
            self.has_recovered = true;
            self.recover().await.map_err(PassError::Ended)
        };
        match result {
            Ok(()) => {}
            Err(PassError::Hub(error)) => {
                tracing::debug!(%error, "management policies cannot be followed now");
            }
            Err(PassError::Ended(ended)) => canceled_if_ended(Err(ended)).await,
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.settings.management_interval
    }

    async fn signaled(&mut self) {
        self.signals.management.notified().await;
    }
}

impl Management {
    pub fn new(
        hub: Arc<Hub>,
        handle: Handle,
        settings: Arc<AgentSettings>,
        signals: Arc<Signals>,
        arch: &'static str,
    ) -> Self {
        Self { hub, handle, settings, signals, arch, has_recovered: false, unreadable: BTreeMap::new() }
    }

    /// An agent that was restarted while fetching fetches again; one that was restarted during an upgrade runs the new version
    /// now, or the upgrade failed.
    async fn recover(&self) -> Result<(), Ended> {
        let own = self.settings.software_version.clone();
        let failure = upgrade::take_failure(&self.settings.data_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, "the reason for the end of the upgrade cannot be read");
            None
        });
        self.handle
            .with(move |journal| {
                let now = clock::now_secs();
                for (name, job) in &mut journal.jobs {
                    match job.phase {
                        Phase::Downloading => job.enter(Phase::Waiting, now),
                        Phase::Initiated if job.version == own => {
                            tracing::info!(policy = name, version = own, "agent upgrade is done");
                            job.enter(Phase::Successful, now);
                        }
                        Phase::Initiated => {
                            job.error = failure
                                .clone()
                                .unwrap_or_else(|| format!("it was interrupted; version {own} runs"));
                            job.enter(Phase::RolledBack, now);
                        }
                        _ => {}
                    }
                }
            })
            .await
    }

    async fn follow_policies(&mut self) -> Result<(), PassError> {
        if !self.handle.with(|journal| journal.state.is_joined).await? {
            return Ok(());
        }
        let policies = self.hub.exchange.list_management_policies(self.hub.node.org()).await?;
        self.warn_of_unreadable(management::unreadable(&policies));
        self.apply_resets().await?;
        // A job moves through several phases in one pass; permission is requested at most once.
        let mut has_requested = false;
        for _ in 0..MOST_ROUNDS {
            let policies = policies.clone();
            let jitter = rand::random::<f64>();
            let commands = self
                .handle
                .with(move |journal| {
                    let now = clock::now_secs();
                    management::step(&mut journal.jobs, &policies, &journal.state.facts, now, jitter)
                })
                .await?;
            let is_request =
                |command: &ManagementCommand| matches!(command, ManagementCommand::RequestPermission { .. });
            let todo: Vec<_> =
                commands.into_iter().filter(|command| !(has_requested && is_request(command))).collect();
            if todo.is_empty() {
                break;
            }
            for command in todo {
                has_requested |= is_request(&command);
                self.carry_out(command).await?;
            }
        }
        Ok(())
    }

    /// Warns once about each policy that cannot be read, and about each change of one.
    fn warn_of_unreadable(&mut self, found: BTreeMap<NmpId, Unreadable>) {
        for (id, one) in &found {
            if self.unreadable.get(id) != Some(one) {
                let errors = one.errors.join("; ");
                tracing::warn!(policy.id = %id, "management policy `{id}` selects nothing: {errors}");
            }
        }
        self.unreadable = found;
    }

    /// Operators reset a job by writing `reset` into its status.
    async fn apply_resets(&self) -> Result<(), PassError> {
        let statuses = self.hub.exchange.list_management_statuses(&self.hub.node).await?;
        let reset: Vec<String> = statuses
            .into_iter()
            .filter(|(_, status)| {
                status.agent_upgrade_policy_status().is_ok_and(|status| status.status == "reset")
            })
            .map(|(id, _)| id.name().to_owned())
            .collect();
        self.handle
            .with(move |journal| reset.iter().for_each(|name| drop(journal.jobs.remove(name))))
            .await?;
        Ok(())
    }

    async fn carry_out(&self, command: ManagementCommand) -> Result<(), PassError> {
        match command {
            ManagementCommand::Report(name) => self.report(name).await,
            ManagementCommand::Withdraw(name) => {
                self.hub.exchange.delete_management_status(&self.hub.node, &name).await?;
                self.handle.with(move |journal| drop(journal.jobs.remove(&name))).await?;
                Ok(())
            }
            ManagementCommand::Download(name) => self.download(name).await,
            ManagementCommand::RequestPermission { job, group } => self.request_permission(job, group).await,
            ManagementCommand::Install(name) => self.install(name).await,
        }
    }

    async fn job(&self, name: &str) -> Result<Job, Ended> {
        let name = name.to_owned();
        self.handle.with(move |journal| journal.jobs.get(&name).cloned().unwrap_or_default()).await
    }

    async fn enter(
        &self,
        name: &str,
        phase: Phase,
        change: impl FnOnce(&mut Job) + Send + 'static,
    ) -> Result<(), Ended> {
        let name = name.to_owned();
        self.handle
            .with(move |journal| {
                let now = clock::now_secs();
                if let Some(job) = journal.jobs.get_mut(&name) {
                    job.enter(phase, now);
                    change(job);
                    journal.log_event(format!("management policy {name}: {}", phase.word()), now);
                }
            })
            .await
    }

    async fn report(&self, name: String) -> Result<(), PassError> {
        let job = self.job(&name).await?;
        let status = job.status();
        self.hub.exchange.put_management_status(&self.hub.node, &name, &status).await?;
        self.handle
            .with(move |journal| {
                if let Some(stored) = journal.jobs.get_mut(&name).filter(|stored| **stored == job) {
                    stored.is_reported = true;
                }
            })
            .await?;
        Ok(())
    }

    /// Finds the wanted version, compares it with the running one, and fetches its files.
    async fn download(&self, name: String) -> Result<(), PassError> {
        let job = self.job(&name).await?;
        let published = self.hub.exchange.agent_file_versions().await?;
        let published = published.unwrap_or_default().agent_software_versions;
        let source = self.settings.upgrade_source.clone();
        let wanted = match package::wanted_version(source.as_deref(), &job.manifest, self.arch) {
            Ok(wanted) => wanted,
            Err(error) => return self.refuse(&name, Phase::PrecheckFailed, error.to_string()).await,
        };
        let Some(version) = management::resolve(&wanted, &published) else {
            self.enter(&name, Phase::NoAction, |_| {}).await?;
            return Ok(());
        };
        let own = &self.settings.software_version;
        if management::compare(&version, own, job.allows_downgrade) == VersionStep::Keep {
            self.enter(&name, Phase::NoAction, move |job| job.version = version).await?;
            return Ok(());
        }
        if self.settings.restart.is_none() {
            let why = "this agent runs inside another program and cannot replace it".to_owned();
            return self.refuse(&name, Phase::PrecheckFailed, why).await;
        }
        let keys = keyring::trusted_keys(&self.settings.key_directories());
        let now = clock::now_secs();
        match package::fetch(source.as_deref(), &self.settings.data_dir, &version, self.arch, &keys, now) {
            Ok(()) => {
                let is_grouped = self.handle.with(|journal| journal.state.facts.ha_group.is_some()).await?;
                let phase = if is_grouped { Phase::AwaitingGroup } else { Phase::Downloaded };
                self.enter(&name, phase, move |job| job.version = version).await?;
            }
            Err(error @ PackageError::NoProgram { .. }) => {
                return self.refuse(&name, Phase::PrecheckFailed, error.to_string()).await;
            }
            Err(error) => {
                let phase =
                    if job.downloads + 1 >= MOST_DOWNLOADS { Phase::DownloadFailed } else { Phase::Waiting };
                let text = error.to_string();
                tracing::warn!(policy = name, version, error = text, "agent package cannot be fetched");
                self.enter(&name, phase, |job| {
                    job.downloads += 1;
                    job.scheduled_at = clock::now_secs() + FETCH_AGAIN_SECS;
                    job.error = text;
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Ends a job without a change.
    async fn refuse(&self, name: &str, phase: Phase, why: String) -> Result<(), PassError> {
        tracing::warn!(policy = name, why, "agent is not upgraded");
        self.enter(name, phase, |job| job.error = why).await?;
        Ok(())
    }

    /// Every response other than an explicit permission means: request again later.
    async fn request_permission(&self, job: String, group: String) -> Result<(), PassError> {
        match self
            .hub
            .agbot
            .ask_node_management(self.hub.node.org(), &group, self.hub.node.name(), &job)
            .await
        {
            Ok(true) => self.enter(&job, Phase::Downloaded, |_| {}).await?,
            Ok(false) => tracing::info!(policy = job, group, "another member of the group is being upgraded"),
            Err(error) => {
                tracing::info!(policy = job, group, %error, "the permission for the upgrade cannot be requested now");
            }
        }
        Ok(())
    }

    /// Switches to the fetched program, once the hub has recorded the start.
    async fn install(&self, name: String) -> Result<(), PassError> {
        let job = self.job(&name).await?;
        let program = package::program(&self.settings.data_dir, &job.version, self.arch);
        if job.phase == Phase::Initiated {
            let replacement = Replacement { job: name, version: job.version, program };
            self.handle.order(Order::Replace(replacement)).await?;
            // The agent ends.
            return Err(Ended.into());
        }
        // The agbot would count a service that is being started as failed.
        let is_starting = |journal: &mut Journal| {
            journal.state.live().any(|one| one.accepted_at.is_some() && one.started_at.is_none())
        };
        if self.handle.with(is_starting).await? {
            return Ok(());
        }
        match upgrade::version_of(&program).await {
            Ok(version) if version == job.version => {
                self.enter(&name, Phase::Initiated, |_| {}).await?;
                self.report(name).await
            }
            Ok(version) => {
                let why = format!("the program of package {} reports version {version}", job.version);
                self.refuse(&name, Phase::Failed, why).await
            }
            Err(why) => self.refuse(&name, Phase::Failed, why).await,
        }
    }
}
