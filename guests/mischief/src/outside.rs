//! Harm by the host's WASI interfaces: waiting, looking around, and taking what nobody granted.

use amp_guest::{Failure, Job, Outcome, Reply, serde_json};

use crate::Args;

#[allow(missing_docs, reason = "generated")]
mod wasi_bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "amp:mischief/outside",
        generate_all,
    });
}

use wasi_bindings::wasi;

/// Waits `n` milliseconds in a host call.
pub fn sleep(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    wasi::clocks::monotonic_clock::subscribe_duration(args.n.saturating_mul(1_000_000)).block();
    Ok(Outcome::result("slept"))
}

/// Tells what it can see: environment, arguments, folders, stdin, and whether it may make a socket.
pub fn look_around(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    let folders = wasi::filesystem::preopens::get_directories();
    let stdin = wasi::cli::stdin::get_stdin().blocking_read(16);
    let socket = wasi::sockets::tcp_create_socket::create_tcp_socket(wasi::sockets::network::IpAddressFamily::Ipv4);
    Ok(Outcome::result(&serde_json::json!({
        "env": wasi::cli::environment::get_environment(),
        "args": wasi::cli::environment::get_arguments(),
        "folders": folders.iter().map(|(_, name)| name).collect::<Vec<_>>(),
        "stdin": match stdin { Ok(_) => "open", Err(_) => "closed" },
        "socket": match socket { Ok(_) => "made".to_owned(), Err(code) => code.name().to_owned() },
    })))
}

/// Writes `text` to stderr `n` times, in writes of at most 4 KiB as WASI asks, then traps.
pub fn complain(args: &Args, job: &Job) -> Result<Outcome, Failure> {
    let stderr = wasi::cli::stderr::get_stderr();
    for _ in 0..args.n {
        let _ = stderr.blocking_write_and_flush(args.text.as_bytes());
    }
    crate::compute::unreachable(args, job)
}

/// Writes to stdout for ever.
pub fn complain_forever(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    let stdout = wasi::cli::stdout::get_stdout();
    loop {
        let _ = stdout.blocking_write_and_flush(&[b'x'; 4096]);
    }
}

/// Leaves by the door that is for commands.
pub fn exit(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    wasi::cli::exit::exit(Ok(()));
    Ok(Outcome::result("still here"))
}

/// Makes timers and never drops them.
pub fn hoard_timers(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    loop {
        std::mem::forget(wasi::clocks::monotonic_clock::subscribe_duration(u64::MAX / 2));
    }
}

/// Asks for `n` random bytes at a time, for ever.
pub fn random_forever(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    loop {
        std::hint::black_box(wasi::random::random::get_random_bytes(args.n));
    }
}
