use super::*;
pub fn doctor(_: &args::Doctor) -> Result<ExitCode, CliError> { Err(CliError::failed("soon")) }
pub fn setup(_: &args::Setup) -> Result<ExitCode, CliError> { Err(CliError::failed("soon")) }
