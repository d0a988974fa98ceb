//! The built-in guest `prompt`: answers with the rendered prompt, `{"prompt": …}` (decision G1-56).
//!
//! Owns nothing but that answer.

use amp_guest::{Failure, Job, Outcome, Reply};

amp_guest::executor!(answer);

#[derive(serde::Serialize)]
struct Answer {
    prompt: String,
}

fn answer(job: Job) -> Result<Outcome, Failure> {
    Ok(Outcome::result(&Answer { prompt: job.prompt }))
}
