//! The keys of the house: configuration, command line, wiring, signals.
//!
//! Owns which rooms are opened and how they are joined; see `start`. It must not know how any room does its work.

mod cli;
mod clock;
mod commands;
mod exit;
mod logging;
mod reload;
mod say;
mod shipped;
mod start;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Printing fails only where nobody reads.
            let _ = error.print();
            return if wanted { Exit::Success.into() } else { Exit::Usage.into() };
        }
    };
    let outcome = match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Demo(args) => commands::demo::demo(args),
        Command::Invoke(args) => commands::invoke::invoke(args),
        Command::Cancel(args) => commands::cancel::cancel(args),
        Command::Check(args) => commands::check::check(args),
        Command::Config(args) => commands::config::config(args),
    };
    match outcome {
        Ok(Exit::Success) if say::lost() => Exit::Failure.into(),
        Ok(exit) => exit.into(),
        Err(failure) => {
            say::failure(&failure);
            failure.exit.into()
        }
    }
}

/// What every command gives back.
pub(crate) type Ended = Result<Exit, Failure>;
