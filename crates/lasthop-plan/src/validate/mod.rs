//! Checks experiments and recipes as they were read. Reports all errors at once, each with its place.

mod checker;
mod command;
mod experiment;
mod recipe;
mod scope;

pub(super) use self::{
    experiment::{Recipes, experiment},
    recipe::recipe,
};
