//! Launches as JSON lines, answers as JSON lines.
//!
//! A line that cannot be answered is answered with `{"…", "blocks_per_sm":null, "limiter":null,
//! "error":{"line":3,"message":"…"}}`, so that answers stay in step with questions.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::{Arch, ArchError};
use crate::registers::occupancy::{Launch, OccupancyError, SmemMode, occupancy};

/// A longer line is an error; it is read past without being kept.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// How a batch went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines read, blank ones left out.
    pub lines: u64,
    /// Lines among them that have no answer.
    pub refused: u64,
}

/// Answers every line of `input` on `out`.
pub fn batch(input: impl Read, out: &mut dyn Write) -> io::Result<Summary> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut summary = Summary::default();
    let (mut line, mut answers) = (Vec::new(), Vec::new());
    for number in 1u64.. {
        // Whoever waits for an answer before asking again gets it now; whoever asks in bulk is answered in bulk.
        if !input.buffer().contains(&b'\n') || answers.len() >= 1 << 16 {
            out.write_all(&answers)?;
            out.flush()?;
            answers.clear();
        }
        line.clear();
        if input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < MAX_LINE_BYTES;
        if !whole {
            input.skip_until(b'\n')?;
        }
        if line.iter().all(u8::is_ascii_whitespace) && whole {
            continue;
        }
        summary.lines += 1;
        let answered =
            if whole { answer(line.trim_ascii_end(), number, &mut answers)? } else { too_long(number, &mut answers)? };
        summary.refused += u64::from(!answered);
    }
    out.write_all(&answers)?;
    out.flush()?;
    Ok(summary)
}

/// Writes the answer to one line; says whether there was one.
fn answer(line: &[u8], number: u64, out: &mut Vec<u8>) -> io::Result<bool> {
    let pairs = match parse(line) {
        Ok(pairs) => pairs,
        Err(error) => {
            out.push(b'{');
            return refuse(number, &BadLine::Json(error), out);
        }
    };
    let request = request(&pairs);
    out.push(b'{');
    for (key, value) in pairs.iter().filter(|(key, _)| !ANSWER_KEYS.contains(&key.as_str())) {
        write_pair(out, key, value)?;
    }
    match request.and_then(|(arch, launch)| Ok(occupancy(arch, &launch)?)) {
        Ok(occupancy) => write_fields(out, &occupancy)?,
        Err(error) => return refuse(number, &error, out),
    }
    finish(out);
    Ok(true)
}

fn refuse(number: u64, error: &BadLine, out: &mut Vec<u8>) -> io::Result<bool> {
    write_pair(out, "blocks_per_sm", &Value::Null)?;
    write_pair(out, "limiter", &Value::Null)?;
    write_pair(out, "error", &json!({ "line": number, "message": error.to_string() }))?;
    finish(out);
    Ok(false)
}

fn too_long(number: u64, out: &mut Vec<u8>) -> io::Result<bool> {
    out.push(b'{');
    refuse(number, &BadLine::TooLong, out)
}

/// Why a line has no answer.
#[derive(Debug, thiserror::Error)]
enum BadLine {
    #[error("expected a line of at most {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("expected a JSON object: {}", without_line(.0))]
    Json(serde_json::Error),
    #[error("key '{key}' is given twice")]
    Twice { key: String },
    #[error("key '{key}' is missing: expected {expected}")]
    Missing { key: &'static str, expected: String },
    #[error("unknown key '{key}': expected one of {}", KEYS.join(", "))]
    NearMiss { key: String },
    #[error("{key}: expected {expected}, found {found}")]
    Value { key: &'static str, expected: String, found: Value },
    #[error(transparent)]
    Arch(#[from] ArchError),
    #[error(transparent)]
    Occupancy(#[from] OccupancyError),
}

/// serde_json counts every line as line 1; only the column says something.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => format!("{} at column {}", &text[..end], error.column()),
        None => text,
    }
}

/// What a launch is made of.
const KEYS: [&str; 10] = [
    "arch",
    "registers",
    "threads",
    "smem",
    "smem_dynamic",
    "barriers",
    "cluster",
    "tmem_columns",
    "smem_mode",
    "carveout",
];

/// An unknown key that begins like one of ours is a slip, not a companion: `regs`, `shared_mem`, `threads_per_block`.
const STEMS: [&str; 11] =
    ["arch", "reg", "thread", "block_size", "smem", "shared", "barrier", "cluster", "tmem", "tensor", "carve"];

/// What an answer adds. In a question they are dropped, so that answers can be asked again.
const ANSWER_KEYS: [&str; 18] = [
    "blocks_per_sm",
    "warps_per_sm",
    "max_warps_per_sm",
    "occupancy",
    "limiter",
    "limiters",
    "limits",
    "min_sms_per_cluster",
    "allocated_registers",
    "allocated_smem",
    "obstacles",
    "next_step",
    "cliff",
    "next_step_smem",
    "cliff_smem",
    "next_step_together",
    "table",
    "error",
];

/// The keys of a line with their values, in the order they came.
fn parse(line: &[u8]) -> serde_json::Result<Vec<(String, Value)>> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, Value)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with arch, registers and threads")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::with_capacity(8);
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let pairs = deserializer.deserialize_map(Pairs)?;
    deserializer.end()?;
    Ok(pairs)
}

/// Reads a launch out of the pairs.
fn request(pairs: &[(String, Value)]) -> Result<(Arch, Launch), BadLine> {
    let mut found: [Option<&Value>; KEYS.len()] = [None; KEYS.len()];
    for (key, value) in pairs {
        match KEYS.iter().position(|known| known == key).and_then(|index| found.get_mut(index)) {
            Some(Some(_)) => return Err(BadLine::Twice { key: key.clone() }),
            Some(slot) => *slot = Some(value),
            None if ANSWER_KEYS.contains(&key.as_str()) => {}
            None => {
                let lower = key.to_ascii_lowercase();
                if STEMS.iter().any(|stem| lower.starts_with(stem)) {
                    return Err(BadLine::NearMiss { key: key.clone() });
                }
            }
        }
    }
    // null says "not known", which is what leaving a key out says.
    let [arch, registers, threads, smem, smem_dynamic, barriers, cluster, tmem_columns, smem_mode, carveout] =
        found.map(|value| value.filter(|value| !value.is_null()));
    let expected = "a name such as \"sm_90a\"";
    let arch = match arch {
        Some(Value::String(name)) => name.parse()?,
        Some(other) => return Err(BadLine::Value { key: "arch", expected: expected.to_owned(), found: other.clone() }),
        None => return Err(BadLine::Missing { key: "arch", expected: expected.to_owned() }),
    };
    let smem_mode = match smem_mode {
        None => SmemMode::default(),
        Some(value) => mode(value)?,
    };
    let launch = Launch {
        registers: required("registers", registers)?,
        threads: required("threads", threads)?,
        smem_static: number("smem", smem, u64::MAX)?.unwrap_or(0),
        smem_dynamic: number("smem_dynamic", smem_dynamic, u64::MAX)?.unwrap_or(0),
        barriers: number("barriers", barriers, u32::MAX)?.unwrap_or(0),
        cluster: number("cluster", cluster, u32::MAX)?.unwrap_or(1),
        tmem_columns: number("tmem_columns", tmem_columns, u32::MAX)?.unwrap_or(0),
        smem_mode,
        carveout: number("carveout", carveout, 100u8)?,
    };
    Ok((arch, launch))
}

fn mode(value: &Value) -> Result<SmemMode, BadLine> {
    SmemMode::deserialize(value).map_err(|_| BadLine::Value {
        key: "smem_mode",
        expected: "portable, non_portable or oversized".to_owned(),
        found: value.clone(),
    })
}

fn required(key: &'static str, value: Option<&Value>) -> Result<u32, BadLine> {
    number(key, value, u32::MAX)?.ok_or_else(|| BadLine::Missing { key, expected: "a whole number".to_owned() })
}

/// A whole number of at most `most`.
fn number<T>(key: &'static str, value: Option<&Value>, most: T) -> Result<Option<T>, BadLine>
where
    T: TryFrom<u64> + PartialOrd + fmt::Display,
{
    let Some(value) = value else { return Ok(None) };
    let number = value.as_u64().and_then(|number| T::try_from(number).ok()).filter(|number| *number <= most);
    number.map(Some).ok_or_else(|| BadLine::Value {
        key,
        expected: format!("a whole number from 0 to {most}"),
        found: value.clone(),
    })
}

/// Writes `"key":value`, after a comma where one is due.
pub(super) fn write_pair(out: &mut Vec<u8>, key: &str, value: &impl Serialize) -> io::Result<()> {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    serde_json::to_writer(&mut *out, key)?;
    out.push(b':');
    serde_json::to_writer(out, value)?;
    Ok(())
}

/// Writes the fields of a struct into the object that is open.
pub(super) fn write_fields(out: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    let start = out.len();
    let comma = out.last() != Some(&b'{');
    serde_json::to_writer(&mut *out, value)?;
    out.pop();
    match out.get_mut(start) {
        Some(brace) if comma => *brace = b',',
        _ => {
            out.remove(start);
        }
    }
    Ok(())
}

/// Closes the object and the line.
pub(super) fn finish(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}
