//! The text ptxas prints with `-v`, as values.
//!
//! In: the captured output. Out: a [`Log`], which never fails: a line that is not understood is kept in
//! [`Log::unknown`] with its number. It does not decide what a message means or whether it is bad.

use serde::{Deserialize, Serialize};

use crate::base::{Arch, Line};

/// Everything one run of ptxas said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// One for each `Function properties for …`, in the order ptxas printed them. A `.func` that several entries
    /// call may be there once for each.
    pub functions: Vec<FunctionLog>,
    /// Every info, warning, error and fatal message that is not a statistic, in order.
    pub messages: Vec<Message>,
    /// Lines that were not understood; the first thousand of them.
    pub unknown: Vec<UnknownLine>,
    /// How many lines were not understood.
    pub unknown_lines: u64,
    /// `ptxas info    : 16 bytes gmem`: global variables of the module.
    pub gmem_bytes: Option<u64>,
    /// `24 bytes cmem[3]` on the module's line: constant variables.
    pub cmem: Vec<ConstantBank>,
}

/// What ptxas said about one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionLog {
    /// The name as in the PTX.
    pub name: String,
    /// Whether it is a kernel: ptxas announced it as `Compiling entry function`.
    pub entry: bool,
    /// The entry it was compiled as a part of; for an entry itself, its own name. Not known before 12.8 when functions
    /// are compiled separately: then the entry printed last.
    pub within: Option<String>,
    /// `for 'sm_90a'` of the announcement.
    #[serde(with = "arch_text")]
    pub arch: Option<Arch>,
    /// `Used N registers`.
    pub registers: Option<u32>,
    /// `used N barriers`. Toolkits before 12.6 do not print it.
    pub barriers: Option<u32>,
    /// `N bytes stack frame`.
    pub stack_bytes: Option<u64>,
    /// `N bytes spill stores`.
    pub spill_store_bytes: Option<u64>,
    /// `N bytes spill loads`.
    pub spill_load_bytes: Option<u64>,
    /// `N bytes cumulative stack size`.
    pub cumulative_stack_bytes: Option<u64>,
    /// `N bytes smem`.
    pub smem_bytes: Option<u64>,
    /// `N bytes lmem`.
    pub lmem_bytes: Option<u64>,
    /// `N bytes gmem`.
    pub gmem_bytes: Option<u64>,
    /// `N bytes cmem[B]`, in the order printed.
    pub cmem: Vec<ConstantBank>,
    /// `N textures`.
    pub textures: Option<u32>,
    /// `N surfaces`.
    pub surfaces: Option<u32>,
    /// `N samplers`.
    pub samplers: Option<u32>,
    /// `Compile time = N ms`.
    pub compile_ms: Option<f64>,
}

/// How much of a constant bank something uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstantBank {
    /// 3 of `cmem[3]`.
    pub bank: u32,
    /// How many bytes.
    pub bytes: u64,
}

/// How grave ptxas thinks a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// `ptxas info    :`
    Info,
    /// An info with a code, or an info or warning that begins with `Advisory:`.
    Advisory,
    /// `ptxas warning :`
    Warning,
    /// `error   :`
    Error,
    /// `fatal   :`
    Fatal,
}

/// One message that is not a statistic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// How grave.
    pub severity: Severity,
    /// `C7508` of `(C7508)`.
    pub code: Option<String>,
    /// The function it speaks about.
    pub function: Option<String>,
    /// The line of the PTX it speaks about.
    pub ptx_line: Option<Line>,
    /// Where in the front end's source it is, if `#line` in the PTX says so; then `ptx_line` is not known.
    pub source: Option<SourcePlace>,
    /// The word of that line an error points at.
    pub near: Option<String>,
    /// The text after the colon, without the code.
    pub text: String,
    /// Its line in the log.
    pub log_line: Line,
}

/// A place that `#line` in the PTX names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePlace {
    /// The file as it is written there.
    pub file: String,
    /// Its line.
    pub line: Line,
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownLine {
    /// Its line in the log.
    pub log_line: Line,
    /// The line itself.
    pub text: String,
}

mod arch_text {
    use super::Arch;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(arch: &Option<Arch>, to: S) -> Result<S::Ok, S::Error> {
        arch.map(|arch| arch.to_string()).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arch>, D::Error> {
        Option::<String>::deserialize(from)?.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// How many lines that were not understood are kept; the rest are counted.
const MAX_UNKNOWN: usize = 1000;

/// Longer names of files than any system has are not looked for.
const MAX_PATH: usize = 32 << 10;

/// Reads a log. Total: what it does not know it keeps.
pub fn parse(text: &str) -> Log {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let log_line = Line(u32::try_from(index + 1).unwrap_or(u32::MAX));
        if !reader.line(line, log_line) {
            reader.log.unknown_lines += 1;
            if reader.log.unknown.len() < MAX_UNKNOWN {
                reader.log.unknown.push(UnknownLine { log_line, text: line.to_owned() });
            }
        }
    }
    reader.finish()
}

/// The log so far, and what the next line may belong to.
#[derive(Default)]
struct Reader {
    log: Log,
    /// The entry announced last.
    entry: Option<(String, Option<Arch>)>,
}

impl Reader {
    /// Takes one line; `false` if some of it was not understood.
    fn line(&mut self, line: &str, log_line: Line) -> bool {
        if line.trim().is_empty() {
            return true;
        }
        let Some(head) = Head::parse(line) else { return self.properties(line) };
        let statistic = head.severity == Severity::Info && head.place.is_none();
        if let Some(understood) = statistic.then(|| self.statistic(head.text)).flatten() {
            return understood;
        }
        self.log.messages.push(message(head, log_line));
        true
    }

    /// What `-v` prints about functions and the module; `None` if it is a message like any other.
    fn statistic(&mut self, text: &str) -> Option<bool> {
        // `Compiling entry function 'uses_all' for 'sm_75'`
        if let Some(rest) = text.strip_prefix("Compiling entry function '") {
            let (name, arch) = rest.strip_suffix('\'').and_then(|rest| rest.rsplit_once("' for '"))?;
            self.entry = Some((name.to_owned(), arch.parse().ok()));
            return Some(true);
        }
        // `Function properties for uses_all`
        if let Some(name) = text.strip_prefix("Function properties for ") {
            let (within, arch) = match &self.entry {
                Some((entry, arch)) => (Some(entry.clone()), *arch),
                None => (None, None),
            };
            let entry = within.as_deref() == Some(name);
            self.log.functions.push(FunctionLog { name: name.to_owned(), entry, within, arch, ..Default::default() });
            return Some(true);
        }
        // `Compile time = 2.562 ms`
        if let Some(rest) = text.strip_prefix("Compile time = ") {
            let time = rest.strip_suffix(" ms").and_then(|ms| ms.parse::<f64>().ok()).filter(|ms| ms.is_finite());
            let function = self.log.functions.last_mut();
            return Some(match (time, function) {
                (Some(time), Some(function)) => {
                    function.compile_ms = Some(time);
                    // A function that is compiled as part of an entry has no time of its own.
                    if !function.entry {
                        function.within = None;
                    }
                    true
                }
                _ => false,
            });
        }
        // `Used 24 registers, used 2 barriers, 64 bytes cumulative stack size, 1024 bytes smem, 360 bytes cmem[0]`
        if let Some(rest) = text.strip_prefix("Used ") {
            let Some(function) = self.log.functions.last_mut() else { return Some(false) };
            return Some(all_items(rest, |amount, unit| function.used(amount, unit)));
        }
        // `64 bytes gmem, 24 bytes cmem[3]`
        if text.starts_with(|first: char| first.is_ascii_digit()) && text.contains(" bytes gmem") {
            let log = &mut self.log;
            return Some(all_items(text, |amount, unit| match unit {
                "bytes gmem" => set(&mut log.gmem_bytes, Some(amount)),
                _ => push_bank(&mut log.cmem, amount, unit),
            }));
        }
        None
    }

    /// `    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads`, which follows `Function properties for`.
    fn properties(&mut self, line: &str) -> bool {
        let Some(function) = self.log.functions.last_mut().filter(|_| line.starts_with(' ')) else { return false };
        all_items(line.trim(), |amount, unit| match unit {
            "bytes stack frame" => set(&mut function.stack_bytes, Some(amount)),
            "bytes spill stores" => set(&mut function.spill_store_bytes, Some(amount)),
            "bytes spill loads" => set(&mut function.spill_load_bytes, Some(amount)),
            _ => function.used(amount, unit),
        })
    }

    fn finish(mut self) -> Log {
        // `(C7508) … 'setmaxnreg' ignored; unable to determine register count at entry.` names nobody: where there is
        // one kernel it must be meant.
        let mut entries = self.log.functions.iter().filter(|function| function.entry).map(|function| &function.name);
        if let (Some(only), None) = (entries.next(), entries.next()) {
            let nameless = |message: &&mut Message| message.code.is_some() && message.function.is_none();
            self.log.messages.iter_mut().filter(nameless).for_each(|message| message.function = Some(only.clone()));
        }
        self.log
    }
}

impl FunctionLog {
    /// One item of the `Used` line; `false` if it is a new one.
    fn used(&mut self, amount: u64, unit: &str) -> bool {
        let count = u32::try_from(amount).ok();
        match unit {
            "registers" => set(&mut self.registers, count),
            "barriers" => set(&mut self.barriers, count),
            "textures" => set(&mut self.textures, count),
            "surfaces" => set(&mut self.surfaces, count),
            "samplers" => set(&mut self.samplers, count),
            "bytes cumulative stack size" => set(&mut self.cumulative_stack_bytes, Some(amount)),
            "bytes smem" => set(&mut self.smem_bytes, Some(amount)),
            "bytes lmem" => set(&mut self.lmem_bytes, Some(amount)),
            "bytes gmem" => set(&mut self.gmem_bytes, Some(amount)),
            _ => push_bank(&mut self.cmem, amount, unit),
        }
    }
}

/// Takes `24 registers, used 2 barriers, …` apart; `false` if an item is not `[used ]NUMBER UNIT` or not known.
fn all_items(list: &str, mut known: impl FnMut(u64, &str) -> bool) -> bool {
    let mut understood = true;
    for item in list.split(", ") {
        let item = item.strip_prefix("used ").unwrap_or(item);
        let parts = item.split_once(' ').and_then(|(amount, unit)| Some((amount.parse::<u64>().ok()?, unit)));
        understood &= parts.is_some_and(|(amount, unit)| known(amount, unit));
    }
    understood
}

fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let known = value.is_some();
    *field = value;
    known
}

/// `bytes cmem[3]`
fn push_bank(banks: &mut Vec<ConstantBank>, bytes: u64, unit: &str) -> bool {
    let bank =
        unit.strip_prefix("bytes cmem[").and_then(|rest| rest.strip_suffix(']')).and_then(|bank| bank.parse().ok());
    let Some(bank) = bank else { return false };
    banks.push(ConstantBank { bank, bytes });
    true
}

/// What a line that starts with `ptxas ` begins with.
struct Head<'a> {
    /// The file and the line of it, where they are given.
    place: Option<(&'a str, Line)>,
    severity: Severity,
    text: &'a str,
}

impl<'a> Head<'a> {
    /// `ptxas info    : …` or `ptxas input.ptx, line 12; error   : …`
    fn parse(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("ptxas ")?;
        if let Some((severity, text)) = severity_and_text(rest) {
            return Some(Head { place: None, severity, text });
        }
        // The first `, line ` that is followed by all the rest: a file's name may contain one too.
        rest.match_indices(", line ").take_while(|(at, _)| *at <= MAX_PATH).find_map(|(at, mark)| {
            let (number, tail) = leading_number(&rest[at + mark.len()..])?;
            let (severity, text) = severity_and_text(tail.strip_prefix("; ")?)?;
            Some(Head { place: Some((&rest[..at], Line(number))), severity, text })
        })
    }
}

/// `error   : Unknown symbol 'X'`
fn severity_and_text(text: &str) -> Option<(Severity, &str)> {
    let words = [
        ("info", Severity::Info),
        ("warning", Severity::Warning),
        ("error", Severity::Error),
        ("fatal", Severity::Fatal),
    ];
    words.iter().find_map(|(word, severity)| {
        let text = text.strip_prefix(word)?.trim_start_matches(' ').strip_prefix(':')?;
        Some((*severity, text.trim()))
    })
}

fn message(head: Head<'_>, log_line: Line) -> Message {
    let (code, text) = match code(head.text) {
        Some((code, text)) => (Some(code.to_owned()), text),
        None => (None, head.text),
    };
    let advisory = code.is_some() && head.severity == Severity::Info
        || text.starts_with("Advisory: ") && head.severity < Severity::Error;
    let (ptx_line, source) = match head.place {
        Some((file, line)) if is_input(file) => (Some(line), None),
        // `#line 50 "kernel.cu"` in the PTX.
        Some((file, line)) => (None, Some(SourcePlace { file: file.to_owned(), line })),
        None => (line_in(text), None),
    };
    let wrong = head.severity >= Severity::Error && head.place.is_some();
    Message {
        severity: if advisory { Severity::Advisory } else { head.severity },
        code,
        function: function_in(text).map(str::to_owned),
        ptx_line,
        source,
        near: if wrong { near(text).map(str::to_owned) } else { None },
        text: text.to_owned(),
        log_line,
    }
}

/// Whether a file is the PTX: by its name, or as the back end calls it whatever its name,
/// `ptxas application ptx input, line 9; fatal   : (C7406) setmaxnreg.dec has register count (40) …`.
fn is_input(file: &str) -> bool {
    file == "application ptx input" || file.rsplit(['/', '\\']).next() == Some(super::run::INPUT)
}

/// `(C7508) Potential Performance Loss: …`
fn code(text: &str) -> Option<(&str, &str)> {
    let (code, text) = text.strip_prefix('(')?.split_once(") ")?;
    let digits = code.strip_prefix('C')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some((code, text))
}

/// The function a message names, in any of the ways seen:
/// `in the function 'acc_read'`, `Entry function 'k' uses`, `in function few_registers.`, `for 'kern' with`,
/// `for entry too_many is`.
fn function_in(text: &str) -> Option<&str> {
    let quoted = |mark: &str| text.split_once(mark)?.1.split_once('\'').map(|(name, _)| name);
    let word = |mark: &str| {
        let rest = text.split_once(mark)?.1;
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '%'))).unwrap_or(rest.len());
        Some(&rest[..end])
    };
    let limit = || text.strip_prefix("Overriding maximum register limit ").and_then(|_| quoted(" for '"));
    quoted("unction '")
        .or_else(|| word("in function "))
        .or_else(limit)
        .or_else(|| word("for entry "))
        .filter(|name| !name.is_empty())
}

/// The PTX line a message without a place names: `injected in around line 111`, `in the function 'tight' in line 266`,
/// `instruction at line 337`, `Unexpected EOF encountered on line 5`. Where ptxas does not know it, it says `in line 0`.
fn line_in(text: &str) -> Option<Line> {
    let number = text.split(" line ").skip(1).find_map(|rest| leading_number(rest)).map(|(number, _)| number);
    number.filter(|number| *number > 0).map(Line)
}

/// `337 in function` as 337 and the rest.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// What an error points at: the first quoted word, unless that is known not to be in the line.
/// `Parsing error near '': syntax error` is at the end of the file.
fn near(text: &str) -> Option<&str> {
    // `Unsupported .version 99.9; current version is '9.4'`
    if text.starts_with("Unsupported .version ") {
        return Some(".version");
    }
    // `Feature 'WGMMA' requires PTX ISA .version 8.0 or later`, `Missing .version directive at start of file 'input.ptx'`
    if text.starts_with("Feature '") || text.starts_with("Missing .version ") {
        return None;
    }
    let rest = text.split_once('\'')?.1;
    let token = match text.starts_with("Parsing error near ") {
        true => rest.rsplit_once("': ")?.0,
        false => rest.split_once('\'')?.0,
    };
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
