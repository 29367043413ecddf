//! The pages of `docs/`, which every listener serves below `/manual/`.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

/// A file of `docs/`.
pub(crate) struct Page {
    /// Path below `docs/`, which is also the path below `/manual/`.
    pub(crate) path: &'static str,
    text: &'static str,
}

macro_rules! pages {
    ($($path:literal),* $(,)?) => {
        &[$(Page { path: $path, text: include_str!(concat!("../../../docs/", $path)) }),*]
    };
}

/// The kinds of pages, in the order of the start page.
pub(crate) const SECTIONS: [(&str, &[Page]); 4] = [
    ("Tutorial", pages!["tutorial/five-minutes.md", "tutorial/containers.md", "tutorial/second-hub.md"]),
    (
        "How to",
        pages![
            "how-to/manage-ha-groups.md",
            "how-to/check-a-placement.md",
            "how-to/roll-out-a-version.md",
            "how-to/recover-instances.md",
            "how-to/run-workloads.md",
            "how-to/come-from-opensvc.md",
            "how-to/come-from-service-fabric.md",
            "how-to/come-from-senlin.md",
            "how-to/keep-configuration-in-files.md",
            "how-to/drain-a-node.md",
            "how-to/upgrade-agents.md",
            "how-to/install-and-upgrade-a-hub.md",
            "how-to/set-up-tls.md",
            "how-to/log-in-with-an-identity-provider.md",
            "how-to/choose-what-an-agbot-serves.md",
            "how-to/back-up-a-hub.md",
            "how-to/monitor-a-hub.md",
            "how-to/read-the-audit-log.md",
            "how-to/troubleshoot-a-hub.md",
            "how-to/run-an-agent.md",
            "how-to/troubleshoot-an-agent.md",
            "how-to/import-from-another-exchange.md",
        ],
    ),
    (
        "Reference",
        pages![
            "reference/cli.md",
            "reference/settings.md",
            "reference/orchestration.md",
            "reference/agent.md",
            "reference/api.md",
            "reference/metrics.md",
            "reference/events.md",
            "reference/exit-codes.md",
            "reference/compatibility.md",
            "reference/benchmarks.md",
        ],
    ),
    (
        "Explanation",
        pages!["explanation/ha-groups.md", "explanation/security.md", "explanation/architecture.md"],
    ),
];

/// Files that the pages refer to and that the start page does not list.
const ATTACHMENTS: &[Page] = pages![
    "explanation/architecture.svg",
    "explanation/rollout.svg",
    "development.md",
    "adr/README.md",
    "adr/0001-sequencer-lease-is-a-row-lock.md",
    "adr/0002-sequencing-commits-durably.md",
    "adr/0003-access-table-is-a-crate.md",
    "adr/0004-writes-are-retried-as-a-whole.md",
    "adr/0005-agbot-reads-status-by-polling.md",
    "adr/0006-one-claim-domain-with-fencing.md",
    "adr/0007-generated-tokens-as-keyed-hash.md",
    "adr/0008-group-property-is-derived.md",
    "adr/0009-writes-are-flushed-by-their-sequencing.md",
    "adr/0010-identity-provider-is-a-crate.md",
    "adr/0011-writes-wait-for-every-exchange.md",
    "adr/0012-audit-records-are-sealed-afterwards.md",
    "adr/0013-logins-in-a-cache-without-a-read-log.md",
    "adr/0014-connections-that-end-well-skip-the-pool.md",
    "adr/0015-agbots-tail-a-log-of-records.md",
    "adr/0016-agbot-effects-go-through-an-outbox.md",
    "adr/0017-parts-of-our-own.md",
    "adr/0018-slow-hashes-wait-in-a-queue.md",
    "adr/0019-supply-chain-checks-are-tests.md",
    "adr/0020-log-lines-name-their-request-without-a-span.md",
    "adr/0021-yaml-is-written-by-hand.md",
    "adr/0022-agreements-follow-tasks.md",
    "adr/0023-one-gate-table.md",
    "adr/0024-crates-are-grouped-by-the-part-of-the-program.md",
    "adr/0025-metrics-rate-limits-and-yaml-after-a-trial.md",
    "adr/0026-one-pipeline-for-every-api.md",
    "design/README.md",
    "design/agbot.md",
    "design/agreement-protocol.md",
    "design/design.md",
    "design/engine.md",
    "design/exchange-api/README.md",
    "design/exchange-api/changes.md",
    "design/exchange-api/clients.md",
    "design/exchange-api/routes.md",
    "design/orchestration/README.md",
    "design/orchestration/actions.md",
    "design/orchestration/control-plane.md",
    "design/orchestration/ha-groups.md",
    "design/orchestration/health-policies.md",
    "design/orchestration/health-reports.md",
    "design/orchestration/modes.md",
    "design/orchestration/node-loss.md",
    "design/orchestration/placement.md",
    "design/orchestration/precedence.md",
    "design/orchestration/resources.md",
    "design/orchestration/restarts.md",
    "design/orchestration/updates.md",
    "design/requirements.md",
    "design/scenarios.md",
    "monitoring/alerts.yml",
    "monitoring/dashboard.json",
];

/// Addresses of earlier versions, and the pages that replaced them.
const MOVED: [(&str, &str); 9] = [
    ("overview", "explanation/ha-groups.md"),
    ("running-a-hub", "reference/settings.md"),
    ("agent", "reference/agent.md"),
    ("ha-groups", "how-to/manage-ha-groups.md"),
    ("cli", "reference/cli.md"),
    ("security", "explanation/security.md"),
    ("import", "how-to/import-from-another-exchange.md"),
    ("compatibility", "reference/compatibility.md"),
    ("exit-codes", "reference/exit-codes.md"),
];

impl Page {
    /// Returns the first heading of the page.
    pub(crate) fn title(&self) -> &'static str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(self.path)
    }

    fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "text/plain; charset=utf-8",
        }
    }
}

fn all() -> impl Iterator<Item = &'static Page> {
    SECTIONS.iter().flat_map(|(_, pages)| pages.iter()).chain(ATTACHMENTS)
}

/// Serves `GET /manual/{path}`; the extension `.md` may be left out.
pub(crate) async fn get_manual(Path(path): Path<String>) -> Response {
    let name = path.strip_suffix(".md").unwrap_or(&path);
    if let Some(page) = all().find(|page| page.path == path || page.path.strip_suffix(".md") == Some(name)) {
        return ([(header::CONTENT_TYPE, page.content_type())], page.text).into_response();
    }
    match MOVED.iter().find(|(old, _)| *old == name) {
        Some((_, new)) => Redirect::permanent(&format!("/manual/{new}")).into_response(),
        None => (StatusCode::NOT_FOUND, "The manual has no such page.\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Component, Path as FilePath, PathBuf};

    use super::*;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");

    fn files(directory: &FilePath, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).expect("a directory of the manual").flatten() {
            let path = entry.path();
            if path.is_dir() {
                files(&path, found);
            } else {
                let name = path.strip_prefix(DOCS).expect("a file of the manual");
                found.insert(name.to_str().expect("UTF-8").to_owned());
            }
        }
    }

    /// Resolves `target`, a link of `page`, to a path below `docs/`; `None` when it leads outside.
    fn resolve(page: &str, target: &str) -> Option<String> {
        let mut resolved = PathBuf::from(page).parent()?.to_path_buf();
        for component in FilePath::new(target).components() {
            match component {
                Component::ParentDir => {
                    if !resolved.pop() {
                        return None;
                    }
                }
                other => resolved.push(other),
            }
        }
        Some(resolved.to_str()?.to_owned())
    }

    #[test]
    fn every_file_of_docs_is_served() {
        let mut found = BTreeSet::new();
        files(FilePath::new(DOCS), &mut found);
        let paths: BTreeSet<String> = all().map(|page| page.path.to_owned()).collect();
        assert_eq!(paths, found);
    }

    #[test]
    fn links_of_served_pages_lead_to_served_pages() {
        let paths: BTreeSet<&str> = all().map(|page| page.path).collect();
        for page in all().filter(|page| page.path.ends_with(".md")) {
            let targets = page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            for (target, _) in targets.filter(|(target, _)| !target.contains("://")) {
                let file = target.split('#').next().unwrap_or_default();
                let resolved =
                    if file.is_empty() { Some(page.path.to_owned()) } else { resolve(page.path, file) };
                let is_served = resolved.is_some_and(|path| paths.contains(path.as_str()));
                assert!(is_served, "{}: {target} is not served", page.path);
            }
        }
    }

    #[tokio::test]
    async fn addresses_of_earlier_versions_redirect_to_served_pages() {
        for (old, new) in MOVED {
            let response = get_manual(Path(format!("{old}.md"))).await;
            assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT, "{old}");
            assert_eq!(response.headers()[header::LOCATION], format!("/manual/{new}"));
            assert_eq!(get_manual(Path(new.to_owned())).await.status(), StatusCode::OK, "{new}");
        }
    }

    #[tokio::test]
    async fn pages_are_served_with_their_content_type() {
        for (path, content_type) in [
            ("explanation/ha-groups", "text/plain; charset=utf-8"),
            ("explanation/architecture.svg", "image/svg+xml"),
            ("monitoring/dashboard.json", "application/json"),
        ] {
            let response = get_manual(Path(path.to_owned())).await;
            assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{path}");
        }
        assert_eq!(get_manual(Path("none".to_owned())).await.status(), StatusCode::NOT_FOUND);
    }
}
