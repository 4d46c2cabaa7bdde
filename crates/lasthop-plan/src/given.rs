//! The plan of a comparison of existing endpoints: an experiment without services, whose cases are the endpoints.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_model::{
    level::{Level, Levels},
    record::{ComparedEndpoints, Difference, GivenEndpoint, MOST_CASES},
    selection::{DRIVER, ENDPOINT, Selection, TRANSPORT},
};
use lasthop_trial::address::{Address, Endpoint, Transport, abstract_name};

use super::{
    cases::{NamedCase, choose},
    model::{Experiment, Factor, Link, Source},
    plan::{Plan, Stack, case_plan, summaries, too_many},
    render::{RenderedCase, SERVER},
};

/// Name of the experiment.
pub const NAME: &str = "compare";

/// The name of each endpoint: as given, or else its transport, plus the address if several have that transport.
#[must_use]
pub fn names(endpoints: &[(Option<String>, Endpoint)]) -> Vec<String> {
    let given: Vec<&String> = endpoints.iter().filter_map(|(name, _)| name.as_ref()).collect();
    let others = endpoints.iter().filter(|(name, _)| name.is_none());
    let others: Vec<Endpoint> = others.map(|(_, endpoint)| endpoint.clone()).collect();
    let mut usual = usual_names(&others, &given).into_iter();
    let name = |(name, _): &(Option<String>, Endpoint)| name.clone().or_else(|| usual.next());
    endpoints.iter().filter_map(name).collect()
}

/// Names for endpoints without one, different from all names taken.
fn usual_names(endpoints: &[Endpoint], taken: &[&String]) -> Vec<String> {
    let transports: Vec<Transport> = endpoints.iter().map(Endpoint::transport).collect();
    let alone = |one: &Transport| transports.iter().filter(|other| *other == one).count() == 1;
    let mut names: Vec<String> = Vec::new();
    for (endpoint, transport) in endpoints.iter().zip(&transports) {
        let name = if alone(transport) {
            transport.to_string()
        } else {
            format!("{transport} {}", place(&endpoint.address))
        };
        let again = (2..).map(|number| format!("{name} ({number})"));
        let free = std::iter::once(name.clone())
            .chain(again)
            .find(|name| !names.contains(name) && !taken.contains(&name));
        names.extend(free);
    }
    names
}

/// The address in a name, without slashes: in the name of a case, a slash ends the level.
fn place(address: &Address) -> String {
    match address {
        Address::Abstract(name) => abstract_name(name).replace('/', "_"),
        _ => match address.path() {
            Some(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => address.to_string().replace("udp:", ""),
        },
    }
}

/// The factor of the endpoints: the transport, unless the user named an endpoint otherwise.
fn factor_of(given: &ComparedEndpoints) -> &'static str {
    let endpoints: Vec<Endpoint> = given.endpoints.values().map(|one| one.spec.endpoint.clone()).collect();
    if given.endpoints.keys().eq(&usual_names(&endpoints, &[])) {
        TRANSPORT
    } else {
        ENDPOINT
    }
}

/// Refuses a name that two endpoints have.
pub fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(format!("two endpoints are called `{twice}`: give each its own name")),
        None => Ok(()),
    }
}

/// Refuses more endpoints than a run may have cases.
pub fn check_number(endpoints: usize) -> Result<(), String> {
    if endpoints > MOST_CASES {
        return Err(too_many("the endpoints", endpoints as u128, "compare fewer"));
    }
    Ok(())
}

impl Plan {
    /// A comparison of each endpoint with the first.
    pub fn of_given(given: ComparedEndpoints) -> Result<Self, String> {
        check_number(given.endpoints.len())?;
        let reference = given.endpoints.keys().next().cloned();
        let factor = factor_of(&given);
        let experiment = experiment(&given, factor);
        let factors = summaries(&experiment, &choose(&experiment, &Selection::default())?);
        let mut plan = Self {
            experiment,
            factors,
            cases: Vec::new(),
            // All endpoints share a stack: several may belong to one server, and a request may pass through several
            // servers.
            stacks: vec![Stack::empty()],
            differences: Vec::new(),
            derived: Vec::new(),
            given: None,
        };
        for (name, endpoint) in &given.endpoints {
            let reference = reference.clone().filter(|reference| reference != name);
            plan.differences.extend(endpoint.differs.iter().map(|place| Difference {
                case: name.clone(),
                reference: reference.clone().unwrap_or_default(),
                place: "the replies".to_owned(),
                diff: format!("{place}\n"),
            }));
            let case = NamedCase {
                id: name.clone(),
                levels: Levels::from([(factor.to_owned(), Level::Text(name.clone()))]),
                transport: endpoint.spec.endpoint.transport(),
                reference,
                again: false,
            };
            plan.cases.push(case_plan(&case, 0, &RenderedCase::of_given(endpoint)));
        }
        plan.given = Some(given);
        Ok(plan)
    }
}

fn experiment(given: &ComparedEndpoints, name: &str) -> Experiment {
    let title = |(called, endpoint): (&String, &GivenEndpoint)| {
        if name == ENDPOINT {
            format!("{called} ({})", endpoint.url)
        } else {
            endpoint.url.clone()
        }
    };
    let titles: Vec<String> = given.endpoints.iter().map(title).collect();
    let mut servers: Vec<&str> = given
        .endpoints
        .values()
        .filter_map(|one| one.server.as_deref())
        .collect();
    servers.dedup();
    let to = if let [server] = servers[..] {
        server.to_owned()
    } else {
        SERVER.to_owned()
    };
    let levels: Vec<Level> = given.endpoints.keys().cloned().map(Level::Text).collect();
    let mut labels = IndexMap::new();
    // A plain transport already has its usual words.
    for (name, endpoint) in given.endpoints.iter().filter(|(name, _)| name.contains(' ')) {
        let again = name.find(" (").map_or("", |at| &name[at..]);
        labels.insert(name.clone(), format!("{}{again}", endpoint.url));
    }
    let factor = Factor {
        help: "the endpoint".to_owned(),
        reference: levels.first().cloned(),
        levels,
        labels,
        ..Factor::default()
    };
    Experiment {
        name: NAME.to_owned(),
        title: titles.join(" and "),
        question: "Which of these endpoints should a client use?".to_owned(),
        source: Source::Given,
        link: Link {
            from: DRIVER.to_owned(),
            to,
            ..Link::default()
        },
        factors: IndexMap::from([(name.to_owned(), factor)]),
        ..Experiment::default()
    }
}

#[cfg(test)]
mod tests {
    use lasthop_protocol::url::{UrlOptions, parse};

    use super::*;

    fn called(urls: &[&str]) -> Vec<String> {
        let endpoint = |url: &&str| parse(url, &UrlOptions::default()).unwrap().0;
        let endpoints: Vec<_> = urls.iter().map(|url| (None, endpoint(url))).collect();
        names(&endpoints)
    }

    #[test]
    fn the_user_may_name_endpoints() {
        let named = |names_and_urls: &[(&str, &str)]| {
            let one = |(name, url): &(&str, &str)| {
                let (endpoint, _) = parse(url, &UrlOptions::default()).unwrap();
                (Some((*name).to_owned()).filter(|name| !name.is_empty()), endpoint)
            };
            names(&names_and_urls.iter().map(one).collect::<Vec<_>>())
        };
        let [a, b] = ["http://127.0.0.1:80/", "http://127.0.0.1:81/"];
        assert_eq!(named(&[("old", a), ("new", b)]), ["old", "new"]);
        assert_eq!(named(&[("old", a), ("", b)]), ["old", "tcp"]);
        assert_eq!(named(&[("", a), ("tcp", "http+unix:/s")]), ["tcp (2)", "tcp"]);
        check_names(&named(&[("old", a), ("new", b)])).unwrap();
        let endpoints = [("old", a), ("new", b)].map(|(name, url)| (name.to_owned(), endpoint(url)));
        let plan = Plan::of_given(ComparedEndpoints {
            endpoints: IndexMap::from(endpoints),
            restart: None,
            pids: IndexMap::new(),
        })
        .unwrap();
        assert_eq!(plan.cases[1].levels["endpoint"].to_string(), "new");
        assert_eq!(
            (plan.cases[1].case.as_str(), plan.cases[1].reference.as_deref()),
            ("new", Some("old"))
        );
        assert_eq!(plan.experiment.compared(), "endpoint");
        assert_eq!(plan.summary().title, format!("old ({a}) and new ({b})"));
    }

    #[test]
    fn an_endpoint_is_called_by_what_sets_it_apart() {
        assert_eq!(
            called(&["http://127.0.0.1:80/", "unix:/s", "https://127.0.0.1/"]),
            ["tcp", "unix", "tls"]
        );
        assert_eq!(
            called(&[
                "http://127.0.0.1:80/",
                "http://127.0.0.1:81/",
                "unix:/a/b",
                "http://127.0.0.1:80/x"
            ]),
            ["tcp 127.0.0.1:80", "tcp 127.0.0.1:81", "unix", "tcp 127.0.0.1:80 (2)"]
        );
        assert_eq!(called(&["unix:/a/b", "unix:/a/c"]), ["unix b", "unix c"]);
    }

    fn endpoint(url: &str) -> GivenEndpoint {
        let (endpoint, protocol) = parse(url, &UrlOptions::default()).unwrap();
        let spec = lasthop_protocol::spec::Spec::new(endpoint, protocol);
        GivenEndpoint {
            url: url.to_owned(),
            spec,
            server: None,
            differs: Vec::new(),
            unchecked: None,
            closes: false,
            learnt: false,
            secret: false,
        }
    }

    #[test]
    fn more_endpoints_than_a_run_may_have_cases_are_refused() {
        let given = |number: usize| {
            let endpoints = (0..number)
                .map(|at| (format!("tcp {at}"), endpoint("http://127.0.0.1:80/")))
                .collect();
            Plan::of_given(ComparedEndpoints {
                endpoints,
                restart: None,
                pids: IndexMap::new(),
            })
        };
        assert_eq!(given(1000).unwrap().cases.len(), 1000);
        let error = given(1001).unwrap_err();
        assert_eq!(
            error,
            "the endpoints make up to 1001 cases, more than 1000: compare fewer"
        );
    }

    #[test]
    fn the_first_is_the_reference_of_all_others() {
        let endpoints = [
            ("tcp", "http://127.0.0.1:80/"),
            ("unix", "http+unix:/s"),
            ("tls", "https://127.0.0.1/"),
        ];
        let endpoints = endpoints.map(|(name, url)| (name.to_owned(), endpoint(url)));
        let given = ComparedEndpoints {
            endpoints: IndexMap::from(endpoints),
            restart: None,
            pids: IndexMap::new(),
        };
        let plan = Plan::of_given(given).unwrap();
        let references: Vec<Option<&str>> = plan.cases.iter().map(|case| case.reference.as_deref()).collect();
        assert_eq!(references, [None, Some("tcp"), Some("tcp")]);
        assert_eq!(
            plan.summary().title,
            "http://127.0.0.1:80/ and http+unix:/s and https://127.0.0.1/"
        );
        assert!(plan.stacks.len() == 1 && plan.stacks[0].services.is_empty());
        let settings = plan.settings(crate::settings::Overrides::default()).unwrap();
        assert_eq!(settings.budget_ns, 30_000_000_000);
    }
}
