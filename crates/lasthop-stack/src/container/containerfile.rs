//! Builds an image from an experiment's Containerfile. The context is the experiment's folder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_model::program::Program;
use lasthop_system::{command, digest, files};

use super::{
    IMAGE_LABEL,
    engine::{Engine, last_lines},
    labels,
};
use crate::locate::{self, Located};

/// The file in an experiment's folder that describes its image.
pub const FILE: &str = "Containerfile";
/// The longest time to pull a base image.
const PULL: Duration = Duration::from_secs(300);
/// The longest time for a build.
const BUILD: Duration = Duration::from_secs(900);

/// Characters of a digest that suffice to identify the content.
const DIGITS: usize = 16;
/// `PATH` in an image that sets none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image that an engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    /// Programs in the image, by recipe.
    pub programs: BTreeMap<String, Located>,
}

/// The folder of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// File contents by path in the folder.
    pub files: &'a BTreeMap<PathBuf, Vec<u8>>,
    /// The folder's path; `None` for built-in experiments.
    pub folder: Option<&'a Path>,
}

/// Pulls missing base images of a folder's Containerfile, and returns the ids of all base images.
pub fn obtain_bases(engine: &Engine, context: Context<'_>) -> Result<String, String> {
    let text = String::from_utf8_lossy(&context.files[Path::new(FILE)]);
    let mut ids = String::new();
    for base in bases(&text) {
        let id = || engine.ask(["image", "inspect", "--format", "{{.Id}}", &base]);
        let pulled = || engine.carry_out(["pull", "--quiet", &base], PULL).and_then(|_| id());
        let id = id().or_else(|_| pulled()).map_err(|cause| {
            format!(
                "the base image {base} of the Containerfile is not on this machine and cannot be pulled: {cause}; load it \
                 here from a machine that can (`{0} save`, `{0} load`), or name another one in FROM",
                engine.kind.name()
            )
        })?;
        ids.push_str(&id);
    }
    Ok(ids)
}

/// Builds the image of a folder's Containerfile unless the engine already has it, and returns its name. `bases` holds
/// the ids of its base images. `workshop` is a private directory.
pub fn build(engine: &Engine, context: Context<'_>, bases: &str, workshop: &Path) -> Result<String, String> {
    let text = String::from_utf8_lossy(&context.files[Path::new(FILE)]);
    // Includes the ids of base images, because a tag such as `latest` may name another image tomorrow.
    let mut content = format!("{text}\n{bases}");
    for (path, bytes) in context.files {
        content.push_str(&format!("{} {}\n", path.display(), digest::of_bytes(bytes)));
    }
    let mut digest = digest::of_bytes(content.as_bytes());
    digest.truncate(DIGITS);
    let name = format!("localhost/lasthop:c{digest}");
    if engine.ask(["image", "inspect", "--format", "{{.Id}}", &name]).is_err() {
        let written = workshop.join("context");
        if context.folder.is_none() {
            write(context.files, &written)?;
        }
        let built = carry_out(engine, context.folder.unwrap_or(&written), workshop, &name, &digest);
        let _ = fs::remove_dir_all(&written);
        built?;
    }
    Ok(name)
}

/// Base images of a Containerfile, except its own stages. Names from arguments are left to the engine.
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

fn write(files: &BTreeMap<PathBuf, Vec<u8>>, folder: &Path) -> Result<(), String> {
    for (name, bytes) in files {
        let path = folder.join(name);
        let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, bytes));
        written.map_err(|cause| format!("cannot write {}: {cause}", path.display()))?;
    }
    Ok(())
}

/// Completes the build even if lasthop dies, because the engine keeps a half-finished build without a label that would
/// identify it.
fn carry_out(engine: &Engine, folder: &Path, workshop: &Path, name: &str, digest: &str) -> Result<(), String> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let log = workshop.join("build.log");
    let failed = |status: String| {
        let said = files::read_end(&log, files::SHORT).unwrap_or_default();
        format!(
            "cannot build the Containerfile ({status}); last lines of the build:{}",
            last_lines(&String::from_utf8_lossy(&said))
        )
    };
    let output = File::create(&log).map_err(|cause| format!("cannot write {}: {cause}", log.display()))?;
    let mut command = Command::new(&engine.program);
    // A build needs no bridge.
    command.args([
        "build",
        "--network=host",
        // Otherwise Docker keeps the containers of a failed build, without a label.
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
    let built = match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    };
    let _ = fs::remove_file(&log);
    built
}

/// Finds the programs in an image and asks each for its version.
pub fn programs(
    engine: &Engine,
    image: &str,
    wanted: &BTreeMap<String, Program>,
    sandbox: &Path,
) -> Result<BTreeMap<String, Located>, String> {
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
        .unwrap_or(PATH);
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
    let mut programs = BTreeMap::new();
    for (recipe, program) in wanted {
        let located = locate::within(program, &folders, &start)
            .map_err(|cause| format!("the image built from the Containerfile lacks `{recipe}`: {cause}"))?;
        programs.insert(recipe.clone(), located);
    }
    Ok(programs)
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
