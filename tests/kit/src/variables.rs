//! Variables a test writes down.
//!
//! Owns the table. It must not know any real source.

use std::collections::HashMap;

use job::BoxFuture;
use job::variables::{LookupError, Source, Value, Variables};

/// A fixed table of variables.
#[derive(Debug, Clone, Default)]
pub struct FixedVariables(HashMap<String, Result<Value, LookupError>>);

impl FixedVariables {
    /// Adds an open value from the configuration.
    pub fn open(mut self, name: &str, text: &str) -> Self {
        let value = Value { text: text.into(), source: Source::Config, secret: false };
        self.0.insert(name.into(), Ok(value));
        self
    }

    /// Adds a secret value from the secret store.
    pub fn secret(mut self, name: &str, text: &str) -> Self {
        let value = Value { text: text.into(), source: Source::Store, secret: true };
        self.0.insert(name.into(), Ok(value));
        self
    }

    /// Adds a name on which the secret store fails.
    pub fn broken(mut self, name: &str, why: &str) -> Self {
        self.0.insert(name.into(), Err(LookupError { name: name.into(), why: why.into() }));
        self
    }
}

impl Variables for FixedVariables {
    fn lookup(&self, name: &str) -> BoxFuture<'_, Result<Option<Value>, LookupError>> {
        let found = self.0.get(name).cloned().transpose();
        Box::pin(std::future::ready(found))
    }
}
