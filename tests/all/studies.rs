//! Every figure of a study was published, and every published figure is in a study.
//!
//! A file in `tests/data/` holds the numbers of one publication in the order in which it prints them, and none of its words.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use lasthop_repro::study::{
    catalog,
    model::{Figure, Study},
};

/// The numbers of each publication, and the studies that its figures are in. The other studies quote a few sentences or
/// an issue.
const PUBLICATIONS: [(&str, &[&str]); 11] = [
    ("myhro-2017-sockets.txt", &["myhro-2017-sockets"]),
    // The author's page of all posts, which has the first one as well.
    (
        "myhro-2017-blog.txt",
        &["myhro-2017-sockets", "myhro-2017-gunicorn", "myhro-2017-docker"],
    ),
    ("dr-knz-2020.txt", &["dr-knz-2020-postgres", "dr-knz-2020-cockroachdb"]),
    (THIN, &["ecentryx-thin"]),
    ("cybertec-2016.txt", &["cybertec-2016-postgres"]),
    ("miketheman-2021.txt", &["miketheman-2021-containers"]),
    ("autobase-2023.txt", &["autobase-2023-pgbouncer"]),
    ("goldsborough-ipc-bench.txt", &["goldsborough-ipc-bench"]),
    ("ja7ad-grpc.txt", &["ja7ad-grpc"]),
    ("linuxboy-php-fpm.txt", &["linuxboy-php-fpm"]),
    ("rigtorp-ipc-bench.txt", &["rigtorp-ipc-bench"]),
];

/// Its table was kept without the lines between cells, so that a rate and its time have run together behind a version:
/// `TCP1.1 4972.0`, `UNIX1.14412.3`.
const THIN: &str = "ecentryx-thin.txt";

/// Figures and numbers in claims of each study, counted in the publications by hand.
const COUNTS: [(&str, usize); 16] = [
    // A table of 4 figures, and 2 shares.
    ("autobase-2023-pgbouncer", 6),
    // 2 of each run, what is the same in both, and the share in a sentence.
    ("cybertec-2016-postgres", 8),
    // 4 queries tables of 8 figures, 3 kinds of tables with 4 to 5 figures a column, the shares in brackets without "-8x?",
    // and 2 numbers of the conclusions of each.
    ("dr-knz-2020-cockroachdb", 83),
    ("dr-knz-2020-postgres", 81),
    // 8 conditions of 2 figures, 2 means, 4 of the load, 3 of the disclaimer, 3 in sentences.
    ("ecentryx-thin", 28),
    // 8 rows of 2; one more is said to be broken.
    ("goldsborough-ipc-bench", 16),
    // A time, its spread and another time in a diagram, by 2 transports.
    ("ja7ad-grpc", 6),
    // 3 runs of 5 figures over TCP, twice as many over a Unix socket, and a share in a sentence.
    ("linuxboy-php-fpm", 46),
    // 9 rows of 3, and what is said of all.
    ("miketheman-2021-containers", 29),
    // 3 rates, count and length of two of the runs, and a factor in a sentence.
    ("moby-11911-redis", 8),
    // 2 outputs of 15 figures each, and 2 numbers in a sentence.
    ("myhro-2017-docker", 32),
    ("myhro-2017-gunicorn", 32),
    // 2 counts in 2 lengths, and 1 number in a sentence.
    ("myhro-2017-sockets", 5),
    // A share for each number of threads.
    ("percona-2020-mysql", 2),
    ("redis-docs", 1),
    // 6 figures and 2 in a sentence.
    ("rigtorp-ipc-bench", 8),
];

/// Published numbers with a point that are not figures of a measurement: versions, addresses, sizes of machines, an example
/// of an answer or an output, probabilities, memory.
const OTHERS: &[&str] = &[
    "0.0.0.0",
    "127.0.0.1",
    "0.12",
    "16.04",
    "19.6.0",
    "2.6.12",
    "3.75",
    "1.14.1",
    "1.14.2",
    "1.80",
    "13.0",
    "19.10",
    "19.2",
    "20.1",
    "3700.07",
    "5.3.0",
    "1.0",
    "1.1",
    "4.5",
    "0.5352573557347882",
    "1.13.0",
    "2.3",
    "4.3.2",
    "42.383861",
    "3.00",
    "20.04.1",
    "1.945",
    "1.418",
    "0.000",
    "25.000",
    "1.282",
    "3.3",
    "3.40",
    "0.668",
    "0.15",
    "0.031",
    "0.454",
    "4.96",
    "96.0",
    "1.19",
];

fn studies() -> Vec<Study> {
    catalog::names()
        .iter()
        .map(|name| catalog::load(name).unwrap())
        .collect()
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn kept(publication: &str) -> BTreeSet<String> {
    fs::read_to_string(data().join(publication))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// As it was printed, without the letter for thousands.
fn plain(printed: &str) -> &str {
    printed.trim_end_matches(['k', 'K', 'M'])
}

/// The numbers of two neighbouring figures as [`THIN`] has them.
fn run_together(pair: &[Figure]) -> String {
    pair.iter().map(|figure| figure.printed.as_str()).collect()
}

#[test]
fn every_number_of_a_study_was_published() {
    for study in studies() {
        let of = PUBLICATIONS
            .iter()
            .filter(|(_, names)| names.contains(&study.name.as_str()));
        let files: Vec<&str> = of.map(|(file, _)| *file).collect();
        if files.is_empty() {
            assert!(
                ["moby-11911-redis", "percona-2020-mysql", "redis-docs"].contains(&study.name.as_str()),
                "{} has no numbers",
                study.name
            );
            continue;
        }
        let tokens: BTreeSet<String> = files.iter().flat_map(|file| kept(file)).collect();
        for printed in study.numbers() {
            let joined = || {
                let mut pairs = study
                    .figures
                    .chunks(2)
                    .filter(|pair| pair.iter().any(|figure| figure.printed == *printed));
                pairs.any(|pair| tokens.iter().any(|token| token.ends_with(&run_together(pair))))
            };
            let found = tokens.contains(plain(printed)) || (files == [THIN] && joined());
            assert!(found, "{}: {printed} was not published", study.name);
        }
    }
}

#[test]
fn every_published_figure_is_in_a_study() {
    let studies = studies();
    for (file, names) in PUBLICATIONS {
        let of: Vec<&Study> = studies
            .iter()
            .filter(|study| names.contains(&study.name.as_str()))
            .collect();
        assert_eq!(of.len(), names.len(), "{file}: {names:?}");
        let known: BTreeSet<&str> = of.iter().flat_map(|study| study.numbers()).map(plain).collect();
        for token in kept(file).iter().filter(|token| token.contains('.')) {
            let mut pairs = of.iter().flat_map(|study| study.figures.chunks(2));
            let found = known.contains(token.as_str())
                || OTHERS.contains(&token.as_str())
                || file == THIN && pairs.any(|pair| token.ends_with(&run_together(pair)));
            assert!(found, "{token} in {file} is in no study");
        }
    }
}

#[test]
fn as_many_figures_as_were_published() {
    let counted: Vec<(String, usize)> = studies()
        .iter()
        .map(|study| (study.name.clone(), study.numbers().len()))
        .collect();
    let wanted: Vec<(String, usize)> = COUNTS
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    assert_eq!(counted, wanted);
}

/// Ratios that follow from the figures, as other readers have found them.
#[test]
fn published_ratios_follow_from_the_figures() {
    let value = |study: &str, condition: &str| {
        let study = catalog::load(study).unwrap();
        let figure = study
            .figures
            .iter()
            .find(|figure| figure.condition == condition && figure.quantity == "requests-per-second");
        figure.unwrap().value
    };
    let near = |ratio: f64, wanted: f64| assert!((ratio - wanted).abs() < 0.001, "{ratio}");
    near(
        value("myhro-2017-sockets", "Unix domain socket") / value("myhro-2017-sockets", "IP"),
        2.172,
    );
    near(
        value("myhro-2017-gunicorn", "Unix domain socket") / value("myhro-2017-gunicorn", "IP"),
        1.099,
    );
    let docker = |condition| value("myhro-2017-docker", condition);
    near(
        docker("Docker Unix domain socket, shared volume") / docker("Docker IP, forwarded port"),
        1.424,
    );
    let claimed = |study: &str, part: &str| {
        let study = catalog::load(study).unwrap();
        let claim = study.claims.iter().find(|claim| claim.text.contains(part)).unwrap();
        study.published_ratio(claim).unwrap()
    };
    // Authentication as a share of connecting, both over a Unix socket.
    near(claimed("dr-knz-2020-postgres", "<1%"), 0.0062);
    near(claimed("dr-knz-2020-postgres", "42%"), 0.4155);
    near(claimed("dr-knz-2020-cockroachdb", "15x"), 15.898);
    near(claimed("percona-2020-mysql", "35 %"), 0.65);
    near(claimed("redis-docs", "about 50 %"), 1.5);
    near(claimed("rigtorp-ipc-bench", "almost seven"), 6.834);
    near(claimed("ecentryx-thin", "one backend"), 1.158);
    let redis = |condition| value("moby-11911-redis", condition);
    near(redis("default bridge, published port") / redis("native"), 0.446);
    near(redis("host network") / redis("native"), 0.987);
}
