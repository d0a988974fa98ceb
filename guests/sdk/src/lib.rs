//! The guest SDK: write a function from a job to an outcome, and [`executor!`] makes a component of it.
//!
//! Owns the bindings of the `executor` world (folder `wit/` of the repository) and a few helpers around them. It must not
//! know any service.
//!
//! ```ignore
//! use amp_guest::{Failure, Job, Outcome, Reply};
//!
//! amp_guest::executor!(greet);
//!
//! fn greet(job: Job) -> Result<Outcome, Failure> {
//!     amp_guest::progress("greeting");
//!     Ok(Outcome::result(&job.prompt))
//! }
//! ```

#[allow(missing_docs, reason = "generated; the documentation stands in the wit files")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "amp:capability/executor@1.0.0",
        pub_export_macro: true,
    });
}

pub use bindings::amp::capability::report::Level;
pub use bindings::amp::capability::types::{Failure, Job, Outcome};
pub use bindings::amp::capability::{input, mesh};
pub use serde_json;

use bindings::amp::capability::report;

/// Makes the component's `execute` of a function `fn(Job) -> Result<Outcome, Failure>`. Once in a guest.
#[macro_export]
macro_rules! executor {
    ($run:path) => {
        struct Exported;

        impl $crate::bindings::Guest for Exported {
            fn execute(job: $crate::Job) -> Result<$crate::Outcome, $crate::Failure> {
                $crate::say_why_on_panic();
                $run(job)
            }
        }

        $crate::bindings::export!(Exported with_types_in $crate::bindings);
    };
}

/// A milestone for the requester.
pub fn progress(message: &str) {
    report::progress(message);
}

/// A line for the operator's log.
pub fn log(level: Level, message: &str) {
    report::log(level, message);
}

/// A panic tells its message and place before it traps, so that the job's error says more than `unreachable`.
pub fn say_why_on_panic() {
    std::panic::set_hook(Box::new(|panic| report::log(Level::Error, &panic.to_string())));
}

/// The arguments as a type of the guest's own; arguments that do not fit are the requester's failure.
pub fn args<T: serde::de::DeserializeOwned>(job: &Job) -> Result<T, Failure> {
    serde_json::from_str(&job.args).map_err(|error| fail(format!("the arguments do not fit: {error}")))
}

/// A failure with this message.
pub fn fail(message: impl Into<String>) -> Failure {
    Failure { message: message.into() }
}

/// Ways to make an outcome.
pub trait Reply {
    /// A plain `result`.
    fn result<T: serde::Serialize + ?Sized>(body: &T) -> Outcome;

    /// A result of a domain type, such as `review`.
    fn of_kind<T: serde::Serialize + ?Sized>(kind: &str, body: &T) -> Outcome;
}

impl Reply for Outcome {
    fn result<T: serde::Serialize + ?Sized>(body: &T) -> Outcome {
        Outcome { kind: None, body: text_of(body) }
    }

    fn of_kind<T: serde::Serialize + ?Sized>(kind: &str, body: &T) -> Outcome {
        Outcome { kind: Some(kind.into()), body: text_of(body) }
    }
}

/// Only a map whose keys are no strings, or a `Serialize` that refuses, cannot become JSON: a fault of the guest's own code.
fn text_of<T: serde::Serialize + ?Sized>(body: &T) -> String {
    match serde_json::to_string(body) {
        Ok(text) => text,
        Err(error) => panic!("the answer cannot become JSON: {error}"),
    }
}
