//! The names of functions at the addresses of a stack.
//!
//! They are looked up after the trial, while its processes live. A process that has ended had the address space of its
//! parent, unless it executed another program; then its functions stay unnamed.
//!
//! Names come from a server's own files and mappings. So only the addresses in samples are looked up, all data read has
//! a size limit, and the whole look-up has a deadline and can be interrupted.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use blazesym::{
    MaybeDefault,
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Kernel, Source},
    },
};
use lasthop_system::{files, interrupt};

use crate::{elf, missing::Missing, record::Stack, roles::Family};

/// Maximum letters kept of a name.
const LONGEST: usize = 160;
/// Maximum bytes of a list of generated functions.
const MOST_GENERATED: u64 = 32 << 20;
/// Maximum bytes of a list of a process's mappings: some 100,000 entries, more than the kernel allows by default.
const MOST_MAPPED: u64 = 16 << 20;
/// Maximum files whose functions are named.
const MOST_FILES: usize = 500;
/// Maximum time to find all names. It takes some milliseconds for a program, and 0.2 s for the largest.
const LIMIT: Duration = Duration::from_secs(10);

/// A function with a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub name: Rc<str>,
    /// The name of the function's file, in user space.
    pub object: Option<Rc<str>>,
    pub is_kernel: bool,
}

/// Looks up names, each once.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    kernel: Source<'static>,
    kernel_names: HashMap<u64, Rc<str>>,
    spaces: HashMap<i32, Option<Rc<Space>>>,
    functions: HashMap<CodeLocation, Rc<str>>,
}

/// Device and inode.
type FileId = (String, u64);

/// Location of user-space code: an offset in a file, which many processes may share, or an address in a process that
/// generated the code.
type CodeLocation = (Code, u64);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Code {
    File(FileId),
    Generated(i32),
}

/// The executable regions of a process with requested addresses, in ascending order.
struct Space(Vec<Region>);

struct Region {
    begin: u64,
    end: u64,
    offset: u64,
    /// `None` for memory without a file.
    file: Option<FileId>,
    /// The kernel's name for the region, or the file's name.
    name: Rc<str>,
    /// Range and path of the region, as the kernel writes them.
    range: String,
    path: String,
}

impl Symbols {
    pub(crate) fn new() -> Self {
        let kernel = Kernel {
            vmlinux: MaybeDefault::None,
            ..Kernel::default()
        };
        Self {
            symbolizer: Symbolizer::builder()
                .enable_code_info(false)
                .enable_demangling(false)
                .build(),
            kernel: kernel.into(),
            kernel_names: HashMap::new(),
            spaces: HashMap::new(),
            functions: HashMap::new(),
        }
    }

    /// The functions of a stack, innermost first. [`Symbols::look_at`] must have seen the stack.
    pub(crate) fn functions(&mut self, stack: &Stack, pid: i32) -> Vec<Function> {
        let mut functions = Vec::with_capacity(stack.kernel.len() + stack.user.len());
        for address in calls(&stack.kernel) {
            functions.push(Function {
                name: self.in_kernel(address),
                object: None,
                is_kernel: true,
            });
        }
        let space = self.spaces.get(&pid).cloned().flatten();
        let user = calls(&stack.user).map_while(|address| self.in_user(space.as_deref()?, pid, address));
        functions.extend(user);
        // An unmapped address is no code: without frame pointers the rest of a stack is random.
        if functions.is_empty() {
            functions.push(Function {
                name: "[unknown]".into(),
                object: None,
                is_kernel: false,
            });
        }
        functions
    }

    fn in_kernel(&mut self, address: u64) -> Rc<str> {
        let (symbolizer, kernel) = (&self.symbolizer, &self.kernel);
        let name = self.kernel_names.entry(address).or_insert_with(|| {
            let found = symbolizer.symbolize_single(kernel, Input::AbsAddr(address));
            let name = found
                .ok()
                .and_then(Symbolized::into_sym)
                .map(|symbol| symbol.name.into_owned());
            // The compiler adds suffixes such as `.isra.0` and `.constprop.0`.
            name.map_or_else(
                || "[unknown]".into(),
                |name| shortened(name.split('.').next().unwrap_or(&name)),
            )
        });
        Rc::clone(name)
    }

    /// `None` if nothing is mapped at the address.
    fn in_user(&self, space: &Space, pid: i32, address: u64) -> Option<Function> {
        let region = space.region(address)?;
        let object = region.file.as_ref().map(|_| Rc::clone(&region.name));
        let name = self.functions.get(&region.location(pid, address)).cloned();
        let unnamed = || match object {
            Some(_) => format!("[{}]", region.name).into(),
            None => Rc::clone(&region.name),
        };
        Some(Function {
            name: name.unwrap_or_else(unnamed),
            object,
            is_kernel: false,
        })
    }

    /// Looks up the functions of these stacks in user space. Address spaces are read first, because processes may end
    /// meanwhile.
    pub(crate) fn look_at<'a>(&mut self, stacks: impl Iterator<Item = (i32, &'a Stack)>, family: &Family) {
        let deadline = Instant::now() + LIMIT;
        // Kernel threads have no address space.
        let mut addresses: HashMap<i32, BTreeSet<u64>> = HashMap::new();
        for (pid, stack) in stacks.filter(|(_, stack)| !stack.user.is_empty()) {
            addresses.entry(pid).or_default().extend(calls(&stack.user));
        }
        let mut lookup = Lookup::default();
        for (pid, addresses) in addresses {
            if is_over(deadline) {
                return;
            }
            let of = |reader| Some((reader, Space::of(reader, &addresses)?));
            let space = family.ancestors(pid).find_map(of);
            if let Some((reader, space)) = &space {
                lookup.add(space, pid, *reader, &addresses);
            }
            self.spaces.insert(pid, space.map(|(_, space)| Rc::new(space)));
        }
        // A look-up that hangs, for example in a server's own file system, is abandoned.
        let names = interrupt::aside(LIMIT, move || lookup.names(deadline)).unwrap_or_default();
        let names = names.into_iter().map(|(location, name)| (location, shortened(&name)));
        self.functions.extend(names);
    }
}

fn is_over(deadline: Instant) -> bool {
    interrupt::heard() || Instant::now() >= deadline
}

#[derive(Default)]
struct Lookup {
    files: HashMap<FileId, Mapped>,
    generated: Vec<Generated>,
}

/// A file that a process has mapped, and offsets in it.
struct Mapped {
    pid: i32,
    range: String,
    path: String,
    offsets: BTreeSet<u64>,
}

/// Addresses in a process that generated its code; `reader` has its address space.
struct Generated {
    pid: i32,
    reader: i32,
    addresses: Vec<u64>,
}

impl Lookup {
    fn add(&mut self, space: &Space, pid: i32, reader: i32, addresses: &BTreeSet<u64>) {
        let mut generated = Vec::new();
        for address in addresses {
            let Some(region) = space.region(*address) else {
                continue;
            };
            match region.location(pid, *address) {
                (Code::Generated(_), address) => generated.push(address),
                (Code::File(id), offset) if self.files.len() < MOST_FILES || self.files.contains_key(&id) => {
                    let mapped = self.files.entry(id).or_insert_with(|| region.mapped(reader));
                    mapped.offsets.insert(offset);
                }
                (Code::File(_), _) => {}
            }
        }
        if !generated.is_empty() {
            let addresses = generated;
            self.generated.push(Generated { pid, reader, addresses });
        }
    }

    /// The names found by the deadline.
    fn names(self, deadline: Instant) -> Vec<(CodeLocation, String)> {
        // Held open: a process may end while its functions are named.
        let open = |(id, mapped): (FileId, Mapped)| Some((id, opened(&mapped)?, mapped.offsets));
        let files: Vec<_> = self.files.into_iter().filter_map(open).collect();
        let mut names = Vec::new();
        for generated in self.generated {
            if is_over(deadline) {
                return names;
            }
            let found = names_of_generated(&generated).unwrap_or_default().into_iter();
            names.extend(found.map(|(address, name)| ((Code::Generated(generated.pid), address), name)));
        }
        for (id, file, offsets) in files {
            let offsets: Vec<u64> = offsets.into_iter().collect();
            let found = elf::functions(&file, &offsets, || !is_over(deadline)).into_iter();
            names.extend(found.map(|(offset, name)| ((Code::File(id.clone()), offset), name)));
        }
        names
    }
}

/// Checks that the kernel reveals the addresses of its functions.
pub(crate) fn kernel_is_named() -> Result<(), Missing> {
    let mut lines = files::lines("/proc/kallsyms").take(1000);
    let is_address = |line: String| {
        line.split(' ')
            .next()
            .is_some_and(|word| word.contains(|digit| digit != '0'))
    };
    // In some kernels the first symbols are at 0, such as those of per-CPU memory.
    if lines.any(is_address) {
        Ok(())
    } else {
        Err(Missing::kernel_symbols())
    }
}

/// The addresses of calls. A return address follows its call, possibly at the end of the function.
fn calls(addresses: &[u64]) -> impl Iterator<Item = u64> {
    addresses
        .iter()
        .enumerate()
        .map(|(depth, address)| address.saturating_sub(u64::from(depth > 0)))
}

fn shortened(name: &str) -> Rc<str> {
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

impl Space {
    /// `None` if the process has ended.
    fn of(pid: i32, addresses: &BTreeSet<u64>) -> Option<Self> {
        let path = format!("/proc/{pid}/maps");
        let maps = files::first(files::open(Path::new(&path)).ok()?, MOST_MAPPED).ok()?;
        let maps = String::from_utf8_lossy(&maps);
        let mut regions = maps.lines().filter_map(Region::parse).peekable();
        regions.peek()?;
        let is_asked_for = |region: &Region| {
            let next = addresses.range(region.begin..).next();
            next.is_some_and(|address| *address < region.end)
        };
        Some(Self(regions.filter(is_asked_for).collect()))
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self.0.partition_point(|region| region.begin <= address);
        let region = self.0.get(after.checked_sub(1)?)?;
        (address < region.end).then_some(region)
    }
}

impl Region {
    /// A line of `/proc/PID/maps`: `7f0-7f8 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let range = words.next()?;
        let (begin, end) = range.split_once('-')?;
        words.next()?.contains('x').then_some(())?;
        let offset = words.next()?;
        let device = words.next()?.to_owned();
        let inode = words.next()?.parse().ok()?;
        let path = words.next().unwrap_or_default().trim();
        let name = path
            .trim_end_matches(" (deleted)")
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Self {
            begin: number(begin)?,
            end: number(end)?,
            offset: number(offset)?,
            file: (inode != 0).then_some((device, inode)),
            // Usually generated code: the kernel's own code for programs is called `[vdso]`.
            name: shortened(if name.is_empty() { "[generated]" } else { name }),
            range: range.to_owned(),
            path: path.to_owned(),
        })
    }

    fn location(&self, pid: i32, address: u64) -> CodeLocation {
        match &self.file {
            Some(id) => (Code::File(id.clone()), (address - self.begin).wrapping_add(self.offset)),
            None => (Code::Generated(pid), address),
        }
    }

    fn mapped(&self, pid: i32) -> Mapped {
        Mapped {
            pid,
            range: self.range.clone(),
            path: self.path.clone(),
            offsets: BTreeSet::new(),
        }
    }
}

/// The mapped file itself, wherever its path leads now; without the right to that, its path as the process sees it.
fn opened(Mapped { pid, range, path, .. }: &Mapped) -> Option<File> {
    let exact = files::open_linked(Path::new(&format!("/proc/{pid}/map_files/{range}")));
    let file = exact.or_else(|_| files::open(Path::new(&format!("/proc/{pid}/root{path}"))));
    file.ok()
}

/// The names at these addresses in `/tmp/perf-PID.map`, which Node.js, Python, PHP and others write on request.
fn names_of_generated(generated: &Generated) -> Option<Vec<(u64, String)>> {
    let pid = generated.reader;
    let status = files::text(format!("/proc/{pid}/status")).ok()?;
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let inside = inside.split_ascii_whitespace().next_back()?;
    let path = format!("/proc/{pid}/root/tmp/perf-{inside}.map");
    let bytes = files::read(Path::new(&path), MOST_GENERATED).ok()?;
    Some(names_in(&String::from_utf8_lossy(&bytes), &generated.addresses))
}

/// Reads lines of start and size in hexadecimal, and a name. A later line replaces earlier ones.
fn names_in(text: &str, addresses: &[u64]) -> Vec<(u64, String)> {
    let function = |line| {
        let mut words = str::splitn(line, 3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (begin, size) = (number()?, number()?);
        Some((begin, begin.saturating_add(size), words.next()?))
    };
    let mut functions: Vec<(u64, u64, &str)> = text.lines().rev().filter_map(function).collect();
    functions.sort_by_key(|(begin, ..)| *begin);
    functions.dedup_by_key(|(begin, ..)| *begin);
    let name = |address: &u64| {
        let after = functions.partition_point(|(begin, ..)| begin <= address);
        let (_, end, name) = functions.get(after.checked_sub(1)?)?;
        (address < end).then(|| (*address, shortened(name).to_string()))
    };
    addresses.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_process_have_names() {
        let family = Family::of(&[]);
        let mut symbols = Symbols::new();
        let pid = std::process::id() as i32;
        let address = names_in as fn(&str, &[u64]) -> _ as usize as u64;
        let stack = Stack {
            kernel: Vec::new(),
            user: vec![address, 0x10, address],
        };
        symbols.look_at([(pid, &stack), (i32::MAX, &stack)].into_iter(), &family);
        let functions = symbols.functions(&stack, pid);
        assert!(functions[0].name.contains("names_in"), "{functions:?}");
        assert!(
            functions[0]
                .object
                .as_deref()
                .is_some_and(|name| name.starts_with("lasthop_profile"))
        );
        assert_eq!(functions.len(), 1, "after an address without code nothing is believed");
        let ended = symbols.functions(&stack, i32::MAX);
        assert_eq!((ended.len(), &*ended[0].name), (1, "[unknown]"));
    }

    #[test]
    fn a_list_of_generated_functions_is_read() {
        let text = "7f00 10 JS:*handle app.js:3\nnot a line\n7f10 0x8 py::old:/a.py\n7f10 8 py::new:/a.py\n";
        let names = names_in(text, &[0x7eff, 0x7f0f, 0x7f10, 0x7f18]);
        let wanted = [(0x7f0f, "JS:*handle app.js:3"), (0x7f10, "py::new:/a.py")];
        assert_eq!(names, wanted.map(|(address, name)| (address, name.to_owned())));
    }

    #[test]
    fn a_line_of_the_maps_is_read() {
        let line = "7f00-7fff r-xp 00001000 fe:00 12   /usr/lib/my lib.so (deleted)";
        let region = Region::parse(line).unwrap();
        assert_eq!((region.begin, region.end, region.offset), (0x7f00, 0x7fff, 0x1000));
        assert_eq!(
            (&*region.name, region.file.unwrap()),
            ("my lib.so", ("fe:00".to_owned(), 12))
        );
        assert!(Region::parse("7f00-7fff rw-p 00001000 fe:00 12 /a").is_none());
        let generated = Region::parse("7f00-7fff r-xp 0 00:00 0 ").unwrap();
        assert_eq!((&*generated.name, generated.file.is_none()), ("[generated]", true));
        assert_eq!(
            &*Region::parse("7f00-7fff r-xp 0 00:00 0    [vdso]").unwrap().name,
            "[vdso]"
        );
        assert!(Region::parse("gibberish").is_none());
    }
}
