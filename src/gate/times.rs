//! How long each piece of a gate took, for the shards of the next run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name and version of the file's shape.
pub const TIMES_SCHEMA: &str = "ptxinspect.times/1";

/// Microseconds by what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    schema: String,
    microseconds: BTreeMap<String, u64>,
}

impl Default for Times {
    fn default() -> Times {
        Times::new(BTreeMap::new())
    }
}

impl Times {
    /// Times by key.
    pub fn new(microseconds: BTreeMap<String, u64>) -> Times {
        Times { schema: TIMES_SCHEMA.to_owned(), microseconds }
    }

    /// Reads a file's text.
    pub fn parse(text: &[u8]) -> Result<Times, String> {
        let times: Times = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match times.schema.as_str() {
            TIMES_SCHEMA => Ok(times),
            found => Err(format!("its schema is '{found}': expected '{TIMES_SCHEMA}'")),
        }
    }

    /// The costs of pieces, in microseconds. One that was never timed is taken to cost for each of its bytes what others do in the middle; where
    /// nothing was timed, bytes are the costs.
    pub fn costs<'a>(&self, pieces: impl Iterator<Item = (&'a str, u64)> + Clone) -> Vec<u64> {
        let timed = |key: &str| self.microseconds.get(key).copied();
        // Nanoseconds a byte.
        let mut rates: Vec<u64> =
            pieces.clone().filter_map(|(key, bytes)| timed(key)?.saturating_mul(1000).checked_div(bytes)).collect();
        rates.sort_unstable();
        let rate = rates.get(rates.len() / 2).copied().unwrap_or(1000);
        let estimate = |bytes: u64| bytes.saturating_mul(rate) / 1000;
        pieces.map(|(key, bytes)| timed(key).unwrap_or_else(|| estimate(bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_timed_is_estimated_by_its_size() {
        let times = Times::new([("a".to_owned(), 500), ("b".to_owned(), 2000)].into());
        let pieces = [("a", 100), ("b", 400), ("new", 10), ("empty", 0)];
        assert_eq!(times.costs(pieces.iter().copied()), [500, 2000, 50, 0]);
        assert_eq!(Times::new(BTreeMap::new()).costs(pieces.iter().copied()), [100, 400, 10, 0]);
    }

    #[test]
    fn a_file_of_times_reads_back() {
        let times = Times::new([("a".to_owned(), 500)].into());
        assert_eq!(Times::parse(&serde_json::to_vec(&times).unwrap()), Ok(times));
        assert!(Times::parse(b"{}").is_err());
        assert!(Times::parse(br#"{"schema": "x", "microseconds": {}}"#).unwrap_err().contains("expected"));
    }
}
