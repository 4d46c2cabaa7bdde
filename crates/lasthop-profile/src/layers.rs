//! Layers of stacks: the file `layers.toml`, and additions by users.

use std::{collections::HashMap, path::Path, sync::LazyLock};

use lasthop_system::files;
use serde::Deserialize;
use toml::Spanned;

/// Maximum bytes of a file of layers.
const LONGEST: u64 = 1 << 20;
/// The layer of user-space code without any other layer.
const PROGRAM: &str = "program";
/// The layer of a CPU without work.
pub(crate) const IDLE: &str = "idle";

/// One layer, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub id: String,
    pub title: String,
    /// A sentence about the layer.
    pub about: String,
}

/// All layers, and the functions of each.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    all: Vec<Layer>,
    kernel: Patterns<Kernel>,
    user: Patterns<usize>,
    objects: Patterns<usize>,
}

/// What a function of the kernel tells about the layer of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// Nothing: its caller decides.
    Neutral,
    /// The stack belongs to this layer, by number.
    Layer(usize),
    /// The stack belongs to this layer unless it called something unknown.
    Outer(usize),
}

/// A function of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub name: &'a str,
    /// Name of the function's file in user space.
    pub object: Option<&'a str>,
    pub is_kernel: bool,
}

/// The error of an unusable file of layers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct LayersError {
    /// The file, and the line in the file.
    place: String,
    cause: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    neutral: Vec<Spanned<String>>,
    #[serde(default)]
    layer: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Spanned<String>,
    title: Option<String>,
    about: Option<String>,
    #[serde(default)]
    kernel: Vec<Spanned<String>>,
    #[serde(default)]
    outer: Vec<Spanned<String>>,
    #[serde(default)]
    user: Vec<Spanned<String>>,
    #[serde(default)]
    objects: Vec<Spanned<String>>,
}

/// The built-in layers, in the order of reports.
pub fn layers() -> &'static Layers {
    static BUILT_IN: LazyLock<Layers> = LazyLock::new(|| {
        let mut layers = Layers::default();
        layers
            .add("layers.toml", include_str!("../layers.toml"))
            .expect("a test reads this file");
        layers
    });
    &BUILT_IN
}

impl Layers {
    /// The text of a file of layers, unparsed.
    pub fn text_of(path: &Path) -> Result<String, LayersError> {
        let unreadable = |cause: String| LayersError {
            place: path.display().to_string(),
            cause,
        };
        let bytes = files::read(path, LONGEST).map_err(|error| unreadable(format!("cannot read it: {error}")))?;
        String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
    }

    /// The built-in layers with a file's lines, which take precedence. Errors name `file`.
    pub fn with(file: &str, text: &str) -> Result<Self, LayersError> {
        let mut layers = layers().clone();
        layers.add(file, text)?;
        Ok(layers)
    }

    /// All layers, in the order of reports.
    pub fn all(&self) -> &[Layer] {
        &self.all
    }

    pub fn get(&self, id: &str) -> Option<&Layer> {
        self.all.iter().find(|layer| layer.id == id)
    }

    fn add(&mut self, file: &str, text: &str) -> Result<(), LayersError> {
        let fail = |at: usize, cause: String| LayersError {
            place: format!("{file}:{}", 1 + text[..at].matches('\n').count()),
            cause,
        };
        let document: Document = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fail(at, error.message().replace('\n', "; "))
        })?;
        let checked = |patterns: Vec<Spanned<String>>| -> Result<Vec<String>, LayersError> {
            if let Some(empty) = patterns.iter().find(|one| one.get_ref().trim_matches('*').is_empty()) {
                return Err(fail(empty.span().start, "a pattern has at least one letter".to_owned()));
            }
            Ok(patterns.into_iter().map(Spanned::into_inner).collect())
        };
        self.kernel.add(checked(document.neutral)?, Kernel::Neutral);
        for entry in document.layer {
            let at = entry.id.span().start;
            let id = entry.id.into_inner();
            let known = self.all.iter().position(|layer| layer.id == id);
            let number = known.unwrap_or(self.all.len());
            if known.is_none() {
                let title = entry.title.ok_or_else(|| {
                    let ids: Vec<&str> = self.all.iter().map(|layer| layer.id.as_str()).collect();
                    let known = ids.join(", ");
                    fail(
                        at,
                        format!("`{id}` is a new layer and needs a `title` (known layers: {known})"),
                    )
                })?;
                let about = entry.about.unwrap_or_default();
                self.all.push(Layer { id, title, about });
            }
            self.kernel.add(checked(entry.outer)?, Kernel::Outer(number));
            self.kernel.add(checked(entry.kernel)?, Kernel::Layer(number));
            self.user.add(checked(entry.user)?, number);
            self.objects.add(checked(entry.objects)?, number);
        }
        Ok(())
    }

    /// The layer of a stack whose innermost function is first. Without a layer, the function that needs a line in the
    /// file.
    pub(crate) fn decide<'a>(&self, frames: &[Frame<'a>]) -> Result<&str, &'a str> {
        let in_kernel = frames.iter().take_while(|frame| frame.is_kernel).count();
        let (kernel, user) = frames.split_at(in_kernel);
        let mut unknown = None;
        for frame in kernel {
            match self.kernel.meaning(frame.name) {
                Some(Kernel::Neutral) => {}
                Some(Kernel::Layer(number)) => return Ok(&self.all[number].id),
                Some(Kernel::Outer(number)) if unknown.is_none() => return Ok(&self.all[number].id),
                Some(Kernel::Outer(_)) => break,
                // Keep the outermost, which covers most.
                None => unknown = Some(frame.name),
            }
        }
        match (unknown, user) {
            (Some(name), _) => Err(name),
            (None, []) => Err(frames.first().map_or("[no stack]", |frame| frame.name)),
            (None, user) => Ok(self.of_user(user)),
        }
    }

    fn of_user(&self, frames: &[Frame<'_>]) -> &str {
        let of = |frame: &Frame<'_>| {
            let by_name = self.user.meaning(frame.name);
            by_name.or_else(|| self.objects.meaning(frame.object?))
        };
        let number = frames.iter().find_map(of);
        number.map_or(PROGRAM, |number| &self.all[number].id)
    }
}

/// Names and patterns with their meanings.
#[derive(Clone, Debug)]
struct Patterns<T> {
    exact: HashMap<String, T>,
    /// Patterns such as `tcp_*`, without the star.
    prefixes: HashMap<String, T>,
    /// Patterns with a star elsewhere.
    others: Vec<(String, T)>,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            prefixes: HashMap::new(),
            others: Vec::new(),
        }
    }
}

impl<T: Copy> Patterns<T> {
    /// Adds patterns; an existing pattern gets the new meaning.
    fn add(&mut self, patterns: Vec<String>, meaning: T) {
        for pattern in patterns {
            match pattern.strip_suffix('*') {
                Some(prefix) if !prefix.contains('*') => self.prefixes.insert(prefix.to_owned(), meaning),
                None if !pattern.contains('*') => self.exact.insert(pattern, meaning),
                _ => {
                    self.others.insert(0, (pattern, meaning));
                    None
                }
            };
        }
    }

    /// The meaning of the most specific pattern that fits.
    fn meaning(&self, name: &str) -> Option<T> {
        let exact = self.exact.get(name);
        let longest = || {
            let ends = name.char_indices().map(|(end, _)| end).rev();
            std::iter::once(name.len())
                .chain(ends)
                .find_map(|end| self.prefixes.get(&name[..end]))
        };
        let other = || self.others.iter().find(|(pattern, _)| fits(pattern, name));
        exact
            .or_else(longest)
            .or_else(|| other().map(|(_, meaning)| meaning))
            .copied()
    }
}

/// Whether a name contains the parts of a pattern between its stars, in order.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let last = parts.next_back().unwrap_or_default();
    let Some(middle) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    let next = |rest: &'_ str, part: &str| rest.find(part).map(|at| at + part.len());
    let mut at = 0;
    parts.all(|part| {
        let found = next(&middle[at..], part);
        at += found.unwrap_or(0);
        found.is_some()
    })
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn kernel(names: &'static str) -> Vec<Frame<'static>> {
        let frame = |name| Frame {
            name,
            object: None,
            is_kernel: true,
        };
        names.split_whitespace().map(frame).collect()
    }

    fn user(name: &'static str, object: &'static str) -> Frame<'static> {
        Frame {
            name,
            object: Some(object),
            is_kernel: false,
        }
    }

    #[test]
    fn the_innermost_function_that_says_something_decides() {
        let layers = layers();
        let decide = |names| layers.decide(&kernel(names));
        let tail =
            "unix_stream_sendmsg sock_write_iter vfs_write ksys_write do_syscall_64 entry_SYSCALL_64_after_hwframe";
        let stack = |inner: &str| -> Vec<Frame<'static>> { kernel(format!("{inner} {tail}").leak()) };
        assert_eq!(layers.decide(&stack("")), Ok("unix"));
        assert_eq!(
            layers.decide(&stack(
                "rep_movs_alternative _copy_from_iter skb_copy_datagram_from_iter"
            )),
            Ok("memory")
        );
        // At the function that re-enables interrupts, the caller decides.
        let waking =
            "_raw_spin_unlock_irqrestore try_to_wake_up default_wake_function ep_poll_callback __wake_up_common";
        assert_eq!(layers.decide(&stack(waking)), Ok("scheduling"));
        assert_eq!(
            layers.decide(&stack("_raw_spin_unlock_irqrestore sock_def_readable")),
            Ok("scheduling")
        );
        assert_eq!(
            layers.decide(&stack("helper_of_unix")),
            Ok("unix"),
            "an unknown function is part of its caller"
        );
        assert_eq!(
            decide("tcp_v4_rcv ip_protocol_deliver_rcu process_backlog net_rx_action handle_softirqs"),
            Ok("tcp")
        );
        assert_eq!(decide("nft_do_chain nf_hook_slow ip_output"), Ok("netfilter"));
        assert_eq!(
            decide("finish_task_switch __schedule schedule do_nanosleep"),
            Ok("scheduling")
        );
        assert_eq!(decide("pv_native_safe_halt default_idle do_idle"), Ok(IDLE));
        assert_eq!(decide("do_syscall_64 entry_SYSCALL_64_after_hwframe"), Ok("syscalls"));
    }

    #[test]
    fn what_is_unknown_is_not_a_system_call() {
        let layers = layers();
        let stack = kernel("mystery_inner mystery_outer do_syscall_64 entry_SYSCALL_64_after_hwframe");
        assert_eq!(layers.decide(&stack), Err("mystery_outer"));
        assert_eq!(layers.decide(&kernel("_raw_spin_lock")), Err("_raw_spin_lock"));
        assert_eq!(layers.decide(&[]), Err("[no stack]"));
    }

    #[test]
    fn user_space_decides_only_without_the_kernel() {
        let layers = layers();
        let handler = user("handle", "server");
        assert_eq!(layers.decide(&[handler]), Ok("program"));
        assert_eq!(
            layers.decide(&[user("[libcrypto.so.3]", "libcrypto.so.3"), handler]),
            Ok("crypto")
        );
        assert_eq!(
            layers.decide(&[user("memcpy", "libc.so.6"), user("SSL_read", "server")]),
            Ok("crypto")
        );
        assert_eq!(
            layers.decide(&[user("_PyEval_EvalFrameDefault", "python3.11")]),
            Ok("runtime")
        );
        let fault = [
            kernel("clear_page_erms get_page_from_freelist"),
            vec![user("SSL_read", "server")],
        ]
        .concat();
        assert_eq!(layers.decide(&fault), Ok("memory"));
        let interrupted = [
            kernel("asm_sysvec_apic_timer_interrupt"),
            vec![user("SSL_read", "server")],
        ]
        .concat();
        assert_eq!(layers.decide(&interrupted), Ok("crypto"));
    }

    #[test]
    fn users_add_lines_and_layers() {
        let text = "[[layer]]\nid = \"tcp\"\nkernel = [\"mystery_*\"]\n[[layer]]\nid = \"mine\"\ntitle = \"Mine\"\nuser = [\"*::cache::*\"]\n";
        let layers = Layers::with("mine.toml", text).unwrap();
        assert_eq!(layers.decide(&kernel("mystery_inner do_syscall_64")), Ok("tcp"));
        assert_eq!(layers.decide(&[user("app::cache::get", "app")]), Ok("mine"));
        assert_eq!(layers.get("mine").map(|layer| layer.title.as_str()), Some("Mine"));
        assert_eq!(layers.decide(&kernel("tcp_ack")), Ok("tcp"));
    }

    #[test]
    fn mistakes_have_their_file_and_line() {
        let said = |text: &str| Layers::with("mine.toml", text).unwrap_err().to_string();
        assert!(said("neutral = [\n\"a\",\n\"*\",\n]").starts_with("mine.toml:3: a pattern has"));
        assert!(said("[[layer]]\nid = \"new\"\n").starts_with("mine.toml:2: `new` is a new layer and needs a `title`"));
        assert!(said("[[layer]]\nid = \"tcp\"\nkernal = []\n").starts_with("mine.toml:3: unknown field `kernal`"));
        assert!(said("[[layer]\n").starts_with("mine.toml:1: "));
        let missing = Layers::text_of(Path::new("missing.toml")).unwrap_err().to_string();
        assert!(missing.contains("missing.toml: cannot read it"), "{missing}");
    }

    #[test]
    fn every_layer_is_told_apart() {
        let all = layers().all();
        for (number, layer) in all.iter().enumerate() {
            assert!(!layer.title.is_empty() && layer.about.ends_with('.'), "{layer:?}");
            assert!(
                all[..number]
                    .iter()
                    .all(|other| other.id != layer.id && other.title != layer.title)
            );
        }
        for id in [PROGRAM, IDLE] {
            assert!(layers().get(id).is_some());
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("*b*d*", "abcde", true),
            ("*d*b*", "abcde", false),
            ("_ssl.*.so", "_ssl.cpython-311.so", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_and_any_file_are_judged(name in "\\PC{0,30}", text in "\\PC{0,200}") {
            let frame = Frame { name: &name, object: Some(&name), is_kernel: true };
            let _ = layers().decide(&[frame, Frame { is_kernel: false, ..frame }]);
            let _ = layers().clone().add("a", &text);
        }
    }
}
