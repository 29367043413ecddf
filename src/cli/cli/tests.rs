//! The command line as a whole: its arguments and its documentation.

use clap::CommandFactory;

use super::*;

#[test]
fn definitions_are_consistent() {
    Hzn::command().debug_assert();
}

#[test]
fn committed_reference_is_what_the_program_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/cli.md");
    if std::env::var_os("WRITE_REFERENCE").is_some() {
        std::fs::write(page, reference()).expect("docs/reference/cli.md is written");
    }
    let committed = std::fs::read_to_string(page).expect("docs/reference/cli.md is read");
    assert!(
        reference() == committed,
        "docs/reference/cli.md is not up to date: WRITE_REFERENCE=1 cargo test -p evenkeel-cli committed_reference"
    );
}

#[test]
fn commands_of_the_existing_tool_and_of_the_design_are_understood() {
    let lines = [
        "exchange hagroup create g --nodeId n1 --nodeId n2 --nodeId n3",
        "exchange hagroup update g --nodeId n1 --nodeId n2",
        "exchange hagroup delete g",
        "exchange hagroup list g",
        "exchange hagroup member add g -m n1 -m n2",
        "deploycheck --checkHA -n n1 -b p",
        "deploycheck all -n n1 -b p -u a:b -o acme",
        "exchange -o acme -u ann:pw node list -l",
        "exchange node list -n n1:tok n1",
        "exchange node create n1:tok -T device",
        "exchange node create -n n1:tok -m name",
        "exchange node orchestration show n1",
        "exchange node orchestration set n1 --availability drain",
        "exchange node orchestration freeze n1",
        "exchange node orchestration thaw n1",
        "exchange deployment addpolicy p -f p.json",
        "exchange business listpolicy p",
        "exchange service publish -f s.json -k private -K public -O",
        "exchange nmp add fw -f nmp.json",
        "exchange nmp status fw --node n1 -l",
        "exchange user create ann pw ann@acme.com -A",
        "exchange user setadmin ann true",
        "exchange user create ann pw ann@acme.com --role viewer",
        "exchange user setrole ann deployer --policies shop-*,web",
        "exchange user setrole ann user",
        "exchange user createkey ann --role deployer --policies shop-* --expires-in 3600 --label ci",
        "exchange user removekey ann 7d1",
        "exchange org create acme -d words -t k=v --heartbeatmin 3",
        "agreement list -r",
        "agbot agreement list",
        "register -n n1:t -o acme --policy p.json --ha-group g -s cam -t 30",
        "register acme -f input.json",
        "unregister -f -r",
        "node list",
        "policy update -f p.json",
        "service configstate suspend acme cam",
        "key create acme cn -l 4096 -d keys",
        "util verify -K key -s sig",
        "status -l",
        "version",
        "explain n1 p --watch",
        "explain p --node n1 --unit all",
        "explain acme/n1 acme/p --watch=5 --output yaml",
    ];
    for line in lines {
        let words = std::iter::once("hzn").chain(line.split(' '));
        assert!(Hzn::try_parse_from(words).is_ok(), "not understood: hzn {line}");
    }
    for line in ["exchange hagroup member add g", "explain", "exchange node list --output xml", "nonsense"] {
        let words = std::iter::once("hzn").chain(line.split(' '));
        assert!(Hzn::try_parse_from(words).is_err(), "understood: hzn {line}");
    }
}

#[test]
fn wrong_use_has_the_status_of_the_contract_and_help_is_no_failure() {
    let status =
        |line: &str| run(std::iter::once("hzn").chain(line.split(' ')).map(OsString::from).collect());
    assert_eq!(status("nonsense"), 1);
    assert_eq!(status("exchange hagroup --help"), 0);
    assert_eq!(status("--version"), 0);
}
