//! Where a node keeps its data: the journal and the compiled guests.
//!
//! Owns the order of the places (DESIGN section 4, `node.data_dir`). It must not know what lies in them.

use std::path::{Path, PathBuf};

use crate::deployment::Environ;

/// Where the service manager does not say and the node runs as root.
const ROOT_DIR: &str = "/var/lib/amp-node";
/// The folder within the state folder of a user.
const NAME: &str = "amp-node";

/// There is no place for data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no folder for data: neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set; set data_dir in [node]")]
pub struct NoDataDir;

/// The data folder: the one of the configuration, else `$STATE_DIRECTORY`, else `/var/lib/amp-node` as root, else
/// `amp-node` in the XDG state folder.
pub fn resolve(configured: Option<&Path>, environ: &Environ) -> Result<PathBuf, NoDataDir> {
    place(configured, environ, rustix::process::geteuid().is_root())
}

fn place(configured: Option<&Path>, environ: &Environ, root: bool) -> Result<PathBuf, NoDataDir> {
    let absolute = |name: &str| environ(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(configured) = configured {
        return Ok(configured.to_owned());
    }
    // systemd lists several folders with colons between them; the first is ours.
    let state = environ("STATE_DIRECTORY").and_then(|list| list.split(':').next().map(PathBuf::from));
    if let Some(state) = state.filter(|path| path.is_absolute()) {
        return Ok(state);
    }
    if root {
        return Ok(ROOT_DIR.into());
    }
    let state_home = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state_home.map(|folder| folder.join(NAME)).ok_or(NoDataDir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn the_places_have_an_order() {
        let all = [("STATE_DIRECTORY", "/run/a:/run/b"), ("XDG_STATE_HOME", "/xdg"), ("HOME", "/home/u")];
        type Row<'a> = (Option<&'a str>, &'a [(&'a str, &'a str)], bool, Option<&'a str>);
        let rows: [Row<'_>; 8] = [
            (Some("rel"), &all, true, Some("rel")),
            (None, &all, true, Some("/run/a")),
            (None, &all[1..], true, Some("/var/lib/amp-node")),
            (None, &all[1..], false, Some("/xdg/amp-node")),
            (None, &all[2..], false, Some("/home/u/.local/state/amp-node")),
            (None, &[("XDG_STATE_HOME", "relative"), ("HOME", "/h")], false, Some("/h/.local/state/amp-node")),
            (None, &[("STATE_DIRECTORY", ""), ("HOME", "/h")], false, Some("/h/.local/state/amp-node")),
            (None, &[], false, None),
        ];
        for (configured, environment, root, expected) in rows {
            let names: BTreeMap<String, String> = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let environ: Environ = Arc::new(move |name| names.get(name).cloned());
            let found = place(configured.map(Path::new), &environ, root);
            assert_eq!(found.ok(), expected.map(PathBuf::from), "{configured:?} {environment:?} {root}");
        }
    }
}
