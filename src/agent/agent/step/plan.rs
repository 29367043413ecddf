//! Outstanding commands: the difference between the wanted and the achieved state.

use super::{Agreement, Command, State};

impl State {
    /// Returns all outstanding commands. The shell skips those in flight or pausing after a failure.
    pub fn plan(&self) -> Vec<Command> {
        let mut commands: Vec<_> =
            self.agreements.values().filter_map(|agreement| self.service(agreement)).collect();
        commands.extend(self.dependency_commands());
        commands.extend(self.contact_check());
        commands.extend(self.leftovers.iter().map(|key| Command::Stop { agreement: key.clone() }));
        if self.node.is_empty() || !self.is_joined {
            // Services are started and stopped without the hub; everything else waits for it.
            return commands;
        }
        commands.extend(self.outbox.keys().map(|number| Command::Send(*number)));
        commands.extend(self.agreements.values().filter_map(record));
        commands.extend(self.task_reports());
        commands.extend(self.health_reports());
        commands.extend(self.lease_reports());
        commands.extend(self.restart_reports());
        let status = Some(self.status());
        if self.has_seen_all_services() && !self.reported_status.is(&status) {
            commands.extend(status.map(Box::new).map(Command::ReportStatus));
        }
        let services = Some(self.used_services());
        if self.facts.pattern.is_empty() && !self.reported_services.is(&services) {
            commands.extend(services.map(Command::ReportServices));
        }
        if !self.reported_errors.is(&self.errors) {
            commands.push(Command::ReportErrors(self.errors.clone()));
        }
        commands
    }

    /// Records that the reports among commands begin, which is to be saved before they do.
    pub fn begin_reports(&mut self, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Record { agreement, .. } => {
                    self.change(agreement, |agreement| agreement.recorded.begin());
                }
                Command::ReportStatus(_) => self.reported_status.begin(),
                Command::ReportServices(_) => self.reported_services.begin(),
                Command::ReportErrors(_) => self.reported_errors.begin(),
                Command::ReportHealth { task, .. } => {
                    self.tasks.entry(task.clone()).and_modify(|task| {
                        task.reported_health.begin();
                        task.reported_broken.begin();
                    });
                }
                Command::ReportPeers { task, .. } => {
                    self.tasks.entry(task.clone()).and_modify(|task| task.reported_peers.begin());
                }
                Command::ReportRestarts { task, .. } => {
                    self.tasks.entry(task.clone()).and_modify(|task| task.reported_restarts.begin());
                }
                Command::ReportLease { task, .. } => {
                    self.tasks.entry(task.clone()).and_modify(|task| task.reported_lease.begin());
                }
                // These are repeated until they succeed, regardless of changes in the meantime.
                Command::Send(_)
                | Command::ReportTask { .. }
                | Command::ReportCommand { .. }
                | Command::ReportLifecycle { .. }
                | Command::Prepare { .. }
                | Command::SetRestarts { .. }
                | Command::Start { .. }
                | Command::Restart { .. }
                | Command::CheckContact
                | Command::Supervise { .. }
                | Command::Kill { .. }
                | Command::Stop { .. }
                | Command::StartDependency { .. }
                | Command::StopDependency { .. } => {}
            }
        }
    }

    /// Returns the services that are to run and whose start was recorded.
    pub fn started(&self) -> impl Iterator<Item = &String> {
        let agreements = self.live().filter(|agreement| agreement.is_start_ordered).map(|one| &one.id);
        let instances =
            self.instances.iter().filter(|(key, one)| one.is_start_ordered && self.is_needed(key));
        agreements.chain(instances.map(|(key, _)| key))
    }

    /// Returns the services to start now. After a crash the driver may already have received the order, because the
    /// journal is written after it.
    pub fn starting(&self) -> impl Iterator<Item = String> {
        self.plan().into_iter().filter_map(|command| match command {
            Command::Start { agreement: key } | Command::StartDependency { key } => Some(key),
            _ => None,
        })
    }

    /// After a restart nothing is reported before every service was observed: an empty document would report them as down.
    fn has_seen_all_services(&self) -> bool {
        self.started().all(|key| self.observed.contains_key(key))
    }

    fn service(&self, agreement: &Agreement) -> Option<Command> {
        let id = || agreement.id.clone();
        if agreement.ending.is_some() {
            let stop = |agreement| match self.is_fenced(&id()) {
                true => Command::Kill { agreement },
                false => Command::Stop { agreement },
            };
            return (!agreement.is_stopped).then(|| stop(id()));
        }
        let is_task = self.task_of(&agreement.id).is_some();
        if agreement.is_start_ordered {
            if let Some(command) = self.own_restart(agreement).or_else(|| self.supervising_command(agreement))
            {
                return Some(command);
            }
            let restarts = !is_task;
            return (agreement.has_no_restarts == restarts)
                .then(|| Command::SetRestarts { agreement: id(), restarts });
        }
        if is_task && agreement.accepted_at.is_some() && !agreement.is_prepared {
            return Some(Command::Prepare { agreement: id() });
        }
        let may_run = self.may_run(agreement) && self.is_lease_settled(agreement);
        let may_run = may_run && !self.is_reopened_task_running(agreement);
        let is_wanted = agreement.accepted_at.is_some() && may_run;
        (is_wanted && !self.predecessor_runs(agreement) && self.has_dependencies(agreement))
            .then(|| Command::Start { agreement: id() })
    }

    /// An ending agreement for the same service must be stopped first: two versions would compete for ports and files. Between
    /// tasks the hub's engine decides about that.
    pub(super) fn predecessor_runs(&self, agreement: &Agreement) -> bool {
        let is_task = |one: &Agreement| self.task_of(&one.id).is_some();
        self.agreements.values().any(|other| {
            other.ending.is_some()
                && !other.is_stopped
                && !(is_task(agreement) && is_task(other))
                && other.workload.qualified_url() == agreement.workload.qualified_url()
        })
    }
}

fn record(agreement: &Agreement) -> Option<Command> {
    let state = agreement.wanted_record();
    (!agreement.recorded.is(&state)).then(|| Command::Record { agreement: agreement.id.clone(), state })
}
