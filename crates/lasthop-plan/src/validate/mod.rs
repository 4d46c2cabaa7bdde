//! Checks of experiments and recipes. All errors are reported at once, each with its place.

mod checker;
mod command;
mod experiment;
mod recipe;
mod scope;

pub(super) use self::{
    experiment::{Recipes, experiment},
    recipe::recipe,
};
