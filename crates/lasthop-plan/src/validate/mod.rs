//! Turns the files as written into valid experiments and recipes. Reports all errors at once, each with its place.

mod checker;
mod command;
mod experiment;
mod recipe;
mod scope;

pub(super) use self::{
    experiment::{Recipes, experiment},
    recipe::recipe,
};
