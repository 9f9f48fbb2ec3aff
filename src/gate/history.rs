//! Figures over commits and ptxas releases: one line of JSON for each kernel that was measured, sorted, so that a version control system can
//! merge what two branches have added.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::date::Moment;
use super::figures::Measured;
use super::metric::{Figures, Metric};
use crate::report::demangle;

/// The name and version of the file's shape: its first line says it.
pub const RECORD_SCHEMA: &str = "ptxinspect.record/1";

/// The longest name of a commit.
const LONGEST_COMMIT: usize = 100;
/// Lines that are read at most.
const MOST_LINES: usize = 4_000_000;

/// What one kernel came to at one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When the commit was recorded first.
    #[serde(serialize_with = "write_moment", deserialize_with = "read_moment")]
    pub recorded_at: Moment,
    /// The commit.
    pub commit: String,
    /// The input, relative to the baseline's folder, with `/`.
    pub input: String,
    /// The kernel's name as the cubin has it.
    pub kernel: String,
    /// The kernel in whose section a device function lives.
    pub within: Option<String>,
    /// `sm_90a`.
    pub arch: String,
    /// The version of the ptxas that made the code.
    pub ptxas: Option<String>,
    /// The numbers.
    pub figures: Figures,
}

fn write_moment<S: Serializer>(moment: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(moment)
}

fn read_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Everything but the figures and the time.
type Key<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, &'a str, Option<&'a str>);

impl Record {
    fn key(&self) -> Key<'_> {
        let Record { commit, input, kernel, within, arch, ptxas, .. } = self;
        (commit, input, kernel, within.as_deref(), arch, ptxas.as_deref())
    }
}

/// Why a file is no history.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// A line that is no record.
    #[error("line {line}: {what}; `ptxinspect gate --record FILE` writes such a file")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Another version's.
    #[error("line {line}: its schema is '{found}', this ptxinspect knows '{RECORD_SCHEMA}': use the one that wrote it")]
    Schema {
        /// From 1.
        line: usize,
        /// What it says.
        found: String,
    },
    /// Two lines that contradict each other.
    #[error(
        "line {line}: {what} is recorded with other figures in line {first}: remove one of the two, or record the commit \
         again"
    )]
    Twice {
        /// The later line.
        line: usize,
        /// The earlier one.
        first: usize,
        /// Which kernel at which commit.
        what: String,
    },
    /// Too much to be a history.
    #[error("it has more than {MOST_LINES} lines: record fewer kernels (--kernel), or start a new file")]
    TooLong,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    schema: String,
}

/// What was recorded, in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    records: Vec<Record>,
}

impl History {
    /// Reads a file's text: records in any order, as a merge may leave them, and each of them any number of times.
    pub fn parse(text: &str) -> Result<History, HistoryError> {
        let mut lines: Vec<(usize, Record)> = Vec::new();
        let mut has_header = false;
        for (number, line) in (1..).zip(text.lines()) {
            if number > MOST_LINES {
                return Err(HistoryError::TooLong);
            }
            if line.trim().is_empty() {
                continue;
            }
            if let Ok(header) = serde_json::from_str::<Header>(line) {
                if header.schema != RECORD_SCHEMA {
                    return Err(HistoryError::Schema { line: number, found: header.schema });
                }
                has_header = true;
                continue;
            }
            let wrong = |what: String| HistoryError::Line { line: number, what };
            let said = |error: serde_json::Error| {
                let marker = ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|marker| line.starts_with(marker));
                match marker {
                    true => wrong("a merge left its mark here: keep the records of both sides".to_owned()),
                    false => wrong(format!("it is no record: {error}")),
                }
            };
            let record: Record = serde_json::from_str(line).map_err(said)?;
            check_commit(&record.commit).map_err(wrong)?;
            lines.push((number, record));
        }
        if !has_header && !lines.is_empty() {
            let what = format!("expected a first line {{\"schema\":\"{RECORD_SCHEMA}\"}}, found none");
            return Err(HistoryError::Line { line: 1, what });
        }
        lines.sort_by(|(a_line, a), (b_line, b)| (a.key(), a_line).cmp(&(b.key(), b_line)));
        for pair in lines.windows(2) {
            if let [(first, a), (line, b)] = pair
                && a.key() == b.key()
                && a.figures != b.figures
            {
                let what = format!("{} for {} at {}", b.kernel, b.arch, b.commit);
                return Err(HistoryError::Twice { line: *line, first: *first, what });
            }
        }
        lines.dedup_by(|(_, later), (_, first)| {
            let is_same = later.key() == first.key();
            if is_same {
                first.recorded_at = first.recorded_at.min(later.recorded_at);
            }
            is_same
        });
        let mut history = History { records: lines.into_iter().map(|(_, record)| record).collect() };
        history.settle();
        Ok(history)
    }

    /// One time for each commit, and everything in order.
    fn settle(&mut self) {
        let mut first: BTreeMap<String, Moment> = BTreeMap::new();
        for record in &self.records {
            let moment = first.entry(record.commit.clone()).or_insert(record.recorded_at);
            *moment = record.recorded_at.min(*moment);
        }
        for record in &mut self.records {
            record.recorded_at = first.get(&record.commit).copied().unwrap_or(record.recorded_at);
        }
        self.records.sort_by(|a, b| (a.recorded_at, a.key()).cmp(&(b.recorded_at, b.key())));
    }

    /// Adds what was measured at a commit. What was recorded before of the same kernels at the same commit is replaced, so that to record
    /// again changes nothing; the commit keeps the time at which it was recorded first.
    pub fn add(&mut self, new: Vec<Record>) {
        self.records.extend(new);
        self.records.sort_by(|a, b| a.key().cmp(&b.key()));
        self.records.dedup_by(|later, first| {
            let is_same = later.key() == first.key();
            if is_same {
                later.recorded_at = later.recorded_at.min(first.recorded_at);
                std::mem::swap(later, first);
            }
            is_same
        });
        self.settle();
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{{\"schema\":\"{RECORD_SCHEMA}\"}}\n");
        for record in &self.records {
            // Strings and numbers can always be written.
            text += &serde_json::to_string(record).unwrap_or_default();
            text.push('\n');
        }
        text
    }

    /// What was recorded.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The commits, in order of time.
    pub fn commits(&self) -> Vec<(Moment, &str)> {
        let mut found: Vec<(Moment, &str)> =
            self.records.iter().map(|record| (record.recorded_at, record.commit.as_str())).collect();
        found.dedup();
        found
    }

    /// Keeps the last commits.
    pub fn keep_last(&mut self, commits: usize) {
        let all = self.commits();
        let from = all.len().saturating_sub(commits);
        if let Some(first) = all.get(from).map(|(moment, commit)| (*moment, (*commit).to_owned())) {
            self.records.retain(|record| (record.recorded_at, record.commit.as_str()) >= (first.0, first.1.as_str()));
        }
    }

    /// What each kernel came to over time, of the records that are wanted, by input, name and architecture.
    pub fn tracks(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Track> {
        type Place = (String, String, Option<String>, String);
        type Release = (Option<Vec<u64>>, Option<String>);
        let mut found: BTreeMap<Place, BTreeMap<Release, Vec<Point>>> = BTreeMap::new();
        for record in self.records.iter().filter(|record| wanted(record)) {
            let Record { recorded_at, commit, input, kernel, within, arch, ptxas, figures } = record.clone();
            let by_ptxas = found.entry((input, kernel, within, arch)).or_default();
            let point = Point { recorded_at, commit, figures };
            by_ptxas.entry((ptxas.as_deref().map(release), ptxas)).or_default().push(point);
        }
        let track = |((input, kernel, within, arch), by_ptxas): (Place, BTreeMap<Release, Vec<Point>>)| Track {
            demangled: demangle(&kernel),
            input,
            kernel,
            within,
            arch,
            series: by_ptxas.into_iter().map(|((_, ptxas), points)| Series { ptxas, points }).collect(),
        };
        found.into_iter().map(track).collect()
    }
}

/// A version's numbers, so that 12.9 comes before 13.4.
fn release(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(u64::MAX)).collect()
}

/// Refuses what cannot be the name of a commit in a file of records.
pub fn check_commit(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_graphic();
    match !name.is_empty() && name.len() <= LONGEST_COMMIT && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "'{}' is no name of a commit: expected 1 to {LONGEST_COMMIT} letters, digits and signs without spaces",
            name.escape_default()
        )),
    }
}

/// What a run measured as records of a commit.
pub fn of_measured(measured: &[Measured], commit: &str, recorded_at: Moment) -> Vec<Record> {
    let of_unit = |measured: &Measured| {
        let unit = measured.unit.clone();
        unit.kernels.into_iter().map(move |kernel| Record {
            recorded_at,
            commit: commit.to_owned(),
            input: unit.input.clone(),
            kernel: kernel.name,
            within: kernel.within,
            arch: unit.arch.clone(),
            ptxas: unit.ptxas.clone(),
            figures: kernel.figures,
        })
    };
    measured.iter().filter(|measured| measured.error.is_none()).flat_map(of_unit).collect()
}

/// A kernel for one architecture, over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Track {
    /// The input.
    pub input: String,
    /// Its name as the cubin has it.
    pub kernel: String,
    /// As its language spells it; null where it is not mangled.
    pub demangled: Option<String>,
    /// The kernel in whose section a device function lives.
    pub within: Option<String>,
    /// `sm_90a`.
    pub arch: String,
    /// By ptxas, the oldest release first.
    pub series: Vec<Series>,
}

/// What one ptxas made of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Series {
    /// The version.
    pub ptxas: Option<String>,
    /// In order of time.
    pub points: Vec<Point>,
}

/// What it came to at one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When that was.
    #[serde(serialize_with = "write_moment")]
    pub recorded_at: Moment,
    /// The commit.
    pub commit: String,
    /// The numbers.
    pub figures: Figures,
}

/// A figure that is another than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Where it is.
    pub point: &'a Point,
    /// What it was when it was known last.
    pub before: u64,
    /// What it is.
    pub after: u64,
}

impl Series {
    /// Where a figure changes; points at which it is not known are passed over.
    pub fn changes(&self, metric: Metric) -> Vec<Change<'_>> {
        let known: Vec<(&Point, u64)> =
            self.points.iter().filter_map(|point| Some((point, point.figures.get(metric)?))).collect();
        let pairs = known.windows(2).filter_map(|pair| match pair {
            [(_, before), (point, after)] if before != after => Some(Change { point, before: *before, after: *after }),
            _ => None,
        });
        pairs.collect()
    }
}

impl Track {
    /// Its name for people.
    pub fn title(&self) -> &str {
        self.demangled.as_deref().unwrap_or(&self.kernel)
    }

    /// Whether any of these figures changes, from commit to commit or from one ptxas to the next.
    pub fn moves(&self, metric: Metric) -> bool {
        let mut values = self.series.iter().flat_map(|one| &one.points).filter_map(|point| point.figures.get(metric));
        let first = values.next();
        values.any(|value| Some(value) != first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(commit: &str, at: u64, kernel: &str, ptxas: &str, registers: u64) -> Record {
        let mut figures = Figures::default();
        figures.set(Metric::Registers, Some(registers));
        Record {
            recorded_at: Moment::from_unix_seconds(at),
            commit: commit.to_owned(),
            input: "k.ptx".to_owned(),
            kernel: kernel.to_owned(),
            within: None,
            arch: "sm_90a".to_owned(),
            ptxas: Some(ptxas.to_owned()),
            figures,
        }
    }

    #[test]
    fn to_record_again_changes_nothing() {
        let mut history = History::default();
        history.add(vec![record("b", 20, "k", "13.4", 40), record("b", 20, "a", "13.4", 8)]);
        history.add(vec![record("a", 10, "k", "13.4", 32)]);
        let text = history.to_text();
        assert_eq!(History::parse(&text).unwrap(), history);
        history.add(vec![record("b", 99, "k", "13.4", 40)]);
        assert_eq!(history.to_text(), text);
        // Another measurement of the same commit takes the place of the first.
        history.add(vec![record("b", 99, "k", "13.4", 41)]);
        assert_eq!(history.to_text(), text.replace(":40,", ":41,"));
        assert_eq!(history.commits().iter().map(|(_, commit)| *commit).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_a_merge_leaves_is_read() {
        let (mut ours, mut theirs) = (History::default(), History::default());
        ours.add(vec![record("a", 10, "k", "13.4", 32), record("b", 20, "k", "13.4", 40)]);
        theirs.add(vec![record("a", 10, "k", "13.4", 32), record("c", 15, "k", "12.9", 36)]);
        let merged = History::parse(&(ours.to_text() + &theirs.to_text())).unwrap();
        assert_eq!(merged.records().len(), 3);
        let tracks = merged.tracks(|_| true);
        assert_eq!(tracks.len(), 1);
        let ptxas: Vec<_> = tracks[0].series.iter().map(|one| one.ptxas.as_deref().unwrap()).collect();
        assert_eq!(ptxas, ["12.9", "13.4"]);
        let changes = tracks[0].series[1].changes(Metric::Registers);
        assert_eq!(changes.iter().map(|one| (one.before, one.after)).collect::<Vec<_>>(), [(32, 40)]);
        assert!(tracks[0].moves(Metric::Registers) && !tracks[0].moves(Metric::CodeBytes));
        let conflict = format!("{}<<<<<<< HEAD\n", ours.to_text());
        assert!(History::parse(&conflict).unwrap_err().to_string().contains("keep the records of both sides"));
    }

    #[test]
    fn what_is_no_history_is_told_by_its_line() {
        let head = format!("{{\"schema\":\"{RECORD_SCHEMA}\"}}\n");
        let line = serde_json::to_string(&record("a", 10, "k", "13.4", 32)).unwrap();
        let other = line.replace(":32,", ":33,");
        for (text, said) in [
            (line.clone(), "line 1: expected a first line"),
            (format!("{head}{line}\n{other}"), "line 3: k for sm_90a at a is recorded with other figures in line 2"),
            (format!("{head}{{}}"), "line 2: it is no record"),
            ("{\"schema\":\"ptxinspect.record/2\"}".to_owned(), "its schema is 'ptxinspect.record/2'"),
            (format!("{head}{}", line.replace("\"a\"", "\"a b\"")), "'a b' is no name of a commit"),
            (format!("{head}{}", line.replace("registers", "registres")), "'registres' is not a metric"),
        ] {
            let error = History::parse(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(History::parse("").unwrap(), History::default());
    }

    #[test]
    fn the_last_commits_stay() {
        let mut history = History::default();
        history.add((0..10).map(|at| record(&format!("c{at}"), at, "k", "13.4", at)).collect());
        history.keep_last(3);
        assert_eq!(history.commits().iter().map(|(_, commit)| *commit).collect::<Vec<_>>(), ["c7", "c8", "c9"]);
        history.keep_last(99);
        assert_eq!(history.commits().len(), 3);
    }
}
