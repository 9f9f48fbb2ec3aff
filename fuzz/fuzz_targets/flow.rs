//! Any bytes as code of any architecture: control flow, loops and liveness end and do not panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::base::{Arch, Pc, RegSet};
use ptxinspect::flow::{Cfg, Layout, Liveness, Program, Rule, SassProgram};
use ptxinspect::sass::Decoder;

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, entry, from, to], code)) = input.split_first_chunk::<4>() else { return };
    let arches = [75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121];
    let Some(decoder) = Decoder::new(Arch::new(arches[usize::from(choice) % arches.len()])) else { return };
    let layout = Layout {
        entries: vec![Pc(u32::from(entry) * 16)],
        indirect: [(Pc(u32::from(from) * 16), vec![Pc(u32::from(to) * 16), Pc(u32::from(to))])].into(),
        registers: u16::from(choice),
        named: None,
    };
    let program = SassProgram::decode(decoder, code);
    let cfg = Cfg::build(&program, &layout);
    assert_eq!(cfg.blocks.iter().map(|block| (block.end - block.start) as usize).sum::<usize>(), program.len());
    let _ = (cfg.dominators(), cfg.loops());
    for rule in [Rule::Sound, Rule::Nvdisasm] {
        let liveness = Liveness::solve(&program, &cfg, rule);
        assert_eq!(liveness.counts(&program, &cfg).len(), program.len());
        let _ = liveness.definitions(&program, &cfg, Pc(u32::from(from) * 16), &RegSet::all());
        let _ = liveness.uses(&program, &cfg, Pc(u32::from(to) * 16), &RegSet::all());
    }
});
