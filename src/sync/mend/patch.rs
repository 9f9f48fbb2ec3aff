//! A change that mends a kernel as a change of its text.

use super::{Change, Mend};
use crate::base::Line;
use crate::ptx::{Instruction, Mbarrier, MbarrierAction, NamedBarrier, Operand, Operation};
use crate::simt::Graph;

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
    pub fn patch<'a>(&self, line: Line, graph: &Graph<'a>) -> Option<Patch<'a>> {
        let sites = graph.sites.iter().filter(|site| site.line() == line);
        let mut patches = sites.filter_map(|site| {
            let instruction = site.located.instruction;
            let after = match &site.operation {
                Operation::Mbarrier(mbarrier) => of_mbarrier(self.change, instruction, mbarrier),
                Operation::NamedBarrier(barrier) => of_named(self.change, instruction, barrier),
                Operation::SetMaxNReg { .. } => of_registers(self.change, instruction),
                Operation::ClusterBarrier { .. } => removed(self.change),
                _ => None,
            }?;
            Some(Patch { before: instruction.text(), after })
        });
        let (patch, None) = (patches.next()?, patches.next()) else { return None };
        Some(patch)
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

    fn patched(change: Change, instruction: &str) -> Option<String> {
        let text = format!(
            ".version 8.8\n.target sm_90a\n.address_size 64\n.shared .align 8 .b64 b;\n.visible .entry k() .reqntid 32\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{instruction}\nret;\n}}\n"
        );
        let module = crate::ptx::parse(&text);
        let function = module.functions().next().unwrap();
        let graph = Graph::build(&function);
        let line = graph.sites.first().unwrap().line();
        let mend = Mend { pc: 0, line, also: Vec::new(), change };
        let patch = mend.patch(line, &graph)?;
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
