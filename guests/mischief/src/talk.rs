//! Harm by talking: answers, failures and reports that are wrong, many or long.

use amp_guest::bindings::amp::capability::{input, mesh};
use amp_guest::{Failure, Job, Level, Outcome, Reply, serde_json};

use crate::Args;

/// Says back what it was given, the arguments to the byte.
pub fn echo(_: &Args, job: &Job) -> Result<Outcome, Failure> {
    let rest = serde_json::json!([
        job.id,
        job.owner,
        job.service,
        job.prompt,
        job.parent,
        job.root,
        job.depth,
        job.attempt,
        job.timeout_ms
    ]);
    Ok(Outcome { kind: None, body: format!("{{\"args\":{},\"job\":{rest}}}", job.args) })
}

/// Answers with `text` as it is, JSON or not.
pub fn answer(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    Ok(Outcome { kind: None, body: args.text.clone() })
}

/// Answers with a JSON text of `n` bytes.
pub fn huge_answer(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let inside = (args.n as usize).saturating_sub(2);
    Ok(Outcome { kind: None, body: format!("\"{}\"", "x".repeat(inside)) })
}

/// Answers with `text` as its result type.
pub fn reserved_kind(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    Ok(Outcome::of_kind(&args.text, &()))
}

/// Fails with the words of `text`, `n` times over.
pub fn fail(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    Err(amp_guest::fail(args.text.repeat(args.n.max(1) as usize)))
}

/// `n` milestones.
pub fn progress(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    for at in 0..args.n {
        amp_guest::progress(&format!("step {at}"));
    }
    Ok(Outcome::result("done"))
}

/// Milestones of `n` bytes without end.
pub fn progress_forever(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let message = "m".repeat(args.n as usize);
    loop {
        amp_guest::progress(&message);
    }
}

/// One milestone: `text`, `n` times over.
pub fn long_progress(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    amp_guest::progress(&args.text.repeat(args.n as usize));
    Ok(Outcome::result("done"))
}

/// One line of each level, and `n` lines more.
pub fn log(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
        amp_guest::log(level, &args.text);
    }
    for _ in 0..args.n {
        amp_guest::log(Level::Info, &args.text);
    }
    Ok(Outcome::result("done"))
}

/// Asks the mesh and the requester, and tells what they said.
pub fn ask(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    let request = mesh::AskRequest { agent: None, service: "style.check".into(), args: "{}".into(), timeout_ms: None };
    let one = mesh::ask(&request);
    let many = mesh::ask_many(&[request.clone(), request]);
    let found = mesh::find(None);
    let said = input::request("which one?", None);
    Ok(Outcome::result(&[format!("{one:?}"), format!("{many:?}"), format!("{found:?}"), format!("{said:?}")]))
}
