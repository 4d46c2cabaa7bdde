//! Builds an image from an experiment's Containerfile, which takes a registry. The context is the experiment's folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_model::program::Program;
use lasthop_system::{command, digest, files};

use super::{
    IMAGE_LABEL,
    engine::{Engine, EngineError, last_lines},
    image::{Image, Origin, exists, short_digest},
    labels,
};
use crate::locate::{self, LocateError, Located};

/// The file in an experiment's folder that says how to build its image.
pub const FILE: &str = "Containerfile";
/// The longest that pulling a base image may take.
const PULL: Duration = Duration::from_secs(300);
/// The longest that a build may take.
const BUILD: Duration = Duration::from_secs(900);

/// The folder of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// By path in it.
    pub files: &'a BTreeMap<PathBuf, Vec<u8>>,
    /// Its path; `None` for built-in experiments.
    pub folder: Option<&'a Path>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Usually because there is no registry.
    #[error("the base image {base} of the Containerfile is not on this machine and cannot be pulled: {cause}")]
    Base { base: String, cause: EngineError },
    #[error("cannot write {path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error(
        "cannot build the Containerfile ({status}); --images packages works without it; last lines of the build:{said}"
    )]
    Failed { status: String, said: String },
    #[error("the image built from the Containerfile lacks `{program}`: {cause}")]
    Program { program: String, cause: Box<LocateError> },
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// The image of a folder's Containerfile. It is built unless the engine already has it. `workshop` is a private
/// directory.
/// Errors: a base image cannot be pulled, or the build fails.
pub fn build(engine: &Engine, context: Context<'_>, workshop: &Path) -> Result<Image, BuildError> {
    let text = String::from_utf8_lossy(&context.files[Path::new(FILE)]).into_owned();
    let mut content = format!("{text}\n");
    for base in bases(&text) {
        content.push_str(&obtained(engine, &base)?);
    }
    for (path, bytes) in context.files {
        content.push_str(&format!("{} {}\n", path.display(), digest::of_bytes(bytes)));
    }
    let digest = short_digest(content.as_bytes());
    let name = format!("localhost/lasthop:c{digest}");
    let made = !exists(engine, &name);
    if made {
        let written = workshop.join("context");
        if context.folder.is_none() {
            write(context.files, &written)?;
        }
        let built = carry_out(engine, context.folder.unwrap_or(&written), workshop, &name, &digest);
        let _ = fs::remove_dir_all(&written);
        built?;
    }
    Ok(Image {
        name,
        mounts: Vec::new(),
        made,
        origin: Origin::Containerfile,
        programs: BTreeMap::new(),
    })
}

/// Id of a base image, which is pulled unless it is already here.
fn obtained(engine: &Engine, base: &str) -> Result<String, BuildError> {
    let number = || engine.ask(["image", "inspect", "--format", "{{.Id}}", base]);
    let failed = |cause| BuildError::Base {
        base: base.to_owned(),
        cause,
    };
    if let Ok(number) = number() {
        return Ok(number);
    }
    engine.carry_out(["pull", "--quiet", base], PULL).map_err(failed)?;
    number().map_err(failed)
}

/// Base images of a Containerfile, except those that it builds itself. If the name is an argument, the engine resolves
/// it.
fn bases(text: &str) -> Vec<String> {
    let mut stages = BTreeSet::from(["scratch".to_owned()]);
    let mut bases = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("from")) {
            continue;
        }
        let words: Vec<&str> = words.filter(|word| !word.starts_with("--")).collect();
        if let Some(base) = words
            .first()
            .filter(|base| !stages.contains(**base) && !base.contains('$'))
        {
            bases.push((*base).to_owned());
        }
        if let [_, keyword, stage, ..] = words[..]
            && keyword.eq_ignore_ascii_case("as")
        {
            stages.insert(stage.to_owned());
        }
    }
    bases
}

fn write(files: &BTreeMap<PathBuf, Vec<u8>>, folder: &Path) -> Result<(), BuildError> {
    for (name, bytes) in files {
        let path = folder.join(name);
        let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, bytes));
        written.map_err(|cause| BuildError::File { path, cause })?;
    }
    Ok(())
}

/// Builds to the end even if lasthop dies, because the engine keeps a half-finished build without a label to find it
/// by.
fn carry_out(engine: &Engine, folder: &Path, workshop: &Path, name: &str, digest: &str) -> Result<(), BuildError> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let log = workshop.join("build.log");
    let failed = |status: String| {
        let said = files::read_end(&log, files::SHORT).unwrap_or_default();
        BuildError::Failed {
            status,
            said: last_lines(&String::from_utf8_lossy(&said)),
        }
    };
    let output = File::create(&log).map_err(|cause| BuildError::File {
        path: log.clone(),
        cause,
    })?;
    let mut command = Command::new(&engine.program);
    // A build needs no bridge.
    command.args([
        "build",
        "--network=host",
        "--force-rm",
        "--tag",
        name,
        "--label",
        &format!("{IMAGE_LABEL}={digest}"),
    ]);
    command.args(engine.dialect().build).args(engine.process_limits());
    command
        .arg("--file")
        .arg(folder.join(FILE))
        .arg(&folder)
        .current_dir("/");
    let ended = command::run_into(command, &output, BUILD, command::Life::ToItsEnd);
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    let built = if ended.success() {
        Ok(())
    } else {
        Err(failed(ended.to_string()))
    };
    let _ = fs::remove_file(&log);
    built
}

/// Finds the programs in an image and asks each for its version, as on the host.
/// Errors: a program is missing, does not print its version, or is too old.
pub fn programs(
    engine: &Engine,
    image: &str,
    wanted: &BTreeMap<String, Program>,
    sandbox: &Path,
) -> Result<BTreeMap<String, Located>, BuildError> {
    let environment = engine.ask([
        "image",
        "inspect",
        "--format",
        "{{range .Config.Env}}{{println .}}{{end}}",
        image,
    ])?;
    let path = environment
        .lines()
        .find_map(|line| line.strip_prefix("PATH="))
        .unwrap_or(super::image::PATH);
    let folders: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
    let run = sandbox.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let labels = labels(&run, sandbox.display());
    let start = |program: &Path| {
        let mut command = Command::new(&engine.program);
        command
            .args(["run", "--rm", "--pull=never", "--network=none"])
            .args(engine.process_limits())
            .args(&labels);
        command.current_dir("/");
        command.arg(format!("--entrypoint={}", program.display())).arg(image);
        command
    };
    let find = |(recipe, program): (&String, &Program)| {
        let located = locate::within(program, &folders, &start);
        let failed = |cause| BuildError::Program {
            program: recipe.clone(),
            cause: Box::new(cause),
        };
        Ok((recipe.clone(), located.map_err(failed)?))
    };
    wanted.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_nothing_are_no_base_images() {
        let text = "ARG V=1\nFROM --platform=linux/amd64 registry.example/debian:bookworm-slim AS base\nRUN from here\n\
                    from base as next\nFROM scratch\nFROM a:$V\nFROM localhost/b\nCOPY --from=next /a /a\n";
        assert_eq!(bases(text), ["registry.example/debian:bookworm-slim", "localhost/b"]);
        assert_eq!(bases("FROM scratch\n"), [""; 0]);
    }
}
