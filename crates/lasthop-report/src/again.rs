//! The command line that repeats a run.

use lasthop_analyse::summary::Summary;

/// The command line that repeats the run with its seed. `lasthop` stands for the executable, wherever it is.
#[must_use]
pub fn again(summary: &Summary) -> String {
    let Some((_, options)) = summary.command.split_first() else {
        return String::new();
    };
    let seed = summary.seed.to_string();
    let has_seed = options
        .iter()
        .any(|word| word == "--seed" || word.starts_with("--seed="));
    let takes_seed = !options.iter().any(|word| WITHOUT_SEED.contains(&word.as_str()));
    let added = if has_seed || !takes_seed {
        vec![]
    } else {
        vec!["--seed", &seed]
    };
    let words = ["lasthop"]
        .into_iter()
        .chain(options.iter().map(String::as_str))
        .chain(added);
    shlex::try_join(words).unwrap_or_default()
}

/// Commands and options whose runs choose their own seed, including those of earlier versions.
const WITHOUT_SEED: [&str; 5] = ["selftest", "--check", "--again", "check", "explain"];
