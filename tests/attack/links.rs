//! Processes of the account that servers run as exchange what they can write for links, while root starts servers.

use std::time::Duration;

use lasthop_stats::random::Draws;

use crate::{
    arena::Arena,
    common::race::Race,
    draw::pick,
    ended::{finish, short},
    kills::{SUBJECTS, Subject, forget, quick},
    tried::Tried,
};

/// Racers take the CPUs, and services that fail take their time.
const BOUND: Duration = Duration::from_secs(900);

/// `short_form`: an experiment that starts within a second or two.
pub fn lead(arena: &mut Arena, draws: &mut Draws, short_form: bool) -> Vec<Tried> {
    let rounds = if short_form { "2" } else { "10" };
    // In containers servers have accounts of their own.
    let outside: Vec<&Subject> = SUBJECTS.iter().filter(|subject| !subject.containers).collect();
    let subject = if short_form {
        quick(draws)
    } else {
        *pick(draws, &outside)
    };
    let mut words = subject.words(arena.world.engine);
    let at = words.iter().position(|word| *word == "--rounds").unwrap();
    words[at + 1] = rounds;
    let mut tried = Tried::new(
        "link",
        subject.name(),
        format!("the servers' account makes links, {rounds} rounds"),
    );
    let race = Race::start(arena.world.lasthop.sandboxes(), arena.world.root(), |program| {
        arena.world.inside(program)
    });
    let ended = finish(
        &mut arena.world.lasthop(&words),
        &arena.world.root().join("said"),
        BOUND,
    );
    let raced = race.judge();
    tried.ended = format!(
        "{}, {} links, {} exchanges",
        ended.shown(),
        raced.tried[0],
        raced.tried[1]
    );
    // A server that finds nothing in its folder does not start; that is the account's own loss.
    if !matches!(ended.code, Some(0 | 1)) {
        tried.wrong(format!("{}: {}", ended.shown(), short(&ended.stderr)));
    }
    for harm in raced.harm {
        tried.wrong(format!("outside of the sandbox: {harm}"));
    }
    if raced.tried.contains(&0) {
        tried.wrong("there was nothing to exchange");
    }
    forget(arena);
    tried.left(arena.left(false));
    vec![tried]
}
