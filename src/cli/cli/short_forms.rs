//! Short forms of commands, as the existing tool has them.

use clap::Command;

/// The path of each command without `hzn`, and its short form.
const FORMS: &[(&str, &str)] = &[
    ("agbot agreement", "ag"),
    ("agbot agreement list", "ls"),
    ("agreement", "ag"),
    ("agreement list", "ls"),
    ("agreement cancel", "can"),
    ("deploycheck", "dc"),
    ("deploycheck policy", "pol"),
    ("deploycheck secretbinding", "sb"),
    ("deploycheck userinput", "u"),
    ("eventlog", "ev"),
    ("eventlog list", "ls"),
    ("eventlog surface", "sf"),
    ("exchange", "ex"),
    ("exchange agbot adddeploymentpol", "addpo"),
    ("exchange agbot addpattern", "addpa"),
    ("exchange agbot list", "ls"),
    ("exchange agbot listdeploymentpol", "lspo"),
    ("exchange agbot listpattern", "lspa"),
    ("exchange agbot removedeploymentpol", "rmpo"),
    ("exchange agbot removepattern", "rmpa"),
    ("exchange deployment", "dep"),
    ("exchange deployment addpolicy", "addp"),
    ("exchange deployment listpolicy", "ls"),
    ("exchange deployment removepolicy", "rmp"),
    ("exchange deployment updatepolicy", "upp"),
    ("exchange nmp list", "ls"),
    ("exchange nmp remove", "rm"),
    ("exchange node addpolicy", "addp"),
    ("exchange node create", "cr"),
    ("exchange node confirm", "con"),
    ("exchange node list", "ls"),
    ("exchange node listerrors", "lse"),
    ("exchange node listpolicy", "lsp"),
    ("exchange node management", "mgmt"),
    ("exchange node liststatus", "lst"),
    ("exchange node remove", "rm"),
    ("exchange node removepolicy", "rmp"),
    ("exchange node update", "up"),
    ("exchange node updatepolicy", "upp"),
    ("exchange org create", "cr"),
    ("exchange org list", "ls"),
    ("exchange org remove", "rm"),
    ("exchange org update", "up"),
    ("exchange pattern", "pat"),
    ("exchange pattern list", "ls"),
    ("exchange pattern publish", "pub"),
    ("exchange pattern remove", "rm"),
    ("exchange service", "serv"),
    ("exchange service addpolicy", "addp"),
    ("exchange service list", "ls"),
    ("exchange service listauth", "lsau"),
    ("exchange service listkey", "lsk"),
    ("exchange service listpolicy", "lsp"),
    ("exchange service newpolicy", "newp"),
    ("exchange service publish", "pub"),
    ("exchange service remove", "rm"),
    ("exchange service removeauth", "rmau"),
    ("exchange service removekey", "rmk"),
    ("exchange service removepolicy", "rmp"),
    ("exchange service verify", "vf"),
    ("exchange hagroup", "hagr"),
    ("exchange hagroup list", "ls"),
    ("exchange hagroup remove", "rm"),
    ("exchange hagroup member", "mb"),
    ("exchange hagroup member remove", "rm"),
    ("exchange user create", "cr"),
    ("exchange user list", "ls"),
    ("exchange user remove", "rm"),
    ("exchange user setadmin", "sa"),
    ("key create", "cr"),
    ("key import", "imp"),
    ("key list", "ls"),
    ("key remove", "rm"),
    ("node list", "ls"),
    ("policy", "pol"),
    ("policy list", "ls"),
    ("policy remove", "rm"),
    ("policy update", "up"),
    ("register", "reg"),
    ("service", "serv"),
    ("service configstate", "cfg"),
    ("service configstate list", "ls"),
    ("service configstate resume", "r"),
    ("service configstate suspend", "s"),
    ("service list", "ls"),
    ("service registered", "reg"),
    ("unregister", "unreg"),
    ("userinput", "u"),
    ("userinput list", "ls"),
    ("userinput remove", "rm"),
    ("userinput update", "up"),
    ("util configconv", "cfg"),
    ("util verify", "vf"),
];

/// Adds the short forms of the commands.
pub fn add(command: Command) -> Command {
    FORMS.iter().fold(command, |command, (path, form)| {
        let words: Vec<&str> = path.split(' ').collect();
        at(command, &words, form)
    })
}

fn at(command: Command, path: &[&str], form: &'static str) -> Command {
    match path.split_first() {
        Some((word, rest)) => command.mut_subcommand(word, |inner| at(inner, rest, form)),
        None => command.alias(form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_form_leads_to_its_command() {
        let command = crate::command();
        for (path, form) in FORMS {
            let words: Vec<&str> = path.split(' ').collect();
            let (last, parents) = words.split_last().expect("a command");
            let parent = parents.iter().fold(&command, |command, word| {
                command.find_subcommand(word).unwrap_or_else(|| panic!("no command {path}"))
            });
            let found = parent.find_subcommand(form).map(Command::get_name);
            assert_eq!(found, Some(*last), "{path}: {form}");
        }
    }

    #[test]
    fn short_forms_are_understood_in_a_whole_line() {
        for line in [
            "hzn ex dep addp --no-constraints -f p.json p",
            "hzn ex serv pub -O -I -f s.json",
            "hzn reg -p IBM/hello -s hello --serviceorg IBM",
            "hzn unreg -f",
            "hzn dc pol -n n1 -b p",
            "hzn util cfg -f hzn.json",
            "hzn ag ls",
        ] {
            assert!(crate::command().try_get_matches_from(line.split(' ')).is_ok(), "not understood: {line}");
        }
    }
}
