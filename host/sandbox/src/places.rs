//! Whether this system can hold as many instances as the deployment wants (G1-50).
//!
//! Owns the formula. It must not know wasmtime.

use std::fs;

/// Memory mappings one place of the pool needs: two when it is empty, four more while an instance lives in it (measured).
const MAPS_PER_INSTANCE: u64 = 6;
/// Memory mappings the rest of the process needs.
const MAPS_FOR_THE_REST: u64 = 5_000;
/// Where Linux tells how many mappings a process may have.
const MAP_COUNT_FILE: &str = "/proc/sys/vm/max_map_count";

/// Why the deployment's number of instances cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    /// No instance could ever run.
    #[error("limits.max_live is 0, so no job could run: set it to 1 or more")]
    None,
    /// The kernel would refuse mappings, which ends the whole process and not just a job.
    #[error(
        "limits.max_live = {max_live} needs vm.max_map_count of at least {MAPS_PER_INSTANCE} x {max_live} + {MAPS_FOR_THE_REST} = \
         {needed}, and this system has {allowed}: lower limits.max_live to {fits} or run `sysctl -w vm.max_map_count={needed}`"
    )]
    TooFewMaps {
        /// What was asked for.
        max_live: u32,
        /// The mappings that takes.
        needed: u64,
        /// The mappings a process may have here.
        allowed: u64,
        /// The largest number that fits.
        fits: u64,
    },
}

/// Checks the number of instances against this system. A system that does not tell its limit is taken to have none.
pub(crate) fn check(max_live: u32) -> Result<(), PlacesError> {
    let allowed = fs::read_to_string(MAP_COUNT_FILE).ok().and_then(|text| text.trim().parse().ok());
    check_against(max_live, allowed.unwrap_or(u64::MAX))
}

fn check_against(max_live: u32, allowed: u64) -> Result<(), PlacesError> {
    if max_live == 0 {
        return Err(PlacesError::None);
    }
    let needed = MAPS_PER_INSTANCE * u64::from(max_live) + MAPS_FOR_THE_REST;
    if needed > allowed {
        let fits = allowed.saturating_sub(MAPS_FOR_THE_REST) / MAPS_PER_INSTANCE;
        return Err(PlacesError::TooFewMaps { max_live, needed, allowed, fits });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G1-50: the formula, at its edge, and a sentence that holds the formula and the mend.
    #[test]
    fn places_are_refused_past_the_map_limit() {
        let rows = [(1, 5_006, true), (1, 5_005, false), (1_000, 11_000, true), (10_080, 65_530, true), (10_089, 65_530, false)];
        for (max_live, allowed, fine) in rows {
            assert_eq!(check_against(max_live, allowed).is_ok(), fine, "{max_live} of {allowed}");
        }
        let words = check_against(20_000, 65_530).expect_err("too many").to_string();
        for part in ["max_live = 20000", "6 x 20000 + 5000 = 125000", "65530", "to 10088", "sysctl -w vm.max_map_count=125000"] {
            assert!(words.contains(part), "{words}");
        }
        assert_eq!(check_against(0, u64::MAX), Err(PlacesError::None));
    }
}
