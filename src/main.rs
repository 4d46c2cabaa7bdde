//! The command `lasthop`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lasthop::cli::main()
}
