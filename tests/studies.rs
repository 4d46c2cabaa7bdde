//! Every figure of a study occurs in its text, and every figure of the texts is in a study.
//!
//! `tests/data/seed-NNN.txt` holds the numbers of each text in their order, and nothing else of it. Where the texts are at
//! hand (`shared/seeds` beside a folder above this one, or `LASTHOP_SEEDS`) the lists are checked against them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use lasthop::study::{catalog, model::Study};
use regex::Regex;

/// Figures and numbers in claims of each study, counted in the texts by hand.
const COUNTS: [(&str, usize); 9] = [
    // 4 queries tables of 8 figures, 3 kinds of tables with 4 to 5 figures a column, and the shares in brackets.
    ("dr-knz-2020-cockroachdb", 81),
    ("dr-knz-2020-postgres", 80),
    // 8 conditions of 2 figures, 2 means, 4 of the load, 3 of the disclaimer, 3 in sentences.
    ("ecentryx-thin", 28),
    // 9 rows of 3, and what is said of all.
    ("miketheman-2021-containers", 29),
    // 3 rates, count and length of two of the runs, and a factor in a sentence.
    ("moby-11911-redis", 8),
    // 2 outputs of 15 figures each, and 2 numbers in a sentence.
    ("myhro-2017-docker", 32),
    ("myhro-2017-gunicorn", 32),
    // 2 counts in 2 lengths, and 1 number in a sentence.
    ("myhro-2017-sockets", 5),
    ("redis-docs", 1),
];

/// Numbers with a point in the texts that are not figures of a measurement: versions, addresses, sizes of machines, an
/// example of an answer; in 002 a table whose cells have run together.
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
];

fn studies() -> Vec<Study> {
    catalog::names().iter().map(|name| catalog::load(name).unwrap()).collect()
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn numbers(text: &str) -> Vec<String> {
    let number = Regex::new(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)*").unwrap();
    number.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

fn kept(seed: &str) -> Vec<String> {
    let path = data().join(format!("seed-{seed}.txt"));
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// As the text has it: without the letter for thousands.
fn plain(printed: &str) -> &str {
    printed.trim_end_matches(['k', 'K', 'M'])
}

/// In 002 a rate and its time stand in cells that have run together, behind a version: `TCP1.1 4972.0`, `UNIX1.14412.3`.
fn run_together(study: &Study, tokens: &BTreeSet<String>, printed: &str) -> bool {
    study.figures.chunks(2).any(|pair| {
        let [rate, time] = pair else { return false };
        let joined = format!("{}{}", rate.printed, time.printed);
        (rate.printed == printed || time.printed == printed) && tokens.iter().any(|token| token.ends_with(&joined))
    })
}

#[test]
fn every_number_of_a_study_is_in_its_text() {
    for study in studies() {
        let tokens: BTreeSet<String> = study.seeds.iter().flat_map(|seed| kept(seed)).collect();
        if study.seeds.is_empty() {
            assert!(["moby-11911-redis", "redis-docs"].contains(&study.name.as_str()), "{} has no text", study.name);
            continue;
        }
        for printed in study.numbers() {
            let there = tokens.contains(plain(printed));
            let joined = || study.seeds == ["002"] && run_together(&study, &tokens, printed);
            assert!(there || joined(), "{}: {printed} is not in the text", study.name);
        }
    }
}

#[test]
fn every_figure_of_the_texts_is_in_a_study() {
    let studies = studies();
    for seed in ["000", "001", "002", "003", "004"] {
        let of: Vec<&Study> = studies.iter().filter(|study| study.seeds.iter().any(|own| own == seed)).collect();
        let known: BTreeSet<&str> = of.iter().flat_map(|study| study.numbers()).map(plain).collect();
        let tokens: BTreeSet<String> = kept(seed).into_iter().collect();
        for token in tokens.iter().filter(|token| token.contains('.')) {
            let joined = of.iter().any(|study| {
                study.figures.chunks(2).any(|pair| {
                    let texts: Vec<&str> = pair.iter().map(|figure| figure.printed.as_str()).collect();
                    seed == "002" && token.ends_with(&texts.concat())
                })
            });
            let found = known.contains(token.as_str()) || OTHERS.contains(&token.as_str()) || joined;
            assert!(found, "{token} of text {seed} is in no study");
        }
    }
}

#[test]
fn as_many_figures_as_were_published() {
    let counted: Vec<(String, usize)> =
        studies().iter().map(|study| (study.name.clone(), study.numbers().len())).collect();
    let wanted: Vec<(String, usize)> = COUNTS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
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
            .find(|figure| figure.condition == condition && figure.quantity.name() == "requests-per-second");
        figure.unwrap().value
    };
    let near = |ratio: f64, wanted: f64| assert!((ratio - wanted).abs() < 0.001, "{ratio}");
    near(value("myhro-2017-sockets", "Unix domain socket") / value("myhro-2017-sockets", "IP"), 2.172);
    near(value("myhro-2017-gunicorn", "Unix domain socket") / value("myhro-2017-gunicorn", "IP"), 1.099);
    let docker = |condition| value("myhro-2017-docker", condition);
    near(docker("Docker Unix domain socket, shared volume") / docker("Docker IP, forwarded port"), 1.424);
    let redis = |condition| value("moby-11911-redis", condition);
    near(redis("default bridge, published port") / redis("native"), 0.446);
    near(redis("host network") / redis("native"), 0.987);
}

#[test]
fn the_lists_of_numbers_are_those_of_the_texts() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = manifest.ancestors().map(|folder| folder.join("shared/seeds")).find(|folder| folder.is_dir());
    let Some(folder) = std::env::var_os("LASTHOP_SEEDS").map(PathBuf::from).or(beside) else { return };
    let mut checked = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(seed) = path.file_name().and_then(|name| name.to_str()?.get(..3)) else { continue };
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert_eq!(numbers(&text), kept(seed), "seed {seed}");
        checked += 1;
    }
    assert_eq!(checked, 5, "{}", folder.display());
}
