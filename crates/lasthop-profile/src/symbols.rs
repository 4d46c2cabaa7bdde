//! The names of functions at the addresses of a stack.
//!
//! They are looked up after the trial, while its processes live. A process that has ended had the address space of the
//! one that forked it, unless it executed another program; then its functions stay unnamed.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::fd::AsRawFd,
    path::Path,
    rc::Rc,
};

use blazesym::{
    MaybeDefault,
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Elf, Kernel, Source},
    },
};
use lasthop_system::files;

use crate::{missing::Missing, record::Stack, roles::Family};

/// Letters that are kept of a name.
const LONGEST: usize = 160;
/// Bytes that a list of generated functions may have.
const MOST_GENERATED: u64 = 32 << 20;

/// A function with a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub name: Rc<str>,
    /// The name of its file, in user space.
    pub object: Option<Rc<str>>,
    pub is_kernel: bool,
}

/// Finds names, each once.
pub(crate) struct Symbols {
    symbolizer: Symbolizer,
    kernel: Source<'static>,
    kernel_names: HashMap<u64, Rc<str>>,
    spaces: HashMap<i32, Option<Rc<Space>>>,
    files: Files,
    /// By file, which is the same for many processes, and offset.
    functions: HashMap<(FileId, u64), Rc<str>>,
}

/// Device and inode.
type FileId = (String, u64);

/// Executables and libraries, held open: a process may end while its functions are named.
type Files = HashMap<FileId, Option<Rc<File>>>;

/// The address space of a process.
struct Space {
    /// What is executable, in ascending order.
    regions: Vec<Region>,
    /// Functions that the process generated, and named in a file for profilers: begin, end, name.
    generated: Vec<(u64, u64, Rc<str>)>,
}

struct Region {
    begin: u64,
    end: u64,
    offset: u64,
    /// `None` for memory without a file.
    file: Option<MappedFile>,
    /// What the kernel calls it, or its file.
    name: Rc<str>,
}

struct MappedFile {
    id: FileId,
    /// `None` if it cannot be opened.
    open: Option<Rc<File>>,
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
            files: Files::new(),
            functions: HashMap::new(),
        }
    }

    /// The functions of a stack, the innermost first.
    pub(crate) fn of(&mut self, stack: &Stack, pid: i32, family: &Family) -> Vec<Function> {
        let mut functions = Vec::with_capacity(stack.kernel.len() + stack.user.len());
        for address in calls(&stack.kernel) {
            functions.push(Function {
                name: self.in_kernel(address),
                object: None,
                is_kernel: true,
            });
        }
        // No kernel thread has an address space, and none is looked for.
        let space = (!stack.user.is_empty()).then(|| self.space(pid, family)).flatten();
        let user = calls(&stack.user).map_while(|address| self.in_user(space.as_deref()?, address));
        functions.extend(user);
        // Where nothing is mapped is no code: without frame pointers the rest of a stack is chance.
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
            // `.isra.0`, `.constprop.0` and the like are the compiler's.
            name.map_or_else(
                || "[unknown]".into(),
                |name| shortened(name.split('.').next().unwrap_or(&name)),
            )
        });
        Rc::clone(name)
    }

    /// `None` if nothing is mapped there.
    fn in_user(&mut self, space: &Space, address: u64) -> Option<Function> {
        let region = space.region(address)?;
        let function = |name, object| Function {
            name,
            object,
            is_kernel: false,
        };
        let Some(file) = &region.file else {
            let generated = space.generated(address);
            return Some(function(generated.unwrap_or_else(|| Rc::clone(&region.name)), None));
        };
        let offset = address - region.begin + region.offset;
        let symbolizer = &self.symbolizer;
        let name = self.functions.entry((file.id.clone(), offset)).or_insert_with(|| {
            let name = file.open.as_ref().and_then(|file| {
                let mut elf = Elf::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
                elf.debug_syms = false;
                let found = symbolizer.symbolize_single(&elf.into(), Input::FileOffset(offset));
                Some(shortened(&found.ok()?.into_sym()?.name))
            });
            name.unwrap_or_else(|| format!("[{}]", region.name).into())
        });
        Some(function(Rc::clone(name), Some(Rc::clone(&region.name))))
    }

    /// Reads the address spaces of these processes. To be called first: naming takes a while, and they may end.
    pub(crate) fn look_at(&mut self, pids: impl Iterator<Item = i32>, family: &Family) {
        for pid in pids {
            self.space(pid, family);
        }
    }

    fn space(&mut self, pid: i32, family: &Family) -> Option<Rc<Space>> {
        if let Some(known) = self.spaces.get(&pid) {
            return known.clone();
        }
        let space = family
            .ancestors(pid)
            .find_map(|pid| Space::of(pid, &mut self.files))
            .map(Rc::new);
        self.spaces.insert(pid, space.clone());
        space
    }
}

/// Whether the kernel tells where its functions are.
pub(crate) fn kernel_is_named() -> Result<(), Missing> {
    let lines = File::open("/proc/kallsyms").map(|file| BufReader::new(file).lines());
    let mut lines = lines.into_iter().flatten().take(1000).map_while(Result::ok);
    let is_address = |line: String| {
        line.split(' ')
            .next()
            .is_some_and(|word| word.contains(|digit| digit != '0'))
    };
    // The first symbols of some kernels are at 0, as those of each CPU's own memory are.
    if lines.any(is_address) {
        Ok(())
    } else {
        Err(Missing::kernel_symbols())
    }
}

/// A caller's address is behind its call, which may be the end of the function.
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
    fn of(pid: i32, files: &mut Files) -> Option<Self> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let regions: Vec<Region> = maps
            .lines()
            .filter_map(|line| Region::parse(pid, line, files))
            .collect();
        (!regions.is_empty()).then(|| Self {
            regions,
            generated: generated(pid).unwrap_or_default(),
        })
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.begin <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (address < region.end).then_some(region)
    }

    fn generated(&self, address: u64) -> Option<Rc<str>> {
        let after = self.generated.partition_point(|(begin, _, _)| *begin <= address);
        let (_, end, name) = self.generated.get(after.checked_sub(1)?)?;
        (address < *end).then(|| Rc::clone(name))
    }
}

impl Region {
    /// A line of `/proc/PID/maps`: `7f0-7f8 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6`.
    fn parse(pid: i32, line: &str, files: &mut Files) -> Option<Self> {
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
        let file = (inode != 0).then(|| {
            let id = (device, inode);
            let open = files
                .entry(id.clone())
                .or_insert_with(|| opened(pid, range, path).map(Rc::new));
            MappedFile { open: open.clone(), id }
        });
        Some(Self {
            begin: number(begin)?,
            end: number(end)?,
            offset: number(offset)?,
            file,
            // Code that was generated, as a rule: that of the kernel for programs is called `[vdso]`.
            name: shortened(if name.is_empty() { "[generated]" } else { name }),
        })
    }
}

/// The file itself, whatever its path leads to now; without the right for that, its path as the process sees it.
fn opened(pid: i32, range: &str, path: &str) -> Option<File> {
    let exact = File::open(format!("/proc/{pid}/map_files/{range}"));
    let file = exact.or_else(|_| files::open(Path::new(&format!("/proc/{pid}/root{path}"))));
    file.ok()
        .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))
}

/// `/tmp/perf-PID.map`, which Node.js, Python, PHP and others write if they are told to. By begin.
fn generated(pid: i32) -> Option<Vec<(u64, u64, Rc<str>)>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let inside = inside.split_ascii_whitespace().next_back()?;
    let path = format!("/proc/{pid}/root/tmp/perf-{inside}.map");
    let bytes = files::read(Path::new(&path), MOST_GENERATED).ok()?;
    Some(parse_generated(&String::from_utf8_lossy(&bytes)))
}

/// A line has begin and size in hexadecimal, and a name. A later one replaces what was there.
fn parse_generated(text: &str) -> Vec<(u64, u64, Rc<str>)> {
    let function = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (begin, size) = (number()?, number()?);
        Some((begin, begin.saturating_add(size), shortened(words.next()?)))
    };
    let mut functions: Vec<_> = text.lines().rev().filter_map(function).collect();
    functions.sort_by_key(|(begin, _, _)| *begin);
    functions.dedup_by_key(|(begin, _, _)| *begin);
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_process_have_names() {
        let family = Family::of(&[]);
        let mut symbols = Symbols::new();
        let pid = std::process::id() as i32;
        let address = parse_generated as fn(&str) -> _ as usize as u64;
        let stack = Stack {
            kernel: Vec::new(),
            user: vec![address, 0x10, address],
        };
        let functions = symbols.of(&stack, pid, &family);
        assert!(functions[0].name.contains("parse_generated"), "{functions:?}");
        assert!(
            functions[0]
                .object
                .as_deref()
                .is_some_and(|name| name.starts_with("lasthop_profile"))
        );
        assert_eq!(functions.len(), 1, "after an address without code nothing is believed");
        let ended = symbols.of(&stack, i32::MAX, &family);
        assert_eq!((ended.len(), &*ended[0].name), (1, "[unknown]"));
    }

    #[test]
    fn a_list_of_generated_functions_is_read() {
        let text = "7f00 10 JS:*handle app.js:3\nnot a line\n7f10 0x8 py::old:/a.py\n7f10 8 py::new:/a.py\n";
        let space = Space {
            regions: Vec::new(),
            generated: parse_generated(text),
        };
        let at = |address| space.generated(address).map(|name| name.to_string());
        assert_eq!(at(0x7f0f).as_deref(), Some("JS:*handle app.js:3"));
        assert_eq!(at(0x7f10).as_deref(), Some("py::new:/a.py"));
        assert_eq!((at(0x7eff), at(0x7f18)), (None, None));
    }

    #[test]
    fn a_line_of_the_maps_is_read() {
        let line = "7f00-7fff r-xp 00001000 fe:00 12   /usr/lib/my lib.so (deleted)";
        let region = Region::parse(i32::MAX, line, &mut Files::new()).unwrap();
        assert_eq!((region.begin, region.end, region.offset), (0x7f00, 0x7fff, 0x1000));
        assert_eq!(
            (&*region.name, region.file.unwrap().id),
            ("my lib.so", ("fe:00".to_owned(), 12))
        );
        assert!(Region::parse(1, "7f00-7fff rw-p 00001000 fe:00 12 /a", &mut Files::new()).is_none());
        let generated = Region::parse(1, "7f00-7fff r-xp 0 00:00 0 ", &mut Files::new()).unwrap();
        assert_eq!((&*generated.name, generated.file.is_none()), ("[generated]", true));
        assert_eq!(
            &*Region::parse(1, "7f00-7fff r-xp 0 00:00 0    [vdso]", &mut Files::new())
                .unwrap()
                .name,
            "[vdso]"
        );
        assert!(Region::parse(1, "gibberish", &mut Files::new()).is_none());
    }
}
