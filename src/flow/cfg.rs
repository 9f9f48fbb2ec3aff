//! Basic blocks, functions and calls.

use crate::base::{Id, Pc, dense_id};
use crate::graph::{BlockId, Dominators, Lists, Loops};
use crate::sass::Transfer;

use super::program::{Layout, Program};

/// Index of a function in [`Cfg::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(pub u32);

dense_id!(FuncId);

/// Instructions that run one after the other: control enters at the first and leaves after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the first instruction.
    pub start: u32,
    /// Index after the last instruction.
    pub end: u32,
    /// The function that reaches it; `None` when none does.
    pub function: Option<FuncId>,
    /// Whether something names its first instruction: a branch, `BSSY`, a call, a symbol.
    pub is_label: bool,
    /// Whether control may go on to the next block.
    pub falls_through: bool,
    /// Whether it may leave for a place that is not known: an indirect branch without its targets, a target outside the section, the
    /// section's end.
    pub escapes: bool,
}

/// A function: an entry and the blocks it reaches without following calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first instruction.
    pub entry: Pc,
    /// Its first block.
    pub block: BlockId,
    /// Whether everything it reaches, callees included, is understood: no unknown word, no way out of sight.
    pub exact: bool,
    /// The calls in its blocks, ascending: indices into [`Cfg::calls`].
    pub calls: Vec<u32>,
}

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// Where it is.
    pub pc: Pc,
    /// The function it calls, when that is in this section.
    pub callee: Option<FuncId>,
}

/// The control flow of a section. Calls are no edges: they are [`CallSite`]s and fall through.
#[derive(Clone, Debug, Default)]
pub struct Cfg {
    /// Ascending and without gaps: every instruction is in exactly one.
    pub blocks: Vec<Block>,
    /// By entry, ascending.
    pub functions: Vec<Function>,
    /// By pc, ascending; those in code that no function reaches too.
    pub calls: Vec<CallSite>,
    /// Instructions, padding included.
    pub instructions: u32,
    /// Trailing padding words.
    pub padding: u32,
    pub(super) layout: Layout,
    succ: Lists<BlockId, BlockId>,
    pred: Lists<BlockId, BlockId>,
    /// Reachable blocks in reverse postorder over all functions.
    order: Vec<BlockId>,
}

impl Cfg {
    /// Finds blocks, functions and calls.
    pub fn build(program: &impl Program, layout: &Layout) -> Cfg {
        let count = u32::try_from(program.len()).unwrap_or(u32::MAX / 16).min(u32::MAX / 16);
        let n = count as usize;
        let index_of = |pc: Pc| (pc.0.is_multiple_of(16) && pc.0 / 16 < count).then_some(pc.0 / 16);

        // One walk finds where blocks start. Bits: a block starts here, something names it, a function starts here.
        const LEADER: u8 = 1;
        const LABEL: u8 = 2;
        const ENTRY: u8 = 4;
        let mut marks = vec![0u8; n + 1];
        if n > 0 {
            marks[0] = LEADER | LABEL | ENTRY;
        }
        for entry in layout.entries.iter().filter_map(|&pc| index_of(pc)) {
            marks[entry as usize] |= LEADER | LABEL | ENTRY;
        }
        let mut ends: Vec<u32> = Vec::new();
        let mut unknown: Vec<u32> = Vec::new();
        for i in program.not_plain().take_while(|i| *i < n).map(|i| i as u32) {
            let flow = program.flow(i as usize);
            if !flow.known {
                unknown.push(i);
            }
            let named = match flow.transfer {
                Transfer::Branch(target) | Transfer::PushTarget(target) => Some((target, LEADER | LABEL)),
                Transfer::Call(target) => Some((target, LEADER | LABEL | ENTRY)),
                _ => None,
            };
            if let Some((at, bits)) = named.and_then(|(target, bits)| Some((index_of(target)?, bits))) {
                marks[at as usize] |= bits;
            }
            if flow.transfer == Transfer::Indirect {
                for at in layout.indirect.get(&Pc(i * 16)).into_iter().flatten().filter_map(|&pc| index_of(pc)) {
                    marks[at as usize] |= LEADER | LABEL;
                }
            }
            if flow.ends_block() {
                marks[i as usize + 1] |= LEADER;
                ends.push(i);
            }
        }

        // Every mark is that of a place where a block starts.
        let mut blocks: Vec<Block> = Vec::with_capacity(ends.len());
        let mut functions: Vec<Function> = Vec::new();
        for (i, &mark) in (0..count).zip(&marks).filter(|(_, mark)| **mark != 0) {
            if mark & ENTRY != 0 {
                let block = BlockId::new(blocks.len());
                functions.push(Function { entry: Pc(i * 16), block, exact: true, calls: Vec::new() });
            }
            if let Some(last) = blocks.last_mut() {
                last.end = i;
            }
            blocks.push(Block {
                start: i,
                end: count,
                function: None,
                is_label: mark & LABEL != 0,
                falls_through: true,
                escapes: false,
            });
        }
        let block_of = |i: u32| blocks.partition_point(|block| block.start <= i).checked_sub(1).map(BlockId::new);
        let function_at = |pc: Pc| functions.binary_search_by_key(&pc, |f| f.entry).ok().map(|f| FuncId(f as u32));

        // Edges, by the instruction that ends each block; the edge to the next block comes first.
        let mut edges: Vec<(BlockId, BlockId)> = Vec::new();
        let mut calls: Vec<CallSite> = Vec::new();
        let mut changes: Vec<(usize, bool, bool)> = Vec::new();
        for (b, block) in blocks.iter().enumerate() {
            let own = BlockId::new(b);
            let last = block.end - 1;
            let flow = program.flow(last as usize);
            let mut falls = flow.falls_through();
            let mut escapes = false;
            if falls && block.end == count {
                // Padding is never run into: code ends in an unconditional transfer before it.
                falls = false;
                escapes = true;
            }
            if falls {
                edges.push((own, BlockId::new(b + 1)));
            }
            let mut jump = |target: Pc| match index_of(target).and_then(block_of) {
                Some(to) => edges.push((own, to)),
                None => escapes = true,
            };
            match flow.transfer {
                _ if flow.never() => {}
                Transfer::Branch(target) => jump(target),
                Transfer::Indirect => match layout.indirect.get(&Pc(last * 16)) {
                    Some(targets) if !targets.is_empty() => {
                        let mut targets = targets.clone();
                        targets.sort_unstable();
                        targets.dedup();
                        targets.into_iter().for_each(&mut jump);
                    }
                    _ => escapes = true,
                },
                Transfer::Call(target) => calls.push(CallSite { pc: Pc(last * 16), callee: function_at(target) }),
                Transfer::CallOut => calls.push(CallSite { pc: Pc(last * 16), callee: None }),
                Transfer::Next | Transfer::PushTarget(_) | Transfer::Return | Transfer::ReturnOut | Transfer::Exit => {}
            }
            changes.push((b, falls, escapes));
        }
        for (b, falls, escapes) in changes {
            let block = &mut blocks[b];
            block.falls_through = falls;
            block.escapes = escapes;
        }

        let nblocks = blocks.len();
        let succ = Lists::from_pairs(nblocks, edges.iter().copied());
        let pred = Lists::from_pairs(nblocks, edges.iter().map(|&(from, to)| (to, from)));
        let mut cfg = Cfg {
            blocks,
            functions,
            calls,
            instructions: count,
            padding: u32::try_from(program.padding()).unwrap_or(0).min(count),
            layout: layout.clone(),
            succ,
            pred,
            order: Vec::new(),
        };
        cfg.assign_functions();
        cfg.settle_exactness(&unknown);
        cfg
    }

    /// The block of an instruction.
    pub fn block_at(&self, pc: Pc) -> Option<BlockId> {
        let i = pc.0 / 16;
        if i >= self.instructions {
            return None;
        }
        Some(BlockId(self.blocks.partition_point(|block| block.start <= i).checked_sub(1)? as u32))
    }

    /// The function that reaches an instruction.
    pub fn function_at(&self, pc: Pc) -> Option<FuncId> {
        self.blocks.get(self.block_at(pc)?.0 as usize)?.function
    }

    /// Where control may go after a block; the next block, where it may fall through, comes first.
    pub fn successors(&self, block: BlockId) -> impl DoubleEndedIterator<Item = BlockId> + ExactSizeIterator + '_ {
        self.succ.get(block).iter().copied()
    }

    /// Where control may come from.
    pub fn predecessors(&self, block: BlockId) -> impl DoubleEndedIterator<Item = BlockId> + ExactSizeIterator + '_ {
        self.pred.get(block).iter().copied()
    }

    /// The blocks that some function reaches, in reverse postorder: before its successors, back edges aside.
    pub fn reverse_postorder(&self) -> &[BlockId] {
        &self.order
    }

    /// Whether liveness of this section can be exact: every function of it is.
    pub fn exact(&self) -> bool {
        self.functions.iter().all(|function| function.exact)
    }

    /// The calls of a function.
    pub fn calls_of(&self, function: FuncId) -> impl Iterator<Item = &CallSite> {
        let calls = self.functions.get(function.0 as usize).map_or(&[][..], |f| &f.calls);
        calls.iter().filter_map(|&call| self.calls.get(call as usize))
    }

    pub(super) fn succ_of(&self, block: BlockId) -> &[BlockId] {
        self.succ.get(block)
    }

    /// Its loops.
    pub fn loops(&self) -> Loops {
        Loops::of_graph(self.blocks.len(), &self.entries(), &|block| self.succ_of(block))
    }

    /// Which block every path to a block goes through.
    pub fn dominators(&self) -> Dominators {
        let entries = self.entries();
        Dominators::of_graph(self.blocks.len(), &entries, &|block| self.succ_of(block))
    }

    /// How many of its loops an instruction is in.
    pub fn loop_depth(&self, loops: &Loops, pc: Pc) -> u32 {
        self.block_at(pc).map_or(0, |block| loops.depth(block))
    }

    fn entries(&self) -> Vec<BlockId> {
        self.functions.iter().map(|function| function.block).collect()
    }

    /// Depth-first from every entry: reverse postorder, and each block's function (the first entry that reaches it).
    fn assign_functions(&mut self) {
        let mut post: Vec<BlockId> = Vec::with_capacity(self.blocks.len());
        let mut seen = vec![false; self.blocks.len()];
        let mut stack: Vec<(BlockId, u32)> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        for (f, function) in self.functions.iter().enumerate() {
            let root = function.block;
            starts.push(post.len());
            if std::mem::replace(&mut seen[root.index()], true) {
                continue;
            }
            stack.push((root, 0));
            self.blocks[root.index()].function = Some(FuncId(f as u32));
            while let Some((block, next)) = stack.last_mut() {
                match self.succ.get(*block).get(*next as usize) {
                    Some(&to) => {
                        *next += 1;
                        if !std::mem::replace(&mut seen[to.index()], true) {
                            self.blocks[to.index()].function = Some(FuncId(f as u32));
                            stack.push((to, 0));
                        }
                    }
                    None => {
                        post.push(*block);
                        stack.pop();
                    }
                }
            }
        }
        // Function by function in order, each in its own reverse postorder.
        starts.push(post.len());
        for pair in starts.windows(2) {
            post[pair[0]..pair[1]].reverse();
        }
        self.order = post;
        for (c, call) in self.calls.iter().enumerate() {
            let b = self.blocks.partition_point(|block| block.start <= call.pc.0 / 16) - 1;
            if let Some(function) = self.blocks[b].function {
                self.functions[function.0 as usize].calls.push(c as u32);
            }
        }
    }

    /// Marks functions that reach something not understood, and their callers.
    fn settle_exactness(&mut self, unknown: &[u32]) {
        let mut inexact: Vec<FuncId> = Vec::new();
        let mut mark = |functions: &mut Vec<Function>, f: FuncId| {
            if std::mem::replace(&mut functions[f.index()].exact, false) {
                inexact.push(f);
            }
        };
        for &i in unknown {
            let b = self.blocks.partition_point(|block| block.start <= i) - 1;
            if let Some(f) = self.blocks[b].function {
                mark(&mut self.functions, f);
            }
        }
        // A block of one function that another one reaches too: what holds for one holds for both.
        let mut reach: Vec<(FuncId, FuncId)> = Vec::new();
        for b in 0..self.blocks.len() {
            let Some(f) = self.blocks[b].function else { continue };
            if self.blocks[b].escapes {
                mark(&mut self.functions, f);
            }
            for &to in self.succ.get(BlockId::new(b)) {
                if let Some(other) = self.blocks[to.index()].function
                    && other != f
                {
                    reach.push((other, f));
                }
            }
        }
        for (f, function) in self.functions.iter().enumerate() {
            for &call in &function.calls {
                if let Some(callee) = self.calls[call as usize].callee {
                    reach.push((callee, FuncId::new(f)));
                }
            }
        }
        let dependents = Lists::from_pairs(self.functions.len(), reach.iter().copied());
        let mut work = inexact;
        while let Some(f) = work.pop() {
            for &dependent in dependents.get(f) {
                if std::mem::replace(&mut self.functions[dependent.index()].exact, false) {
                    work.push(dependent);
                }
            }
        }
    }
}
