//! The test guest `mischief`: misbehaves as its arguments say, `{"do":"loop"}`, `{"do":"progress","n":3}`.
//!
//! Owns one function for each way a guest can do harm; the tests of the host name them all ([`WAYS`], `{"do":"ways"}`).

mod compute;
mod memory;
mod outside;
mod talk;

use amp_guest::{Failure, Job, Outcome, Reply};

amp_guest::executor!(misbehave);

/// What to do, how often or how much, and with which words.
#[derive(serde::Deserialize)]
struct Args {
    #[serde(rename = "do")]
    way: String,
    #[serde(default)]
    n: u64,
    #[serde(default)]
    text: String,
}

/// One way to misbehave.
type Way = fn(&Args, &Job) -> Result<Outcome, Failure>;

/// Every way, by the word that chooses it.
const WAYS: &[(&str, Way)] = &[
    ("ways", ways),
    ("echo", talk::echo),
    ("loop", compute::endless),
    ("work", compute::work),
    ("panic", compute::panic),
    ("unreachable", compute::unreachable),
    ("recurse", compute::recurse),
    ("recurse_natively", compute::recurse_natively),
    ("grow_then_loop", memory::grow_then_loop),
    ("grow_forever", memory::grow_forever),
    ("grow_then_trap", memory::grow_then_trap),
    ("allocate", memory::allocate),
    ("try_reserve", memory::try_reserve),
    ("wild_read", memory::wild_read),
    ("remember", memory::remember),
    ("answer", talk::answer),
    ("huge_answer", talk::huge_answer),
    ("reserved_kind", talk::reserved_kind),
    ("fail", talk::fail),
    ("progress", talk::progress),
    ("progress_forever", talk::progress_forever),
    ("long_progress", talk::long_progress),
    ("log", talk::log),
    ("ask", talk::ask),
    ("sleep", outside::sleep),
    ("look_around", outside::look_around),
    ("complain", outside::complain),
    ("complain_forever", outside::complain_forever),
    ("exit", outside::exit),
    ("hoard_timers", outside::hoard_timers),
    ("random_forever", outside::random_forever),
];

fn misbehave(job: Job) -> Result<Outcome, Failure> {
    let args: Args = amp_guest::args(&job)?;
    match WAYS.iter().find(|(word, _)| *word == args.way) {
        Some((_, way)) => way(&args, &job),
        None => Err(amp_guest::fail(format!("there is no way {:?}", args.way))),
    }
}

fn ways(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    Ok(Outcome::result(&WAYS.iter().map(|(word, _)| *word).collect::<Vec<_>>()))
}
