//! `hzn rollout show`: one rollout in detail, with the time left and what failing nodes have in common.

use evenkeel_wire::RawJson;
use evenkeel_wire::agbot::common::{CommonCause, CommonCauses};
use evenkeel_wire::agbot::rollout_detail::{RolloutDetail, RolloutStep, RolloutWave, StepPhase};
use serde_json::Value;

use crate::context::{Context, Exchange};
use crate::exit::{CliError, Outcome};
use crate::output::{Table, View, print_note};

/// Returns the rollout of a policy in detail.
///
/// # Errors
/// With status 5 when the agbot does not respond, 8 when the policy has no rollout.
pub async fn view(context: &Context, exchange: &Exchange, policy: &str) -> Outcome<View> {
    let (org, id) = exchange.split(policy);
    let agbot = context.agbot(exchange)?;
    let doing = format!("asking for the rollout of {org}/{id}");
    let found = agbot.call(&doing, agbot.client.rollout_detail_record(&org, &id)).await?;
    let missing = || CliError::not_found("rollout of policy", &format!("{org}/{id}"), "hzn rollout status");
    let record: RawJson = found.ok_or_else(missing)?;
    let detail: RolloutDetail = agbot.read(&doing, &record)?;
    Ok(View::new(record.into_value(), table(&detail)))
}

/// Prints how long the rollout of a policy still takes, if the agbot can say that.
pub async fn note_time_left(context: &Context, exchange: &Exchange, policy: &str) {
    let (org, id) = exchange.split(policy);
    let Ok(agbot) = context.agbot(exchange) else { return };
    // Third-party agbots have no such operation.
    let Ok(Some(record)) = agbot.client.rollout_detail_record(&org, &id).await else { return };
    let Ok(detail) = record.read::<RolloutDetail>() else { return };
    if let Some(left) = &detail.time_left {
        print_note(format!("time left: {}", left.text));
    }
    let causes = detail.common.iter().flat_map(|common| &common.causes);
    causes.take(3).for_each(|cause| print_note(format!("in common: {}", cause.text)));
}

fn table(detail: &RolloutDetail) -> Table {
    let mut table = Table::new(&["about", "state", "text"]).keeping(&["state", "text"]);
    let left = detail.time_left.as_ref().map(|left| left.text.clone()).unwrap_or_default();
    table.push(["rollout".to_owned(), detail.state.clone(), left]);
    for wave in &detail.waves {
        table.push([wave_name(wave), format!("{}/{}", wave.done, wave.total), wave_text(wave)]);
    }
    for phase in &detail.phases {
        table.push([format!("phase {}", phase.phase), seconds(phase.seconds), phase_text(phase)]);
    }
    for cause in detail.common.iter().flat_map(|common| &common.causes) {
        table.push(["in common".to_owned(), format!("lift {:.1}", cause.lift), cause.text.clone()]);
    }
    for step in &detail.steps {
        table.push([format!("step {}", step.node), step.state.clone(), step_text(step)]);
    }
    table
}

fn wave_name(wave: &RolloutWave) -> String {
    match wave.kind.as_str() {
        "all" => "all slots".to_owned(),
        kind => format!("{kind} {}", wave.name),
    }
}

fn wave_text(wave: &RolloutWave) -> String {
    let counts = [(wave.in_work, "in work"), (wave.failed, "failed")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{count} {what}"));
    let times = [("from", &wave.started_at), ("to", &wave.finished_at)];
    let times = times.iter().filter_map(|(word, at)| Some(format!("{word} {}", at.as_deref()?)));
    counts.chain(times).collect::<Vec<_>>().join(", ")
}

fn phase_text(phase: &StepPhase) -> String {
    match (phase.measured, phase.longest_seconds) {
        (Some(measured), Some(longest)) => {
            format!("median of {measured} measured, the longest took {}", seconds(longest))
        }
        _ => "as the settings say".to_owned(),
    }
}

fn step_text(step: &RolloutStep) -> String {
    let since = step.running_at.as_ref().or(step.started_at.as_ref());
    let since = since.map(|at| format!(", since {at}")).unwrap_or_default();
    format!("{}{since}", step.evidence)
}

fn seconds(secs: f64) -> String {
    format!("{secs:.0} s")
}

/// Returns what nodes have in common as a view.
pub fn view_of_common(record: RawJson, common: &CommonCauses) -> View {
    let header = ["kind", "name", "value", "selected", "all", "lift", "by chance"];
    let mut table = Table::new(&header).keeping(&["name", "value", "lift"]);
    let cells = |cause: &CommonCause| {
        [
            cause.kind.clone(),
            cause.name.clone(),
            cause.value.clone(),
            format!("{}/{}", cause.failing, common.failing),
            format!("{}/{}", cause.whole, common.whole),
            format!("{:.1}", cause.lift),
            chance(cause.by_chance),
        ]
    };
    common.causes.iter().for_each(|cause| table.push(cells(cause)));
    let json: Value = record.into_value();
    View::new(json, table)
}

/// A number of which very small values differ in nothing that matters.
fn chance(number: f64) -> String {
    if number < 0.001 { "< 0.001".to_owned() } else { format!("{number:.3}") }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::agbot::rollout_detail::TimeLeft;
    use serde_json::json;

    use super::*;

    #[test]
    fn rollout_is_shown_with_waves_steps_and_common_values() {
        let cause = CommonCause { lift: 7.78, text: "42 of 45".into(), ..CommonCause::default() };
        let detail = RolloutDetail {
            state: "updating".into(),
            time_left: Some(TimeLeft { text: "about 12 min".into(), ..TimeLeft::default() }),
            waves: vec![RolloutWave {
                kind: "ha-group".into(),
                name: "g".into(),
                total: 3,
                done: 1,
                in_work: 1,
                ..RolloutWave::default()
            }],
            phases: vec![StepPhase { phase: "watch".into(), seconds: 30.0, ..StepPhase::default() }],
            steps: vec![RolloutStep {
                node: "n1".into(),
                state: "watched".into(),
                evidence: "it runs".into(),
                ..RolloutStep::default()
            }],
            common: Some(CommonCauses { causes: vec![cause], ..CommonCauses::default() }),
            ..RolloutDetail::default()
        };
        let rows = table(&detail).rows;
        let expected = [
            ["rollout", "updating", "about 12 min"],
            ["ha-group g", "1/3", "1 in work"],
            ["phase watch", "30 s", "as the settings say"],
            ["in common", "lift 7.8", "42 of 45"],
            ["step n1", "watched", "it runs"],
        ];
        assert_eq!(rows, expected.map(|row| row.map(str::to_owned).to_vec()));
    }

    #[test]
    fn common_values_are_a_table_and_the_record_stays() {
        let cause = CommonCause {
            kind: "property".into(),
            name: "kernel".into(),
            value: "5.10".into(),
            failing: 3,
            whole: 6,
            lift: 5.0,
            by_chance: 0.0149,
            ..CommonCause::default()
        };
        let common = CommonCauses { failing: 3, whole: 30, causes: vec![cause], ..CommonCauses::default() };
        let view = view_of_common(json!({"more": 1}).into(), &common);
        assert_eq!(view.json, json!({"more": 1}));
        assert_eq!(view.table.rows[0], ["property", "kernel", "5.10", "3/3", "6/30", "5.0", "0.015"]);
        assert_eq!(chance(1e-30), "< 0.001");
    }
}
