//! lasthop's own executable.

/// Path of lasthop's executable, or `/proc/self/exe` if the file was replaced since lasthop started: the guard can
/// still start that link.
pub fn own_executable() -> Result<String, String> {
    let path = std::env::current_exe().map_err(|error| format!("cannot find lasthop's own executable: {error}"))?;
    // The kernel then appends ` (deleted)` to the path, and no such file exists.
    Ok(if path.exists() {
        path.display().to_string()
    } else {
        "/proc/self/exe".to_owned()
    })
}
