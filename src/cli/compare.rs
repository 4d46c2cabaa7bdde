//! `lasthop compare`

use std::mem;

use lasthop_model::record::{ComparedEndpoints, Origin};
use lasthop_plan::{
    given::{self, NAME},
    plan::Plan,
    settings::{Overrides, PlacementChoice},
};
use lasthop_protocol::{location::HIDDEN, spec::Spec, url::redacted};
use lasthop_run::{
    Job,
    compare::{self, CompareError, CompareRequest, EndpointRequest},
};
use lasthop_stack::locate::Locator;
use lasthop_system::interrupt;
use lasthop_trial::address::UNIX_NAME_MAX;

use super::{
    args,
    context::{command_line, home},
    explain,
    load::fill_password,
    output::{CliError, Exit, OrExit, writable},
    run::{carry_out, settings},
    signals::watch_signals,
    values::{NamedUrl, named_url},
};

pub fn compare(arguments: &args::Compare) -> Exit {
    if !matches!(
        arguments.overrides.placement,
        PlacementChoice::Auto | PlacementChoice::Free
    ) {
        return Err(CliError::usage(
            "--placement cannot be used: lasthop does not start these servers",
        ));
    }
    given::check_number(arguments.endpoints.len()).or_usage()?;
    writable(arguments.output.output.as_deref())?;
    let request = CompareRequest {
        endpoints: arguments
            .endpoints
            .iter()
            .map(|NamedUrl { name, url }| {
                let spec = arguments.requests.spec(url, 0)?;
                begins_at_root(url, &spec)?;
                Ok(EndpointRequest {
                    name: name.clone(),
                    url: redacted(url),
                    spec,
                })
            })
            .collect::<Result<_, CliError>>()?,
        learn: arguments.requests.learns(),
        unchecked: arguments.requests.unchecked(),
        differing: arguments.differing,
        remote: arguments.remote,
        restart: arguments.restart.clone(),
        pids: arguments.pids.iter().cloned().collect(),
    };
    watch_signals()?;
    let examined = compare::examine(request, || !interrupt::heard()).map_err(|error| match error {
        // Checked first, because an interrupted examination also ends with an error, which means nothing.
        _ if interrupt::heard() => CliError::interrupted("interrupted; nothing was measured"),
        CompareError::NoAnswer(_) => CliError::failed(error),
        other => CliError::usage(other),
    })?;
    let plan = Plan::of_given(examined.given.clone()).or_usage()?;
    let overrides = Overrides {
        placement: PlacementChoice::Free,
        explain: explain::wanted(&arguments.layers)?,
        ..arguments.overrides.clone()
    };
    let settings = settings(&plan, overrides, &arguments.output)?;
    examined.check_room(&settings).or_usage()?;
    let home = home()?;
    let locator = Locator::new(&home, NAME, Default::default());
    let job = Job::new(&plan, settings, &locator, &home, command(arguments)).with_origin(origin());
    carry_out(&job, None, &arguments.talk, &arguments.output)
}

/// Refuses a path that is relative because its absolute form is too long: the driver is another process, with its own
/// working folder.
fn begins_at_root(url: &str, spec: &Spec) -> Result<(), CliError> {
    let path = spec.endpoint.address.path().filter(|path| path.is_relative());
    path.map_or(Ok(()), |path| {
        Err(CliError::usage(format!(
            "{}: the whole path of {} has more than the {UNIX_NAME_MAX} bytes that the kernel allows; compare a shorter one, \
             such as that of a link (`ln -s`) to the socket or its folder",
            redacted(url),
            path.display()
        )))
    })
}

/// Options whose values may be secret.
const SECRET: [&str; 4] = ["--body", "--send", "--greet", "--restart"];

/// The command line for the record, without passwords, headers, data to send and the command that restarts the servers.
fn command(arguments: &args::Compare) -> Vec<String> {
    let mut is_secret = false;
    // The name of a file is no secret.
    let is_file = |text: &str| text.starts_with('@');
    let is_endpoint = |word: &str| {
        let one = named_url(word);
        one.is_ok_and(|one| arguments.endpoints.contains(&one))
    };
    let shown_endpoint = |word: &str| {
        let at = word.len() - named_url(word).map_or(0, |one| one.url.len());
        format!("{}{}", &word[..at], redacted(&word[at..]))
    };
    let words = command_line().into_iter();
    let shown = words.map(|word| {
        if mem::replace(&mut is_secret, SECRET.contains(&word.as_str())) && !is_file(&word) {
            return HIDDEN.to_owned();
        }
        match word.split_once('=') {
            Some((option, value)) if SECRET.contains(&option) && !is_file(value) => format!("{option}={HIDDEN}"),
            _ if is_endpoint(&word) => shown_endpoint(&word),
            _ => arguments
                .requests
                .header_values()
                .filter(|value| !value.is_empty())
                .fold(word, |word, value| word.replace(value, HIDDEN)),
        }
    });
    shown.collect()
}

/// An origin without files: the record itself has everything that the comparison is made from.
pub fn origin() -> Origin {
    Origin {
        experiment: NAME.to_owned(),
        ..Origin::default()
    }
}

/// The plan of a recorded comparison, with passwords from the environment.
pub fn plan_again(given: &ComparedEndpoints, remote: bool) -> Result<Plan, CliError> {
    let mut given = given.clone();
    let endpoints = given
        .endpoints
        .values()
        .map(|endpoint| (endpoint.spec.endpoint.address.to_string(), &endpoint.spec));
    compare::permit(endpoints, remote).or_usage()?;
    for endpoint in given.endpoints.values_mut().filter(|endpoint| endpoint.secret) {
        let kept = endpoint
            .spec
            .protocol
            .password()
            .is_some_and(|password| password.take().is_some());
        fill_password(&mut endpoint.spec.protocol)?;
        let filled = endpoint
            .spec
            .protocol
            .password()
            .is_some_and(|password| password.is_some());
        // Only passwords have variables; headers from a file do not.
        if !(kept && filled) {
            let variable = endpoint.spec.protocol.kind().password_variable;
            let advice = variable.map_or_else(
                || "start a new comparison".to_owned(),
                |variable| format!("put it in {variable}, or start a new comparison"),
            );
            return Err(CliError::usage(format!(
                "{}: the record does not keep its secrets; {advice}",
                endpoint.url
            )));
        }
    }
    Plan::of_given(given).or_usage()
}
