//! The topic map (G1-1) and the client id (G1-14).
//!
//! Owns how topics are built and read. It must not know what their payloads say.

use std::fmt;
use std::sync::Arc;

use job::ids::{AgentId, JobId, Owner};

/// Longest mesh root, in bytes.
pub const ROOT_BYTES_MAX: usize = 256;

/// Why a text is no mesh root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mesh root is one or more levels of A-Z a-z 0-9 _ - separated by /, at most {ROOT_BYTES_MAX} bytes")]
pub struct BadRoot;

/// The topic prefix under which one mesh lives (protocol document section 1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Root(Arc<str>);

/// A topic of the mesh, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// An agent's profile.
    Profile(AgentId),
    /// An agent's presence.
    Status(AgentId),
    /// Invokes for an agent.
    Invoke(AgentId),
    /// Cancels for an agent.
    Cancel(AgentId),
    /// The milestones of a job.
    Events(Owner, JobId),
    /// The terminal result of a job.
    Result(Owner, JobId),
}

impl Root {
    /// Checks the grammar of a root: neither `:` nor `.` nor a wildcard, so client ids and topics stay unambiguous (G1-14).
    pub fn parse(text: &str) -> Result<Self, BadRoot> {
        let level_fine =
            |level: &str| !level.is_empty() && level.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if text.len() <= ROOT_BYTES_MAX && text.split('/').all(level_fine) { Ok(Self(text.into())) } else { Err(BadRoot) }
    }

    /// The root as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `<root>/registry/<agent>/profile`, retained.
    pub fn profile(&self, agent: &AgentId) -> String {
        format!("{}/registry/{agent}/profile", self.0)
    }

    /// `<root>/registry/<agent>/status`, retained, the last will.
    pub fn status(&self, agent: &AgentId) -> String {
        format!("{}/registry/{agent}/status", self.0)
    }

    /// `<root>/commands/<agent>/invoke`.
    pub fn invoke(&self, agent: &AgentId) -> String {
        format!("{}/commands/{agent}/invoke", self.0)
    }

    /// `<root>/commands/<agent>/cancel`.
    pub fn cancel(&self, agent: &AgentId) -> String {
        format!("{}/commands/{agent}/cancel", self.0)
    }

    /// `<root>/jobs/<owner>/<job>/events`.
    pub fn events(&self, owner: &Owner, job: &JobId) -> String {
        self.job(owner, job, "/events")
    }

    /// `<root>/jobs/<owner>/<job>/result`, retained.
    pub fn result(&self, owner: &Owner, job: &JobId) -> String {
        self.job(owner, job, "/result")
    }

    /// The filter that yields one job's events and result.
    pub fn job_filter(&self, owner: &Owner, job: &JobId) -> String {
        self.job(owner, job, "/#")
    }

    /// The filter that yields all an owner's events and results.
    pub fn owner_filter(&self, owner: &Owner) -> String {
        format!("{}/jobs/{owner}/#", self.0)
    }

    /// The filter that yields every agent's profile.
    pub fn profiles_filter(&self) -> String {
        format!("{}/registry/+/profile", self.0)
    }

    /// The filter that yields every agent's presence.
    pub fn statuses_filter(&self) -> String {
        format!("{}/registry/+/status", self.0)
    }

    fn job(&self, owner: &Owner, job: &JobId, leaf: &str) -> String {
        // Built by hand: this runs for every message of every job.
        let mut topic = String::with_capacity(self.0.len() + owner.as_str().len() + job.as_str().len() + leaf.len() + 7);
        for part in [&self.0, "/jobs/", owner.as_str(), "/", job.as_str(), leaf] {
            topic.push_str(part);
        }
        topic
    }

    /// Reads a topic of this mesh; none for any other text.
    pub fn parse_topic(&self, topic: &str) -> Option<Topic> {
        let rest = topic.strip_prefix(self.as_str())?.strip_prefix('/')?;
        let (family, rest) = rest.split_once('/')?;
        let (scope, leaf) = rest.split_once('/')?;
        match (family, leaf) {
            ("registry", "profile") => AgentId::parse(scope).ok().map(Topic::Profile),
            ("registry", "status") => AgentId::parse(scope).ok().map(Topic::Status),
            ("commands", "invoke") => AgentId::parse(scope).ok().map(Topic::Invoke),
            ("commands", "cancel") => AgentId::parse(scope).ok().map(Topic::Cancel),
            ("jobs", leaf) => {
                let (job, leaf) = leaf.split_once('/')?;
                let (owner, job) = (Owner::from_slug(scope).ok()?, JobId::parse(job).ok()?);
                match leaf {
                    "events" => Some(Topic::Events(owner, job)),
                    "result" => Some(Topic::Result(owner, job)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The client id of an agent's one connection: stable, without a random part (G1-14).
    pub fn client_id(&self, agent: &AgentId) -> String {
        format!("amp:{}:{agent}", self.0.replace('/', "."))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids() -> (AgentId, Owner, JobId) {
        let agent = AgentId::parse("dba").expect("an agent");
        let owner = Owner::from_slug("alice").expect("an owner");
        (agent, owner, JobId::parse("rev-118").expect("a job"))
    }

    /// S1-05, S1-08: every topic stands under its root, and job topics always hold the owner.
    #[test]
    fn topics_are_those_of_the_map() {
        let (agent, owner, job) = ids();
        for root in ["agents", "acme/prod-1"] {
            let root = Root::parse(root).expect("a root");
            let rows = [
                (root.profile(&agent), "registry/dba/profile", Topic::Profile(agent.clone())),
                (root.status(&agent), "registry/dba/status", Topic::Status(agent.clone())),
                (root.invoke(&agent), "commands/dba/invoke", Topic::Invoke(agent.clone())),
                (root.cancel(&agent), "commands/dba/cancel", Topic::Cancel(agent.clone())),
                (root.events(&owner, &job), "jobs/alice/rev-118/events", Topic::Events(owner.clone(), job.clone())),
                (root.result(&owner, &job), "jobs/alice/rev-118/result", Topic::Result(owner.clone(), job.clone())),
            ];
            for (built, expected, read) in rows {
                assert_eq!(built, format!("{root}/{expected}"));
                assert_eq!(root.parse_topic(&built), Some(read));
            }
        }
    }

    #[test]
    fn other_topics_are_not_read() {
        let root = Root::parse("agents").expect("a root");
        let rows = [
            "agents/jobs/rev-118/result",
            "agents/jobs/Alice/rev-118/result",
            "agents/jobs/alice/rev-118/result/x",
            "agents/registry/dba/other",
            "agents/commands//invoke",
            "agents2/commands/dba/invoke",
            "agents",
            "",
        ];
        for topic in rows {
            assert_eq!(root.parse_topic(topic), None, "{topic}");
        }
    }

    /// S1-06b: root a with agent b-c and root a-b with agent c have different client ids.
    #[test]
    fn client_ids_are_stable_and_apart() {
        let id =
            |root: &str, agent: &str| Root::parse(root).expect("a root").client_id(&AgentId::parse(agent).expect("an agent"));
        assert_eq!(id("agents", "dba"), "amp:agents:dba");
        assert_eq!(id("a/b", "c.d"), "amp:a.b:c.d");
        assert_ne!(id("a", "b-c"), id("a-b", "c"));
        for bad in ["", "/", "a//b", "a/", "a:b", "a.b", "a+", "#", "$SYS", &"x".repeat(257)] {
            assert_eq!(Root::parse(bad), Err(BadRoot), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_built_reads_back(owner in "[a-z0-9_]{1,20}", job in "[^/+#\\p{C}]{1,30}") {
            let root = Root::parse("agents").expect("a root");
            let (owner, job) = (Owner::from_slug(&owner).expect("an owner"), JobId::parse(&job).expect("a job"));
            let topic = root.result(&owner, &job);
            prop_assert_eq!(root.parse_topic(&topic), Some(Topic::Result(owner, job)));
        }
    }
}
