//! The deployment's variables: what a `${NAME}` stands for on this machine, now (protocol document section 12, G1-6, G1-44).
//!
//! Owns the order of the sources and which names of the environment count. Values are looked up when they are needed and never
//! kept (S1-78). It must not know prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use catalog::template::{RenderError, Text, Values};
use job::BoxFuture;
use job::variables::{LookupError, SECRET_BYTES_MIN, Source, Value, Variables};

use crate::config::Config;

/// Reads one name of the environment. A port, so that tests need not change the environment of their process.
pub type Environ = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Parts of a name that say its value is secret.
const SECRET_WORDS: [&str; 4] = ["SECRET", "TOKEN", "KEY", "PASS"];
/// Names of our own overrides; they are no variables unless listed.
const OWN_PREFIX: &str = "AMP_";

/// The environment of this process.
pub fn process_environ() -> Environ {
    // A value that is no UTF-8 is no text, so the name counts as absent.
    Arc::new(|name| std::env::var(name).ok())
}

/// The variables of a deployment: `[vars]`, then the environment. Between them stands the secret store of later builds.
pub struct Deployment {
    rules: arc_swap::ArcSwap<Rules>,
    environ: Environ,
}

#[derive(Debug)]
struct Rules {
    vars: BTreeMap<String, Arc<str>>,
    allow: Option<Vec<String>>,
    redact: BTreeSet<String>,
}

impl Rules {
    fn new(config: &Config) -> Self {
        let vars = config.vars.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        Self { vars, allow: config.allow.clone(), redact: config.redact.iter().cloned().collect() }
    }
}

impl Deployment {
    /// The variables of this configuration and environment.
    pub fn new(config: &Config, environ: Environ) -> Self {
        Self { rules: arc_swap::ArcSwap::from_pointee(Rules::new(config)), environ }
    }

    /// Takes the rules of another configuration.
    pub fn apply(&self, config: &Config) {
        self.rules.store(Arc::new(Rules::new(config)));
    }

    /// The value of a name from the first source that has it.
    fn find(&self, name: &str) -> Option<Value> {
        if let Some(text) = self.rules.load().vars.get(name) {
            return Some(Value { text: text.clone(), source: Source::Config, secret: false });
        }
        if !self.allows(name) {
            return None;
        }
        let text: Arc<str> = (self.environ)(name)?.into();
        let secret = text.len() >= SECRET_BYTES_MIN && (looks_secret(name) || self.rules.load().redact.contains(name));
        Some(Value { text, source: Source::Environment, secret })
    }

    /// Whether a name of the environment counts (G1-6): listed whole, or matched by a pattern and not secret-looking; without a
    /// list, every name that is neither secret-looking nor one of our own overrides.
    fn allows(&self, name: &str) -> bool {
        let guarded = looks_secret(name) || name.starts_with(OWN_PREFIX);
        match &self.rules.load().allow {
            None => !guarded,
            Some(allow) => allow.iter().any(|entry| entry == name || (!guarded && matches(entry, name))),
        }
    }

    /// Fills a text of the configuration, such as the mesh password.
    pub async fn fill(&self, text: &Text) -> Result<String, FillError> {
        let mut values = Values::new();
        for name in text.variables() {
            if let Some(value) = self.lookup(name).await? {
                values.insert(name.clone(), value);
            }
        }
        Ok(text.fill(&values)?)
    }
}

/// Why a text of the configuration cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// A source failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// No source has a variable.
    #[error(transparent)]
    Unresolved(#[from] RenderError),
}

impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deployment").field("vars", &self.rules.load().vars.keys()).finish_non_exhaustive()
    }
}

impl Variables for Deployment {
    fn lookup(&self, name: &str) -> BoxFuture<'_, Result<Option<Value>, LookupError>> {
        let found = self.find(name);
        Box::pin(async move { Ok(found) })
    }
}

/// Whether a name says that its value is secret, in whatever case it is written.
pub fn looks_secret(name: &str) -> bool {
    let upper = name.to_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and how much of the name it has taken so far: going back there is enough.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    (p, n) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::sync::Mutex;

    /// Every source of this build answers at once.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("ready at once")
    }

    fn deployment(toml: &str, environment: &[(&str, &str)]) -> Deployment {
        let inputs = crate::config::Inputs {
            file: Some(("amp-node.toml".into(), format!("[[agent]]\nid = \"a\"\n{toml}"))),
            ..Default::default()
        };
        let config = Config::resolve(&inputs).expect("fine");
        let names: BTreeMap<String, String> = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Deployment::new(&config, Arc::new(move |name| names.get(name).cloned()))
    }

    fn found(deployment: &Deployment, name: &str) -> Option<(String, Source, bool)> {
        let value = block_on(deployment.lookup(name)).expect("no source fails");
        value.map(|value| (value.text.to_string(), value.source, value.secret))
    }

    /// S1-76, S1-76b, G1-6: configuration before environment; by default all names but secret-looking ones and our own.
    #[test]
    fn sources_have_an_order_and_secrets_are_no_default() {
        let environment = [
            ("TEAM", "env"),
            ("HOST", "db1"),
            ("EMPTY", ""),
            ("DB_PASS", "hunter2hunter2"),
            ("api_key", "x"),
            ("AMP_MESH__ROOT", "x"),
            ("GH_TOKEN", "x"),
            ("MY_SECRET", "x"),
        ];
        let deployment = deployment("[vars]\nTEAM = \"config\"", &environment);
        assert_eq!(found(&deployment, "TEAM"), Some(("config".into(), Source::Config, false)));
        assert_eq!(found(&deployment, "HOST"), Some(("db1".into(), Source::Environment, false)));
        assert_eq!(found(&deployment, "EMPTY"), Some((String::new(), Source::Environment, false)));
        for name in ["DB_PASS", "api_key", "AMP_MESH__ROOT", "GH_TOKEN", "MY_SECRET", "NOPE"] {
            assert_eq!(found(&deployment, name), None, "{name}");
        }
    }

    /// G1-6, G1-44: a list replaces the rule; a secret-looking name counts only if listed whole, and is a secret from 8 bytes on.
    #[test]
    fn a_list_names_what_counts() {
        let environment = [
            ("REVIEW_TEAM", "team-of-eight"),
            ("REVIEW_TOKEN", "long-enough"),
            ("OPENAI_API_KEY", "sk-12345"),
            ("SHORT_KEY", "1234567"),
            ("PIN", "12345678"),
            ("HOST", "x"),
        ];
        let deployment = deployment(
            "[environment]\nallow = [\"REVIEW_*\", \"OPENAI_API_KEY\", \"SHORT_KEY\", \"PIN\"]\n[secrets]\nredact = [\"PIN\"]",
            &environment,
        );
        assert_eq!(found(&deployment, "REVIEW_TEAM"), Some(("team-of-eight".into(), Source::Environment, false)));
        assert_eq!(found(&deployment, "REVIEW_TOKEN"), None);
        assert_eq!(found(&deployment, "OPENAI_API_KEY"), Some(("sk-12345".into(), Source::Environment, true)));
        assert_eq!(found(&deployment, "SHORT_KEY"), Some(("1234567".into(), Source::Environment, false)));
        assert_eq!(found(&deployment, "PIN"), Some(("12345678".into(), Source::Environment, true)));
        assert_eq!(found(&deployment, "HOST"), None);
    }

    /// S1-78: the environment is read when a job asks, not before.
    #[test]
    fn values_are_looked_up_when_asked() {
        let config = Config::for_catalog("c".into(), Vec::new()).expect("fine");
        let now = Arc::new(Mutex::new("one".to_owned()));
        let read = now.clone();
        let deployment = Deployment::new(&config, Arc::new(move |_| read.lock().ok().map(|text| text.clone())));
        assert_eq!(found(&deployment, "X").map(|value| value.0), Some("one".into()));
        *now.lock().expect("unpoisoned") = "two".into();
        assert_eq!(found(&deployment, "X").map(|value| value.0), Some("two".into()));
    }

    /// The mesh password comes from the same sources.
    #[test]
    fn texts_of_the_configuration_are_filled() {
        let text = |source| Text::parse(source).expect("fine");
        let deployment = deployment("[environment]\nallow = [\"MQTT_PASSWORD\"]", &[("MQTT_PASSWORD", "s3cret{{x}}")]);
        assert_eq!(block_on(deployment.fill(&text("${MQTT_PASSWORD}"))), Ok("s3cret{{x}}".into()));
        let error = block_on(deployment.fill(&text("${OTHER}"))).expect_err("no such variable");
        assert_eq!(error.to_string(), "the variable OTHER has no value in any source");
        assert!(!format!("{deployment:?}").contains("s3cret"));
    }

    #[test]
    fn stars_stand_for_any_text() {
        let rows = [
            ("A_*", "A_B", true),
            ("A_*", "A_", true),
            ("A_*", "BA_", false),
            ("*", "", true),
            ("*_URL", "X_URL", true),
            ("*_URL", "X_URLS", false),
            ("A*B*C", "AxxBxBxC", true),
            ("A*B*C", "AxxC", false),
            ("", "A", false),
            ("A", "a", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(200), &"b".repeat(20_000)), "and it ends");
    }
}
