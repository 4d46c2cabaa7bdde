//! Folds samples into layers and stacks by role.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use lasthop_model::profile::{FoldedStack, KERNEL, RoleProfile};

use crate::{
    layers::{Frame, IDLE, Layers},
    record::Stack,
    roles::Family,
    symbols::{Function, Symbols},
};

/// Maximum stacks kept for a role.
const MOST_STACKS: usize = 400;
/// Maximum functions without a layer that are named.
const MOST_UNASSIGNED: usize = 20;

/// Number of samples by process and stack.
pub(crate) type Samples = HashMap<(i32, Stack), u64>;

/// Number of samples of a role by functions, innermost first.
type Stacks = HashMap<Vec<Function>, u64>;

/// The profile of each role, in the order of the family's names, and the number of samples.
pub(crate) fn fold(samples: &Samples, family: &Family, layers: &Layers, period_ns: u64) -> (Vec<RoleProfile>, u64) {
    let mut symbols = Symbols::new();
    let of_roles = samples.keys().filter(|(pid, _)| family.role_of(*pid).is_some());
    symbols.look_at(of_roles.map(|(pid, stack)| (*pid, stack)), family);
    let mut stacks = vec![Stacks::new(); family.names.len()];
    for ((pid, stack), count) in samples {
        if let Some(role) = family.role_of(*pid) {
            let functions = symbols.functions(stack, *pid);
            *stacks[role].entry(functions).or_default() += count;
        }
    }
    let mut total = 0;
    let of_role = |(name, stacks): (&String, Stacks)| {
        let mut profile = RoleProfile::default();
        total += add_stacks(&mut profile, stacks, layers, period_ns, name == KERNEL);
        profile
    };
    let roles = family.names.iter().zip(stacks).map(of_role).collect();
    (roles, total)
}

/// Adds stacks to a role's profile. Returns how many samples counted. A CPU is idle only outside of any process.
fn add_stacks(profile: &mut RoleProfile, stacks: Stacks, layers: &Layers, period_ns: u64, may_idle: bool) -> u64 {
    let mut total = 0;
    let mut unassigned = BTreeMap::new();
    let mut folded = Vec::new();
    for (functions, count) in stacks {
        let frames: Vec<Frame<'_>> = functions.iter().map(frame).collect();
        let ns = count * period_ns;
        let layer = match layers.decide(&frames) {
            Ok(IDLE) if may_idle => continue,
            Ok(layer) => {
                *profile.layers.entry(layer.to_owned()).or_default() += ns;
                Some(layer.to_owned())
            }
            Err(function) => {
                *unassigned.entry(function.to_owned()).or_default() += ns;
                None
            }
        };
        total += count;
        let names = functions.iter().rev().map(|function| function.name.to_string());
        folded.push(FoldedStack {
            frames: names.collect::<Vec<_>>().into(),
            layer,
            ns,
        });
    }
    profile.unassigned = largest(unassigned);
    folded.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.frames.cmp(&b.frames)));
    let rest = folded.split_off(folded.len().min(MOST_STACKS));
    profile.truncated_ns = rest.iter().map(|stack| stack.ns).sum();
    profile.stacks = folded;
    total
}

/// The functions with the most time, in descending order; the sum of the others comes last.
fn largest(functions: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(_, ns)| Reverse(*ns));
    let rest = functions.split_off(functions.len().min(MOST_UNASSIGNED));
    if !rest.is_empty() {
        functions.push(("[others]".to_owned(), rest.iter().map(|(_, ns)| ns).sum()));
    }
    functions
}

fn frame(function: &Function) -> Frame<'_> {
    Frame {
        name: &function.name,
        object: function.object.as_deref(),
        is_kernel: function.is_kernel,
    }
}
