//! Wakes the larder when something it cares about may have changed. A wake-up says no more than "look again".
//!
//! Owns which folders are watched, which of their news count, and how news are gathered until it is quiet. It must not know what
//! the files say: an event is often early, late, or about another name than the one that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout_at};

/// Quiet after the last news before anything is read: an editor writes, renames and sets rights in a row.
const QUIET: Duration = Duration::from_millis(80);
/// Longest wait for quiet.
const QUIET_MAX: Duration = Duration::from_millis(400);
/// Time between two looks without any news: file systems of other machines tell none, and a queue of news may overflow.
const RESCAN: Duration = Duration::from_secs(20);
/// Time between two looks where a folder cannot be watched.
const POLL: Duration = Duration::from_secs(1);

/// Which news of a folder count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Names {
    /// All.
    Any,
    /// Those of these names, and of names that begin with two dots, through which mounted configuration maps swap their content.
    Some(BTreeSet<OsString>),
}

/// What is to be watched: folders, and which of their news count.
pub(crate) type Wanted = BTreeMap<PathBuf, Names>;

/// The watch.
pub(crate) struct Watch {
    watcher: Option<RecommendedWatcher>,
    wanted: Arc<RwLock<Wanted>>,
    watched: BTreeSet<PathBuf>,
    news: Receiver<()>,
    /// Whether every folder is watched; otherwise looks come more often.
    complete: bool,
    next_rescan: Instant,
}

impl Watch {
    /// Watches nothing yet. Where the system offers no watching at all, looks come at intervals.
    pub(crate) fn new() -> Self {
        let wanted: Arc<RwLock<Wanted>> = Arc::default();
        let (tell, news) = channel(1);
        let filter = wanted.clone();
        let handler = move |event: notify::Result<Event>| {
            let wakes = match &event {
                // The library lost count: anything may have changed.
                Err(_) => true,
                Ok(event) => counts(event, &filter.read().unwrap_or_else(PoisonError::into_inner)),
            };
            if wakes {
                // A full channel holds a wake-up already.
                let _ = tell.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(handler);
        if let Err(error) = &watcher {
            tracing::warn!(%error, poll_s = POLL.as_secs(), "files cannot be watched, so they are looked at in intervals");
        }
        let complete = watcher.is_ok();
        Self { watcher: watcher.ok(), wanted, watched: BTreeSet::new(), news, complete, next_rescan: Instant::now() + RESCAN }
    }

    /// Watches these folders from now on. Those in `renewed` are other folders under the same path and are watched anew.
    pub(crate) fn set(&mut self, wanted: Wanted, renewed: &BTreeSet<PathBuf>) {
        let folders: BTreeSet<PathBuf> = wanted.keys().cloned().collect();
        *self.wanted.write().unwrap_or_else(PoisonError::into_inner) = wanted;
        let Some(watcher) = &mut self.watcher else { return };
        for gone in self.watched.iter().filter(|path| !folders.contains(*path) || renewed.contains(*path)) {
            // The folder may be gone, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        self.watched.retain(|path| folders.contains(path) && !renewed.contains(path));
        let mut complete = true;
        for path in &folders {
            if self.watched.contains(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(path.clone())),
                Err(error) => {
                    if self.complete {
                        tracing::warn!(folder = %path.display(), %error, poll_s = POLL.as_secs(), "a folder cannot be watched, so all are looked at in intervals");
                    }
                    complete = false;
                }
            }
        }
        if complete && !self.complete {
            tracing::info!("every folder is watched again");
        }
        self.complete = complete;
    }

    /// Waits until it is time to look: after news and then quiet, or when a look is due anyway. Cancel safe.
    pub(crate) async fn due(&mut self) {
        let interval = if self.complete { RESCAN } else { POLL };
        let due = self.next_rescan.min(Instant::now() + interval);
        if let Ok(Some(())) = timeout_at(due, self.news.recv()).await {
            let latest = Instant::now() + QUIET_MAX;
            while let Ok(Some(())) = timeout_at(latest.min(Instant::now() + QUIET), self.news.recv()).await {}
        } else {
            self.next_rescan = Instant::now() + interval;
        }
    }
}

/// Whether an event may mean that a file we read is another now. Our own reading is none.
fn counts(event: &Event, wanted: &Wanted) -> bool {
    if matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)) {
        return false;
    }
    if event.need_rescan() || event.paths.is_empty() {
        return true;
    }
    event.paths.iter().any(|path| wanted.contains_key(path) || named(path, wanted))
}

fn named(path: &Path, wanted: &Wanted) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return true };
    match wanted.get(folder) {
        None => false,
        Some(Names::Any) => true,
        Some(Names::Some(names)) => names.contains(name) || name.as_encoded_bytes().starts_with(b".."),
    }
}

/// Adds news of a folder: all of them, or those of one name.
pub(crate) fn want(wanted: &mut Wanted, folder: PathBuf, name: Option<OsString>) {
    // A relative path with one part lies in the current folder, and is told of by that name.
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    let names = wanted.entry(folder).or_insert_with(|| Names::Some(BTreeSet::new()));
    match (names, name) {
        (names, None) => *names = Names::Any,
        (Names::Some(names), Some(name)) => drop(names.insert(name)),
        (Names::Any, Some(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, ModifyKind};

    /// U28: reading is no news; neither is what others do beside our folder; swaps through two dots are.
    #[test]
    fn only_what_may_matter_wakes() {
        let mut wanted = Wanted::new();
        want(&mut wanted, "/c/agent".into(), None);
        want(&mut wanted, "/c".into(), Some("agent".into()));
        want(&mut wanted, "/c".into(), Some("amp-node.toml".into()));
        let write = EventKind::Modify(ModifyKind::Any);
        let rows = [
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), "/c/agent/a.json", false),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), "/c/agent/a.json", false),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), "/c/agent/a.json", true),
            (EventKind::Create(CreateKind::File), "/c/agent/..data", true),
            (write, "/c/agent", true),
            (write, "/c/amp-node.toml", true),
            (write, "/c/..data", true),
            (write, "/c/other", false),
            (write, "/d/agent", false),
        ];
        for (kind, path, expected) in rows {
            let event = Event::new(kind).add_path(path.into());
            assert_eq!(counts(&event, &wanted), expected, "{kind:?} {path}");
        }
        assert!(counts(&Event::new(EventKind::Other), &wanted), "an event without a path may be anything");
    }
}
