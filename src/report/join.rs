//! The join: functions of the cubin, of the log and of the PTX by name; instructions and PTX by line.

use std::collections::HashMap;

use rayon::prelude::*;

use super::access::AccessFact;
use super::code::{CodeFacts, Section, own_ranges};
use super::code_parts;
use super::cost::{self, Costs};
use super::demangle::demangle;
use super::matrices::FragmentsAt;
use super::memory::MemoryMaps;
use super::messages::{advisory, subject};
use super::model::*;
use super::occupancy;
use super::warps::{self, Evaluated, RoleHint};
use crate::base::{Line, Threads, work};
use crate::cubin::lines::LineTable;
use crate::cubin::{self, Abi, AttributeValue, ElfKind, FunctionKind, Image};
use crate::ptx::{self, Module};
use crate::registers::cap::{self, Bounds};
use crate::registers::code::Codes;
use crate::sync::Effort;
use crate::toolchain::log::{FunctionLog, Log};

/// Everything the readers found about one input.
pub struct Facts<'a> {
    /// The cubin.
    pub image: &'a Image<'a>,
    /// Its line table.
    pub lines: &'a LineTable<'a>,
    /// Its code, where somebody else needs it, too: solved once.
    pub codes: Option<&'a Codes>,
    /// ptxas's log, when ptxas ran.
    pub log: Option<&'a Log>,
    /// The PTX, when there is one.
    pub module: Option<&'a Module<'a>>,
    /// The user's flags for ptxas.
    pub flags: &'a [String],
    /// What the user says of the launch.
    pub launch: LaunchHints,
    /// Lines whose live values the user asks for, as ptxas numbers them.
    pub at: &'a [Line],
    /// What the user says of warp roles.
    pub roles: &'a [RoleHint],
    /// The threads of the kernels, where several builds of one PTX share them.
    pub evaluated: Option<&'a Evaluated>,
    /// What is asked for.
    pub wanted: Wanted,
}

/// Which answers are wanted, of those that take time and that not everybody needs; what is not wanted is null or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Who holds the registers at the peak.
    pub live_values: bool,
    /// Roles, setmaxnreg, barriers and findings.
    pub warps: bool,
    /// With them, the barriers drawn as they are executed.
    pub timelines: bool,
    /// What loops cost.
    pub costs: Costs,
}

impl Wanted {
    /// All that a report shows.
    pub const ALL: Wanted = Wanted { live_values: true, warps: true, timelines: false, costs: Costs::Hottest };
}

/// What a user knows of a launch that no directive says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchHints {
    /// Threads of a block.
    pub threads: Option<Threads>,
    /// Shared memory asked for at launch.
    pub smem_dynamic_bytes: Option<u64>,
    /// How much of what it may do is tried.
    pub effort: Effort,
}

impl LaunchHints {
    /// With what a compiler's cache records, where the user says nothing.
    pub fn or_recorded(self, recorded: Option<&RecordedLaunch>) -> LaunchHints {
        let Some(recorded) = recorded else { return self };
        LaunchHints {
            threads: self.threads.or(Some(recorded.threads.into())),
            smem_dynamic_bytes: self.smem_dynamic_bytes.or(Some(recorded.smem_dynamic_bytes)),
            effort: self.effort,
        }
    }
}

/// How many problems of one reader are kept; the rest is counted.
const MAX_PROBLEMS: usize = 100;

/// Fills a unit from the facts.
pub fn join(facts: &Facts<'_>, unit: &mut Unit) {
    let image = facts.image;
    let lines = facts.lines;
    if unit.arch.is_none() {
        unit.arch = Some(image.arch.to_string());
    }
    unit.cubin = Some(cubin_facts(image));
    if let Some(log) = facts.log {
        unit.advisories = log.messages.iter().map(|message| advisory(message, &unit.input)).collect();
        unit.unparsed_log =
            log.unknown.iter().map(|line| LogLine { line: line.log_line, text: line.text.clone() }).collect();
    }
    collect_problems(facts, lines, unit);
    let readers = Readers { facts, functions: functions_by_name(facts.module), advisories: unit.advisories.clone() };

    let mut logs = LogIndex::new(facts.log);
    let mut sections = Vec::with_capacity(image.functions.len());
    for function in &image.functions {
        let record = logs.take_entry(&function.name);
        if let Some(record) = record {
            disagreements(function, record, &mut unit.problems);
        }
        let parts: Vec<_> =
            function.parts.iter().map(|part| (part, logs.take_part(part.callee(), &function.name))).collect();
        sections.push((function, record, parts));
    }
    let deadline = work::deadline();
    let kernels = sections.par_iter().enumerate().flat_map_iter(|(place, (function, record, parts))| {
        work::under(&deadline, || {
            let section = Section::new(image, lines, facts, place, function);
            let mut whole = readers.whole_function(&section, *record);
            whole.places = readers.places(&mut whole.kernel, &section);
            let part = |(part, record): &(&cubin::Part<'_>, _)| Joined {
                kernel: readers.device_function(&section, part, *record),
                problem: None,
                places: Vec::new(),
            };
            std::iter::once(whole).chain(parts.iter().map(part)).collect::<Vec<_>>()
        })
    });
    let kernels: Vec<Joined> = kernels.collect();
    for Joined { kernel, problem, places } in kernels {
        unit.kernels.push(kernel);
        unit.problems.extend(problem);
        for place in places {
            if let Some(advisory) = unit.advisories.get_mut(place.advisory) {
                (advisory.first_ptx_line, advisory.source_line) = (place.first_ptx_line, place.source_line);
            }
        }
    }
    // ptxas also reports functions that it inlined everywhere: they have figures, but no code of their own.
    for record in logs.rest() {
        unit.kernels.push(readers.without_code(record));
    }
}

/// The functions of the PTX, a definition before its declarations.
pub(super) fn functions_by_name<'a>(module: Option<&'a Module<'a>>) -> HashMap<&'a str, ptx::Function<'a, 'a>> {
    let mut functions = HashMap::new();
    for function in module.iter().flat_map(|module| module.functions()) {
        if function.is_definition() || !functions.contains_key(function.name()) {
            functions.insert(function.name(), function);
        }
    }
    functions
}

pub(super) fn cubin_facts(image: &Image<'_>) -> CubinFacts {
    let maker = image.toolkit.tools.iter().find(|tool| tool.name == "ptxas").or(image.toolkit.tools.first());
    CubinFacts {
        abi: match image.abi {
            Abi::V7 => 7,
            Abi::V8 => 8,
        },
        relocatable: image.kind == ElfKind::Relocatable,
        made_by: maker
            .map(|tool| format!("{} {}", tool.name, tool.release().unwrap_or("of unknown version")))
            .or(image.toolkit.version.map(|(major, minor)| format!("toolkit {major}.{minor}"))),
        made_with: maker.map(|tool| tool.options.to_string()).filter(|options| !options.is_empty()),
    }
}

fn collect_problems(facts: &Facts<'_>, lines: &LineTable<'_>, unit: &mut Unit) {
    if let Some(module) = facts.module {
        let errors = module.errors.iter().take(MAX_PROBLEMS);
        unit.problems.extend(errors.map(|error| Problem {
            stage: ProblemStage::Ptx,
            ptx_line: Some(error.line),
            message: error.to_string(),
        }));
    }
    let mut keep = |stage: ProblemStage, messages: &mut dyn Iterator<Item = String>| {
        for message in messages.take(MAX_PROBLEMS) {
            unit.problems.push(Problem { stage, ptx_line: None, message });
        }
    };
    keep(ProblemStage::Cubin, &mut facts.image.problems.iter().map(ToString::to_string));
    keep(ProblemStage::Lines, &mut lines.problems.iter().map(ToString::to_string));
}

/// ptxas's records by name, each used once.
struct LogIndex<'a> {
    records: &'a [FunctionLog],
    used: Vec<bool>,
    by_name: HashMap<&'a str, Vec<usize>>,
}

impl<'a> LogIndex<'a> {
    fn new(log: Option<&'a Log>) -> Self {
        let records = log.map_or(&[][..], |log| &log.functions);
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, record) in records.iter().enumerate() {
            by_name.entry(record.name.as_str()).or_default().push(index);
        }
        LogIndex { records, used: vec![false; records.len()], by_name }
    }

    fn take(&mut self, name: &str, fits: impl Fn(&FunctionLog) -> bool) -> Option<&'a FunctionLog> {
        let candidates = self.by_name.get(name)?;
        let index = *candidates.iter().find(|&&index| !self.used[index] && fits(&self.records[index]))?;
        self.used[index] = true;
        self.records.get(index)
    }

    fn take_entry(&mut self, name: &str) -> Option<&'a FunctionLog> {
        self.take(name, |record| record.entry).or_else(|| self.take(name, |_| true))
    }

    fn take_part(&mut self, name: &str, within: &str) -> Option<&'a FunctionLog> {
        self.take(name, |record| !record.entry && record.within.as_deref() == Some(within))
            .or_else(|| self.take(name, |record| !record.entry))
    }

    fn rest(&self) -> impl Iterator<Item = &'a FunctionLog> + '_ {
        self.records.iter().zip(&self.used).filter(|(_, used)| !**used).map(|(record, _)| record)
    }
}

/// The bytes that spills store and read back; none where one of them is not understood.
fn spilled_bytes(spills: &[Spill]) -> Option<(u64, u64)> {
    let mut bytes = (0, 0);
    for spill in spills {
        match spill.kind? {
            SpillKind::Store => bytes.0 += u64::from(spill.bytes?),
            SpillKind::Refill => bytes.1 += u64::from(spill.bytes?),
        }
    }
    Some(bytes)
}

/// The bytes spilt and read back that ptxas reports.
fn spilled(record: Option<&FunctionLog>) -> Option<(u64, u64)> {
    let record = record?;
    record.spill_store_bytes.zip(record.spill_load_bytes)
}

/// The variables that a function declares in local memory.
fn local_variables(function: &ptx::Function<'_, '_>) -> Vec<LocalVariable> {
    let module = function.module();
    let declared = function.declarations(ptx::StateSpace::Local).flat_map(|(id, declaration)| {
        let ptx_line = module.statement(id).map_or(Line(0), |statement| module.number_of(statement.first_line));
        let variable = move |name: &str, bytes| LocalVariable { name: name.to_owned(), bytes, ptx_line };
        let names = declaration.names().map(|found| variable(found.name, declaration.bytes(&found)));
        names.collect::<Vec<_>>()
    });
    declared.collect()
}

/// A function, and what was found out beside it.
struct Joined {
    kernel: Kernel,
    /// What could not be told of it.
    problem: Option<Problem>,
    /// Where messages of ptxas about it point.
    places: Vec<AdvisoryPlace>,
}

/// Where a message of ptxas points.
struct AdvisoryPlace {
    /// Its place among the unit's.
    advisory: usize,
    first_ptx_line: Option<Line>,
    source_line: Option<SourceLine>,
}

/// Everything a function is joined from.
struct Readers<'a> {
    facts: &'a Facts<'a>,
    functions: HashMap<&'a str, ptx::Function<'a, 'a>>,
    advisories: Vec<Advisory>,
}

impl Readers<'_> {
    /// Where in the front end's source findings are, and where messages of ptxas about a function point.
    fn places(&self, kernel: &mut Kernel, section: &Section<'_>) -> Vec<AdvisoryPlace> {
        let lines = &kernel.lines;
        let source = |line: Line| {
            let at = lines.binary_search_by_key(&line, |facts| facts.ptx_line).ok()?;
            section.source_line(*lines.get(at)?.pcs.first()?)
        };
        for issue in kernel.barriers.iter_mut().flat_map(|found| &mut found.issues) {
            issue.source_line = issue.ptx_line.and_then(source);
        }
        let about = self.advisories.iter().enumerate();
        let about = about.filter(|(_, advisory)| advisory.kernel.as_deref() == Some(kernel.name.as_str()));
        let place = |(at, advisory): (usize, &Advisory)| {
            let first_ptx_line = match advisory.ptx_line {
                None => self.first_line_of(&kernel.name, subject(&advisory.message)?),
                Some(_) => None,
            };
            let source_line = advisory.ptx_line.or(first_ptx_line).and_then(source);
            Some(AdvisoryPlace { advisory: at, first_ptx_line, source_line })
        };
        about.filter_map(place).collect()
    }

    /// The first line of a function with an instruction that begins so.
    fn first_line_of(&self, function: &str, opcode: &str) -> Option<Line> {
        let function = self.functions.get(function)?;
        let module = function.module();
        let is = |statement: &&ptx::Statement| {
            statement.instruction(module.text()).is_some_and(|found| found.opcode().starts_with(opcode))
        };
        function.body().iter().find(is).map(|statement| module.number_of(statement.first_line))
    }

    /// A kernel, or a device function with a section of its own, and what could not be told of it.
    fn whole_function(&self, section: &Section<'_>, record: Option<&FunctionLog>) -> Joined {
        let function = section.function;
        let entry = function.kind == FunctionKind::Entry;
        let launch = self.launch(function);
        let kind = if entry { KernelKind::Entry } else { KernelKind::Func };
        let params = function.params.iter();
        let resources = resources_of(function, record);
        let ranges = own_ranges(function);
        let mut kernel = Kernel {
            occupancy: if entry { self.occupancy(function, &resources, &launch, None) } else { None },
            resources,
            register_cap: if entry { self.register_cap(&launch) } else { None },
            launch,
            parameters: params
                .map(|param| Parameter { ordinal: param.ordinal, offset: param.offset, bytes: param.bytes })
                .collect(),
            attributes: function.attributes.iter().map(attribute).collect(),
            ..self.kernel(&function.name, kind, section.facts(&ranges, spilled(record)))
        };
        // Marks add up to what ptxas reports; where its log is not there they stand for it.
        if let (true, None, Some((stored, loaded))) = (entry, record, kernel.spills.as_deref().and_then(spilled_bytes))
        {
            kernel.resources.spill_store_bytes = Some(stored);
            kernel.resources.spill_load_bytes = Some(loaded);
        }
        if entry && self.facts.wanted.warps {
            let known = warps::Known {
                section,
                ranges: &ranges,
                function: self.functions.get(&*function.name),
                advisories: &self.advisories,
                launch: &self.facts.launch,
                roles: self.facts.roles,
                evaluated: self.facts.evaluated,
                timelines: self.facts.wanted.timelines,
            };
            if let Err(error) = warps::fill(&mut kernel, &known) {
                let message = format!(
                    "{}: its roles and barriers are not told, nor what is wrong with them: that takes {error}",
                    kernel.name
                );
                let problem = Problem { stage: ProblemStage::Analysis, ptx_line: kernel.ptx_line, message };
                kernel.live_at_peak = section.live_at_peak(kernel.pressure.as_ref(), kernel.spills.as_deref());
                return Joined { kernel, problem: Some(problem), places: Vec::new() };
            }
            kernel.occupancy = self.occupancy(function, &kernel.resources, &kernel.launch, kernel.memory.as_ref());
        }
        kernel.hazards = cost::hazards(section, &ranges, self.facts.wanted.costs);
        let of_ptx = self.functions.get(&*function.name);
        let (asked, arch) = (self.facts.wanted.costs, self.facts.image.arch);
        // The two that a user waits for, where a file has but one kernel.
        let deadline = work::deadline();
        let (costs, live_at_peak) = rayon::join(
            || cost::costs(&kernel, section, &ranges, of_ptx, asked, arch),
            || work::under(&deadline, || section.live_at_peak(kernel.pressure.as_ref(), kernel.spills.as_deref())),
        );
        (kernel.costs, kernel.live_at_peak) = (costs, live_at_peak);
        if let Some(found) = kernel.accesses.as_mut().filter(|_| !self.facts.wanted.costs.all_accesses()) {
            found.accesses.retain(AccessFact::is_worse);
        }
        if entry && self.facts.wanted.costs == Costs::Builds {
            kernel.code_parts = code_parts::of(&kernel, section, &ranges, of_ptx, self.facts.image.arch);
        }
        Joined { kernel, problem: None, places: Vec::new() }
    }

    /// A device function inside a kernel's section.
    fn device_function(&self, section: &Section<'_>, part: &cubin::Part<'_>, record: Option<&FunctionLog>) -> Kernel {
        let code = section.facts(&[part.start..part.end], spilled(record));
        let resources = Resources {
            registers: record.and_then(|record| record.registers).or(part.registers),
            stack_bytes: record.and_then(|record| record.stack_bytes).or(part.frame_bytes.map(u64::from)),
            spill_store_bytes: record.and_then(|record| record.spill_store_bytes),
            spill_load_bytes: record.and_then(|record| record.spill_load_bytes),
            code_bytes: u64::from(part.end.0.saturating_sub(part.start.0)),
            ..Resources::default()
        };
        Kernel {
            within: Some(section.function.name.to_string()),
            resources,
            live_at_peak: section.live_at_peak(code.pressure.as_ref(), code.spills.as_deref()),
            ..self.kernel(part.callee(), KernelKind::Func, code)
        }
    }

    /// A function that only the log speaks of.
    fn without_code(&self, record: &FunctionLog) -> Kernel {
        let kind = if record.entry { KernelKind::Entry } else { KernelKind::Func };
        let resources = Resources {
            registers: record.registers,
            barriers: record.barriers,
            stack_bytes: record.stack_bytes,
            spill_store_bytes: record.spill_store_bytes,
            spill_load_bytes: record.spill_load_bytes,
            smem_bytes: record.smem_bytes,
            ..Resources::default()
        };
        Kernel {
            within: record.within.clone().filter(|_| !record.entry),
            resources,
            ..self.kernel(&record.name, kind, CodeFacts::default())
        }
    }

    fn kernel(&self, name: &str, kind: KernelKind, code: CodeFacts) -> Kernel {
        Kernel {
            name: name.to_owned(),
            demangled: demangle(name),
            kind,
            within: None,
            ptx_line: self.functions.get(name).map(|function| function.lines().0),
            resources: Resources::default(),
            launch: Launch::default(),
            register_cap: None,
            instructions: code.instructions,
            pressure: code.pressure,
            live_at_peak: None,
            live_at: code.live_at,
            fragments_at: self.fragments_at(name),
            multiplications: Vec::new(),
            hazards: None,
            costs: None,
            accesses: None,
            code_parts: None,
            loops: code.loops,
            lines: code.lines,
            source_lines: code.source_lines,
            inlined_lines: code.inlined_lines,
            unmapped_pcs: code.unmapped,
            spills: code.spills,
            local_variables: self.functions.get(name).map(local_variables).unwrap_or_default(),
            role_of_line: HashMap::new(),
            warps_of_line: HashMap::new(),
            roles: None,
            setmaxnreg: None,
            barriers: None,
            memory: None,
            occupancy: None,
            parameters: Vec::new(),
            attributes: Vec::new(),
            timeline: None,
        }
    }

    /// What registers hold at the lines that were asked about.
    fn fragments_at(&self, name: &str) -> Vec<FragmentsAt> {
        let function = self.functions.get(name).filter(|_| !self.facts.at.is_empty());
        let found =
            function.map(|function| FragmentsAt::at(function, function.module(), |line| self.facts.at.contains(&line)));
        found.unwrap_or_default()
    }

    /// What the PTX's directives say, or else the cubin's records.
    fn launch(&self, function: &cubin::Function<'_>) -> Launch {
        launch_with(function, self.functions.get(&*function.name))
    }

    fn occupancy(
        &self,
        function: &cubin::Function<'_>,
        resources: &Resources,
        launch: &Launch,
        memory: Option<&MemoryMaps>,
    ) -> Option<Occupancy> {
        let ptx = self.functions.get(&*function.name);
        let (image, hints) = (self.facts.image, self.facts.launch);
        occupancy::Source { image, function, ptx, resources, launch, hints, memory }.occupancy()
    }

    fn register_cap(&self, launch: &Launch) -> Option<RegisterCap> {
        let bounds = Bounds {
            maxnreg: launch.maxnreg,
            threads: launch.threads(),
            min_blocks: launch.minnctapersm,
            maxrregcount: maxrregcount(self.facts),
            raised_to: self.advisories.iter().find_map(|advisory| raised_to(&advisory.message)),
            flag_overrides: flag_values(self.facts, "override-directive-values").is_some(),
        };
        let cap = cap::cap(self.facts.image.arch, &bounds)?;
        Some(RegisterCap { registers: cap.registers, cause: cap.cause, explanation: cap.explanation })
    }
}

/// What the PTX's directives say of a launch, or else the cubin's records.
pub(super) fn launch_with(function: &cubin::Function<'_>, kernel: Option<&ptx::Function<'_, '_>>) -> Launch {
    let launch = launch_of(function);
    let Some(header) = kernel.map(ptx::Function::header) else { return launch };
    let reqntid = header.required_threads().or(launch.reqntid);
    Launch {
        reqntid,
        // The cubin records .reqntid as a maximum too.
        maxntid: header.max_threads().or(launch.maxntid.filter(|_| reqntid.is_none())),
        minnctapersm: header.min_blocks_per_sm().or(launch.minnctapersm),
        maxnreg: header.max_registers(),
        cluster: header.required_cluster().or(launch.cluster),
        max_cluster_rank: header.max_cluster_rank().or(launch.max_cluster_rank),
    }
}

/// What the cubin records of a launch.
fn launch_of(function: &cubin::Function<'_>) -> Launch {
    let recorded = &function.launch;
    Launch {
        reqntid: recorded.required_threads,
        maxntid: recorded.max_threads,
        minnctapersm: None,
        maxnreg: None,
        cluster: recorded.cluster,
        max_cluster_rank: recorded.max_cluster_rank,
    }
}

pub(super) fn resources_of(function: &cubin::Function<'_>, record: Option<&FunctionLog>) -> Resources {
    let from = &function.resources;
    let cmem: Vec<ConstantBank> = from
        .cmem
        .iter()
        .map(|bank| ConstantBank { bank: u32::from(bank.bank), bytes: u64::from(bank.bytes) })
        .collect();
    Resources {
        registers: from.registers,
        barriers: from.barriers,
        // With indirect calls the cubin's figure includes the callees; ptxas's own is the frame alone.
        stack_bytes: record.and_then(|record| record.stack_bytes).or(from.frame_bytes.map(u64::from)),
        spill_store_bytes: record.and_then(|record| record.spill_store_bytes),
        spill_load_bytes: record.and_then(|record| record.spill_load_bytes),
        smem_bytes: Some(u64::from(from.smem_bytes)),
        cmem_bytes: Some(cmem.iter().map(|bank| bank.bytes).sum()),
        cmem,
        local_bytes: Some(u64::from(from.local_bytes)),
        code_bytes: u64::from(from.code_bytes),
    }
}

/// Where the cubin and the log do not say the same, which should never be.
fn disagreements(function: &cubin::Function<'_>, record: &FunctionLog, problems: &mut Vec<Problem>) {
    let from = &function.resources;
    let mut compare = |what: &str, cubin: Option<u64>, log: Option<u64>| {
        if let (Some(cubin), Some(log)) = (cubin, log)
            && cubin != log
        {
            let message = format!("{}: the cubin says {cubin} {what}, ptxas's log {log}", function.name);
            problems.push(Problem { stage: ProblemStage::Join, ptx_line: None, message });
        }
    };
    compare("registers", from.registers.map(u64::from), record.registers.map(u64::from));
    compare("barriers", from.barriers.map(u64::from), record.barriers.map(u64::from));
    compare("bytes of shared memory", Some(u64::from(from.smem_bytes)), record.smem_bytes);
}

/// `--maxrregcount` from the user's flags, or from the flags a cubin says it was made with.
fn maxrregcount(facts: &Facts<'_>) -> Option<u32> {
    flag_values(facts, "maxrregcount")?.trim().parse().ok()
}

/// The registers of `adjusting per thread register count of 8 to lower bound of 24`.
fn raised_to(message: &str) -> Option<u32> {
    let (_, rest) = message.split_once("adjusting per thread register count of ")?;
    rest.split_once(" to lower bound of ")?.1.trim().parse().ok()
}

/// What follows a flag, the last time it is given: by the user, or else by what the cubin says it was made with.
fn flag_values<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a str> {
    let tool = facts.image.toolkit.tools.iter().find(|tool| tool.name == "ptxas");
    let recorded: Vec<&str> = tool.map(|tool| tool.options.split_whitespace().collect()).unwrap_or_default();
    let flags: Vec<&str> = facts.flags.iter().map(String::as_str).collect();
    [flags, recorded].iter().find_map(|flags| {
        flags.iter().enumerate().rev().find_map(|(at, flag)| {
            let rest = flag.trim_start_matches('-').strip_prefix(name)?;
            Some(if rest.is_empty() {
                flags.get(at + 1).copied().unwrap_or_default()
            } else {
                rest.trim_start_matches('=')
            })
        })
    })
}

fn attribute(attribute: &cubin::Attribute<'_>) -> Attribute {
    let value = match &attribute.value {
        AttributeValue::None => String::new(),
        AttributeValue::Byte(value) => format!("{value:02x}"),
        AttributeValue::Half(value) => format!("{value:04x}"),
        AttributeValue::Bytes(bytes) => {
            let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('?');
            bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
        }
    };
    Attribute { code: attribute.code, name: attribute.name.map(str::to_owned), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_that_ptxas_raises_is_read() {
        let said = "For profile sm_75 adjusting per thread register count of 8 to lower bound of 24";
        assert_eq!(raised_to(said), Some(24));
        assert_eq!(raised_to("Stack size cannot be determined"), None);
    }
}
