//! The demo guest `review`: reads a schema migration and says which statements lock a table, with progress on the way and a
//! result of the domain type `review`.
//!
//! Owns a handful of plain rules about SQL. It must not know who asked, or how the answer travels.

use amp_guest::{Failure, Job, Outcome, Reply};

amp_guest::executor!(review);

/// Statements looked at; a longer migration should be split anyway.
const STATEMENTS_MAX: usize = 1_000;
/// Bytes of a statement that are shown in a finding.
const SHOWN_BYTES_MAX: usize = 80;

#[derive(serde::Deserialize)]
struct Args {
    /// The migration: its SQL, or just its name.
    migration: String,
}

#[derive(serde::Serialize)]
struct Review {
    verdict: &'static str,
    summary: String,
    statements: usize,
    findings: Vec<Finding>,
}

#[derive(serde::Serialize)]
struct Finding {
    severity: &'static str,
    statement: String,
    advice: &'static str,
}

/// What a statement looks like, what it spares, how bad it is, and what to do instead.
const RULES: &[(&[&str], &str, &str, &str)] = &[
    (&["DROP", "TABLE"], "", "block", "Stop using the table first, and drop it one release later."),
    (&["DROP", "COLUMN"], "", "block", "Stop reading the column first, and drop it one release later."),
    (&["CREATE", "INDEX"], "CONCURRENTLY", "block", "Create the index CONCURRENTLY; without it every write waits."),
    (
        &["SET", "NOT", "NULL"],
        "",
        "warn",
        "Add a CHECK constraint as NOT VALID and validate it; SET NOT NULL scans the table under a lock.",
    ),
    (&["ALTER", "TYPE"], "", "warn", "Changing a type rewrites the table; add a new column and backfill it."),
    (&["ADD", "FOREIGN", "KEY"], "NOT VALID", "warn", "Add the key as NOT VALID and validate it in a second step."),
    (&["TRUNCATE"], "", "block", "TRUNCATE takes the strongest lock there is; delete in batches."),
    (&["LOCK", "TABLE"], "", "block", "An explicit lock in a migration stops the service that uses the table."),
];

fn review(job: Job) -> Result<Outcome, Failure> {
    let args: Args = amp_guest::args(&job)?;
    amp_guest::progress("reading the migration");
    let statements: Vec<&str> = args.migration.split(';').map(str::trim).filter(|s| !s.is_empty()).collect();
    if statements.is_empty() {
        return Err(amp_guest::fail("the migration is empty: put its SQL, or its name, into `migration`"));
    }
    if statements.len() > STATEMENTS_MAX {
        return Err(amp_guest::fail(format!("{} statements; split the migration, at most {STATEMENTS_MAX}", statements.len())));
    }
    amp_guest::progress(&format!("checking {} for locks", count(statements.len(), "statement")));
    let findings: Vec<Finding> = statements.iter().filter_map(|statement| judge(statement)).collect();
    amp_guest::progress(&format!("found {}", count(findings.len(), "risk")));
    let blocked = findings.iter().any(|f| f.severity == "block");
    let verdict = if blocked { "changes_requested" } else { "approved" };
    let summary = match findings.as_slice() {
        [] => format!("{}, no lock risk found.", count(statements.len(), "statement")),
        [first, ..] => format!("{} in {}. {}", count(findings.len(), "risk"), count(statements.len(), "statement"), first.advice),
    };
    Ok(Outcome::of_kind("review", &Review { verdict, summary, statements: statements.len(), findings }))
}

/// The first rule that a statement breaks.
fn judge(statement: &str) -> Option<Finding> {
    let upper = statement.to_ascii_uppercase();
    let words: Vec<&str> = upper.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let (_, _, severity, advice) = RULES.iter().find(|(needed, spared, _, _)| {
        let spared_here = !spared.is_empty() && words.join(" ").contains(spared);
        in_order(&words, needed) && !spared_here
    })?;
    Some(Finding { severity, statement: shown(statement), advice })
}

/// Whether the needed words occur in this order, with anything between them.
fn in_order(words: &[&str], needed: &[&str]) -> bool {
    let mut rest = words.iter();
    needed.iter().all(|word| rest.any(|w| w == word))
}

fn shown(statement: &str) -> String {
    match statement.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN_BYTES_MAX) {
        Some(cut) => format!("{}…", &statement[..cut]),
        None => statement.into(),
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
