//! A change that mends a kernel as a change of its text.

use super::{Change, Insertion, Mend};
use crate::base::Line;
use crate::ptx::{Instruction, Mbarrier, MbarrierAction, NamedBarrier, Operand, Operation, type_bits};
use crate::simt::{Graph, Site};
use crate::sync::program::{Address, Program, Reg, Source};

/// An instruction as it reads, and as it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// As written, guard and semicolon included.
    pub before: &'a str,
    /// What takes its place; empty where it goes.
    pub after: String,
}

impl Mend {
    /// The instruction of one of its lines as it would read; none where that cannot be told from the line alone.
    pub fn patch<'a>(&self, line: Line, graph: &Graph<'a>, program: &Program) -> Option<Patch<'a>> {
        let sites = graph.sites.iter().filter(|site| site.line() == line);
        let mut patches = sites.filter_map(|site| {
            let instruction = site.located.instruction;
            let names = Names { graph, program, site };
            let after = match &site.operation {
                _ if let Change::Insert { what, after } = self.change => {
                    let (text, added) = (instruction.text(), names.insertion(what)?);
                    Some(if after { format!("{text} {added}") } else { format!("{added} {text}") })
                }
                Operation::Mbarrier(mbarrier) if let Change::Object { at } = self.change => {
                    replaced(instruction, mbarrier.address?, &names.address(at)?)
                }
                Operation::Mbarrier(mbarrier) => of_mbarrier(self.change, instruction, mbarrier),
                Operation::NamedBarrier(barrier) => of_named(self.change, instruction, barrier),
                Operation::SetMaxNReg { .. } => of_registers(self.change, instruction),
                Operation::ClusterBarrier { .. } => removed(self.change),
                _ => of_number(self.change, instruction),
            }?;
            Some(Patch { before: instruction.text(), after })
        });
        let (patch, None) = (patches.next()?, patches.next()) else { return None };
        Some(patch)
    }
}

/// What registers and places are called where an instruction stands.
struct Names<'s, 'a> {
    graph: &'s Graph<'a>,
    program: &'s Program,
    site: &'s Site<'a>,
}

impl Names<'_, '_> {
    /// The name of a register, and how many bits it has; none where the name means another one here.
    fn register(&self, reg: Reg) -> Option<(String, u32)> {
        let register = *self.program.names.get(reg)?;
        let declaration = self.graph.registers.declaration(register)?;
        let name = match declaration.declarator.range {
            Some(_) => format!("{}{}", declaration.declarator.name, register.number),
            None => declaration.declarator.name.to_owned(),
        };
        let is_seen = self.graph.registers.resolve(&name, self.site.located.id) == Some(register);
        is_seen.then_some(())?;
        Some((name, if declaration.ty == "pred" { 1 } else { type_bits(declaration.ty)? }))
    }

    /// A place of shared memory.
    fn place(&self, place: u64) -> Option<String> {
        let at = self.program.variables.partition_point(|variable| variable.start <= place);
        let variable = self.program.variables.get(at.checked_sub(1)?)?;
        Some(format!("{}+{}", variable.name, place - variable.start))
    }

    fn address(&self, at: Address) -> Option<String> {
        match at.base {
            // One of 64 bits may be generic.
            Source::Reg(reg) => match self.register(reg)? {
                (name, 32) if at.offset == 0 => Some(format!("[{name}]")),
                (name, 32) => Some(format!("[{name}+{}]", at.offset)),
                _ => None,
            },
            Source::Shared(start) => Some(format!("[{}]", self.place(start.wrapping_add(at.offset as u64))?)),
            _ => None,
        }
    }

    fn insertion(&self, what: Insertion) -> Option<String> {
        const ARRIVE: &str = "mbarrier.arrive.shared.b64 _,";
        Some(match what {
            Insertion::Arrive { at, count: None } => format!("{ARRIVE} {};", self.address(at)?),
            Insertion::Arrive { at, count: Some(count) } => {
                let elect = "{ .reg .pred %elected; elect.sync _|%elected, -1;";
                format!("{elect} @%elected {ARRIVE} {}, {count}; }}", self.address(at)?)
            }
            Insertion::Announce { at, bytes } => {
                let guard = self.site.located.instruction.text().split_whitespace().next();
                let guard =
                    guard.filter(|word| word.starts_with('@')).map(|word| format!("{word} ")).unwrap_or_default();
                format!("{guard}mbarrier.arrive.expect_tx.shared::cluster.b64 _, {}, {bytes};", self.address(at)?)
            }
            Insertion::Toggle { parity, last: None, over, .. } => {
                let (parity, over) = (self.register(parity)?.0, self.register(over)?.0);
                format!("@{over} xor.b32 {parity}, {parity}, 1;")
            }
            Insertion::Toggle { parity, at, last: Some(last), over } => {
                let Source::Reg(base) = at.base else { return None };
                let ((base, 32), (parity, 32)) = (self.register(base)?, self.register(parity)?) else { return None };
                let over = self.register(over)?.0;
                let last = self.place(last.wrapping_sub(at.offset as u64))?;
                format!(
                    "{{ .reg .pred %wrapped; .reg .b32 %last; mov.b32 %last, {last}; setp.eq.and.u32 %wrapped, {base}, %last, {over}; \
                     @%wrapped xor.b32 {parity}, {parity}, 1; }}"
                )
            }
            Insertion::ArriveNamed { id, count } => format!("barrier.arrive {id}, {count};"),
            Insertion::ArriveCluster => "barrier.cluster.arrive;".to_owned(),
            Insertion::WaitCluster => "barrier.cluster.wait;".to_owned(),
        })
    }
}

/// Another mask, or another number to compare with.
fn of_number(change: Change, instruction: Instruction<'_>) -> Option<String> {
    match (change, instruction.mnemonic()) {
        (Change::Mask { to }, mnemonic) => {
            let at = match mnemonic {
                "bar" => 0,
                "shfl" => 4,
                "vote" | "redux" | "match" => 2,
                "elect" => 1,
                _ => return None,
            };
            replaced(instruction, instruction.operand(at)?, &format!("{to:#x}"))
        }
        (Change::Constant { to, .. }, "setp") => {
            let to = i32::try_from(to).ok()?;
            replaced(instruction, instruction.operand(2)?, &to.to_string())
        }
        _ => None,
    }
}

fn of_mbarrier(change: Change, instruction: Instruction<'_>, mbarrier: &Mbarrier<'_>) -> Option<String> {
    let argument = || mbarrier.argument.filter(|argument| !argument.text().is_empty());
    match (change, mbarrier.action) {
        (Change::Count { to, .. }, MbarrierAction::Init) => replaced(instruction, argument()?, &to.to_string()),
        (Change::Bytes { to, .. }, MbarrierAction::ArriveExpectTx | MbarrierAction::ExpectTx) => {
            replaced(instruction, argument()?, &to.to_string())
        }
        (Change::Announce { bytes }, MbarrierAction::Arrive) => {
            let address = mbarrier.address?;
            // Whoever announces arrives once.
            let text = match argument() {
                Some(count) if count.text() == "1" => replaced(instruction, count, &bytes.to_string())?,
                Some(_) => return None,
                None => replaced(instruction, address, &format!("{}, {bytes}", address.text()))?,
            };
            Some(text.replacen(".arrive", ".arrive.expect_tx", 1))
        }
        (Change::Arrive, MbarrierAction::ExpectTx) => {
            let address = mbarrier.address?;
            let text = replaced(instruction, address, &format!("_, {}", address.text()))?;
            Some(text.replacen(".expect_tx", ".arrive.expect_tx", 1).replacen(".relaxed", ".release", 1))
        }
        (Change::Parity, MbarrierAction::TestWait | MbarrierAction::TryWait) if mbarrier.parity => {
            let parity = argument()?;
            match parity.text() {
                "0" => replaced(instruction, parity, "1"),
                "1" => replaced(instruction, parity, "0"),
                register if register.starts_with('%') => {
                    let wait = replaced(instruction, parity, "%other_parity")?;
                    Some(format!("{{ .reg .b32 %other_parity; xor.b32 %other_parity, {register}, 1; {wait} }}"))
                }
                _ => None,
            }
        }
        (Change::Remove, _) => removed(change),
        _ => None,
    }
}

fn of_named(change: Change, instruction: Instruction<'_>, barrier: &NamedBarrier<'_>) -> Option<String> {
    match (change, barrier.threads) {
        (Change::Count { to, .. }, Some(threads)) => replaced(instruction, threads, &to.to_string()),
        (Change::Count { to, .. }, None) => {
            let id = barrier.id?;
            replaced(instruction, id, &format!("{}, {to}", id.text()))
        }
        (Change::Id { to }, _) => replaced(instruction, barrier.id?, &to.to_string()),
        (Change::Remove, _) => removed(change),
        _ => None,
    }
}

fn of_registers(change: Change, instruction: Instruction<'_>) -> Option<String> {
    let Change::Registers { to, .. } = change else { return None };
    replaced(instruction, instruction.operands().last()?, &to.to_string())
}

fn removed(change: Change) -> Option<String> {
    (change == Change::Remove).then(String::new)
}

/// An instruction with other words in the place of an operand of it.
fn replaced(instruction: Instruction<'_>, operand: Operand<'_>, words: &str) -> Option<String> {
    let (text, operand) = (instruction.text(), operand.text());
    // An operand is a part of the text: a search might find its letters elsewhere.
    let at = (operand.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let after = text.get(at..)?.strip_prefix(operand)?;
    Some(format!("{}{words}{after}", text.get(..at)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::program::InstrId;

    fn patched(change: Change, instruction: &str) -> Option<String> {
        let text = format!(
            ".version 8.8\n.target sm_90a\n.address_size 64\n.shared .align 8 .b64 b;\n.visible .entry k() .reqntid 32\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{instruction}\nret;\n}}\n"
        );
        let module = crate::ptx::parse(&text);
        let function = module.functions().next().unwrap();
        let graph = Graph::build(&function);
        let line = graph.sites.first().unwrap().line();
        let mend = Mend { pc: InstrId::ENTRY, line, also: Vec::new(), change, parting: None };
        let patch = mend.patch(line, &graph, &Program::of(&function, &graph))?;
        assert_eq!(patch.before, instruction);
        Some(patch.after)
    }

    #[test]
    fn every_change_is_one_of_the_text() {
        let count = |to| Change::Count { from: None, to };
        let cases = [
            (count(64), "@%p1 mbarrier.init.shared.b64 [b+1], 1;", Some("@%p1 mbarrier.init.shared.b64 [b+1], 64;")),
            (count(64), "bar.sync 0;", Some("bar.sync 0, 64;")),
            (count(64), "barrier.cta.arrive.aligned 32, 32;", Some("barrier.cta.arrive.aligned 32, 64;")),
            (
                Change::Bytes { from: None, to: 128 },
                "mbarrier.arrive.expect_tx.shared.b64 _, [b], %r1;",
                Some("mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;"),
            ),
            (
                Change::Announce { bytes: 16 },
                "@!%p1 mbarrier.arrive.shared.b64 %rd1, [b];",
                Some("@!%p1 mbarrier.arrive.expect_tx.shared.b64 %rd1, [b], 16;"),
            ),
            (
                Change::Announce { bytes: 16 },
                "mbarrier.arrive.shared.b64 %rd1, [b], 1;",
                Some("mbarrier.arrive.expect_tx.shared.b64 %rd1, [b], 16;"),
            ),
            (Change::Announce { bytes: 16 }, "mbarrier.arrive.shared.b64 %rd1, [b], 2;", None),
            (
                Change::Arrive,
                "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 16;",
                Some("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [b], 16;"),
            ),
            (
                Change::Parity,
                "mbarrier.try_wait.parity.shared.b64 %p1, [b], 0, 100;",
                Some("mbarrier.try_wait.parity.shared.b64 %p1, [b], 1, 100;"),
            ),
            (
                Change::Parity,
                "mbarrier.test_wait.parity.shared.b64 %p1, [b], %r1;",
                Some(
                    "{ .reg .b32 %other_parity; xor.b32 %other_parity, %r1, 1; \
                     mbarrier.test_wait.parity.shared.b64 %p1, [b], %other_parity; }",
                ),
            ),
            (Change::Id { to: 3 }, "bar.sync 1, 32;", Some("bar.sync 3, 32;")),
            (
                Change::Registers { from: 40, to: 24 },
                "setmaxnreg.dec.sync.aligned.u32 40;",
                Some("setmaxnreg.dec.sync.aligned.u32 24;"),
            ),
            (Change::Remove, "barrier.cluster.arrive.aligned;", Some("")),
            (Change::Remove, "add.u32 %r1, %r1, 1;", None),
        ];
        for (change, instruction, after) in cases {
            assert_eq!(patched(change, instruction).as_deref(), after, "{instruction}");
        }
    }
}
