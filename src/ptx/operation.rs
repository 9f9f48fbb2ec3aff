//! What an instruction does, as far as the analyses ask: barriers, asynchronous copies, tensor cores, control flow.
//!
//! Only opcode, modifiers and operands are looked at; an opcode that is not listed is [`Operation::Other`].

use super::instruction::Instruction;
use super::operand::{Operand, Shape};

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// `setmaxnreg.inc.sync.aligned.u32 232;`
    SetMaxNReg {
        /// More or fewer.
        action: RegisterAction,
        /// Registers asked for; none if it is no constant.
        count: Option<u32>,
    },
    /// `bar.sync 1, 256;`, `barrier.cta.red.popc.aligned.u32 …`
    NamedBarrier(NamedBarrier<'a>),
    /// `bar.warp.sync mask;`
    WarpBarrier {
        /// The lanes that take part.
        mask: Option<Operand<'a>>,
    },
    /// `barrier.cluster.arrive.release.aligned;`
    ClusterBarrier {
        /// Arrive or wait.
        action: ClusterBarrierAction,
        /// Whether all threads of the warp must run it together.
        aligned: bool,
    },
    /// `mbarrier.*`
    Mbarrier(Mbarrier<'a>),
    /// `fence.*`, `membar.*`
    Fence {
        /// `proxy.async`, `mbarrier_init` and the like: the modifiers say it all, see [`Instruction::modifiers`].
        proxy: bool,
    },
    /// `wgmma.*`
    Wgmma(Wgmma),
    /// `tcgen05.*`
    Tcgen05 {
        /// Which.
        action: Tcgen05,
        /// 1 or 2 of `.cta_group::N`; none where the instruction has none.
        cta_group: Option<u32>,
    },
    /// `cp.async.*` but not bulk.
    CpAsync(CpAsync),
    /// `cp.async.bulk.*`, `cp.reduce.async.bulk.*`
    Bulk(Bulk),
    /// `elect.sync d|p, mask;`
    Elect,
    /// `mapa.*`: address of the same place in another block of the cluster.
    Mapa,
    /// `getctarank.*`
    GetCtaRank,
    /// `clusterlaunchcontrol.*`
    ClusterLaunchControl,
    /// `griddepcontrol.launch_dependents;` or `griddepcontrol.wait;`
    GridDepControl {
        /// Whether it waits.
        wait: bool,
    },
    /// `bra L;`
    Branch {
        /// The label.
        target: Option<&'a str>,
        /// `.uni`: all threads go the same way.
        uniform: bool,
    },
    /// `brx.idx %r1, table;`
    IndexedBranch {
        /// The index.
        index: Option<Operand<'a>>,
        /// Label of its `.branchtargets`.
        table: Option<&'a str>,
    },
    /// `call`, direct or indirect, see [`Instruction::call`].
    Call,
    /// `ret;`
    Return,
    /// `exit;`
    Exit,
    /// `trap;`
    Trap,
    /// Anything else.
    Other,
}

/// Direction of `setmaxnreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterAction {
    /// `.inc`: takes registers from the pool.
    Inc,
    /// `.dec`: gives registers to the pool.
    Dec,
}

/// What a thread does at a named barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierAction {
    /// Arrives and waits.
    Sync,
    /// Arrives only.
    Arrive,
    /// Arrives, waits and reduces a predicate.
    Red,
}

/// An instruction on one of the sixteen barriers of a block.
#[derive(Clone, Copy, Debug)]
pub struct NamedBarrier<'a> {
    /// What the thread does.
    pub action: BarrierAction,
    /// `bar.*` always is, `barrier.*` only with `.aligned`.
    pub aligned: bool,
    /// Which barrier: a constant or a register.
    pub id: Option<Operand<'a>>,
    /// How many threads take part; none means all of the block.
    pub threads: Option<Operand<'a>>,
}

/// Half of a cluster barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterBarrierAction {
    /// `.arrive`
    Arrive,
    /// `.wait`
    Wait,
}

/// What is done to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MbarrierAction {
    /// `mbarrier.init`
    Init,
    /// `mbarrier.inval`
    Inval,
    /// `mbarrier.expect_tx`
    ExpectTx,
    /// `mbarrier.complete_tx`
    CompleteTx,
    /// `mbarrier.arrive`, without a change of the expected bytes
    Arrive,
    /// `mbarrier.arrive.expect_tx`
    ArriveExpectTx,
    /// `mbarrier.arrive_drop`, with or without `.expect_tx`
    ArriveDrop,
    /// `mbarrier.test_wait`
    TestWait,
    /// `mbarrier.try_wait`
    TryWait,
    /// `mbarrier.pending_count`
    PendingCount,
    /// One that is newer than this program.
    Other,
}

/// An `mbarrier` instruction.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier<'a> {
    /// What is done.
    pub action: MbarrierAction,
    /// Where the barrier is; none for `pending_count`.
    pub address: Option<Operand<'a>>,
    /// What follows the address: count, bytes, state or parity.
    pub argument: Option<Operand<'a>>,
    /// `.parity` of the waits.
    pub parity: bool,
}

/// A `wgmma` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wgmma {
    /// `wgmma.fence`
    Fence,
    /// `wgmma.mma_async`, `.sp` included
    MmaAsync,
    /// `wgmma.commit_group`
    CommitGroup,
    /// `wgmma.wait_group N`
    WaitGroup(Option<u32>),
    /// One that is newer than this program.
    Other,
}

/// A `tcgen05` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tcgen05 {
    /// `tcgen05.alloc`
    Alloc,
    /// `tcgen05.dealloc`
    Dealloc,
    /// `tcgen05.relinquish_alloc_permit`
    Relinquish,
    /// `tcgen05.mma`, `.sp` and `.ws` included
    Mma,
    /// `tcgen05.commit`
    Commit,
    /// `tcgen05.wait::ld`, `tcgen05.wait::st`
    Wait,
    /// `tcgen05.ld`
    Ld,
    /// `tcgen05.st`
    St,
    /// `tcgen05.cp`
    Cp,
    /// `tcgen05.shift`
    Shift,
    /// `tcgen05.fence::before_thread_sync`, `tcgen05.fence::after_thread_sync`
    Fence,
    /// One that is newer than this program.
    Other,
}

/// A `cp.async` instruction that is not bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpAsync {
    /// `cp.async.ca.shared.global [d], [s], 16;`
    Copy,
    /// `cp.async.commit_group`
    CommitGroup,
    /// `cp.async.wait_group N`
    WaitGroup(Option<u32>),
    /// `cp.async.wait_all`
    WaitAll,
    /// `cp.async.mbarrier.arrive`
    MbarrierArrive,
}

/// A `cp.async.bulk` or `cp.reduce.async.bulk` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// A copy: `tensor` is TMA proper.
    Copy {
        /// `.tensor`
        tensor: bool,
    },
    /// `cp.reduce.async.bulk`
    Reduce {
        /// `.tensor`
        tensor: bool,
    },
    /// `cp.async.bulk.prefetch`
    Prefetch {
        /// `.tensor`
        tensor: bool,
    },
    /// `cp.async.bulk.commit_group`
    CommitGroup,
    /// `cp.async.bulk.wait_group{.read} N`
    WaitGroup {
        /// Groups that may still be on their way.
        pending: Option<u32>,
        /// `.read`: waits for the sources only.
        read: bool,
    },
}

/// A `call`.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The function, or the register that holds its address.
    pub callee: Option<&'a str>,
    /// `(retval0)`
    pub returns: Option<Operand<'a>>,
    /// `(param0, param1)`
    pub arguments: Option<Operand<'a>>,
    /// The `.callprototype` or `.calltargets` label of an indirect call.
    pub table: Option<&'a str>,
    /// `.uni`
    pub uniform: bool,
}

impl<'a> Instruction<'a> {
    /// What it does.
    pub fn operation(&self) -> Operation<'a> {
        let first = || self.modifiers().next().unwrap_or("");
        match self.mnemonic() {
            "setmaxnreg" => {
                let action = if self.has("dec") { RegisterAction::Dec } else { RegisterAction::Inc };
                Operation::SetMaxNReg { action, count: self.number(0) }
            }
            "bar" | "barrier" => self.barrier(),
            "mbarrier" => Operation::Mbarrier(self.mbarrier()),
            "fence" | "membar" => Operation::Fence { proxy: self.modifiers().any(|word| word.starts_with("proxy")) },
            "wgmma" => Operation::Wgmma(match first() {
                "fence" => Wgmma::Fence,
                "mma_async" => Wgmma::MmaAsync,
                "commit_group" => Wgmma::CommitGroup,
                "wait_group" => Wgmma::WaitGroup(self.number(0)),
                _ => Wgmma::Other,
            }),
            "tcgen05" => Operation::Tcgen05 {
                action: tcgen05(first()),
                cta_group: self
                    .modifiers()
                    .find_map(|word| word.strip_prefix("cta_group::"))
                    .and_then(|number| number.parse().ok()),
            },
            "cp" => self.copy(),
            "elect" => Operation::Elect,
            "mapa" => Operation::Mapa,
            "getctarank" => Operation::GetCtaRank,
            "clusterlaunchcontrol" => Operation::ClusterLaunchControl,
            "griddepcontrol" => Operation::GridDepControl { wait: first() == "wait" },
            "bra" => Operation::Branch {
                target: self.operand(0).and_then(|operand| operand.name()),
                uniform: self.has("uni"),
            },
            "brx" => Operation::IndexedBranch {
                index: self.operand(0),
                table: self.operand(1).and_then(|operand| operand.name()),
            },
            "call" => Operation::Call,
            "ret" => Operation::Return,
            "exit" => Operation::Exit,
            "trap" => Operation::Trap,
            _ => Operation::Other,
        }
    }

    fn number(&self, operand: usize) -> Option<u32> {
        u32::try_from(self.operand(operand)?.value()?).ok()
    }

    fn barrier(&self) -> Operation<'a> {
        let mut modifiers = self.modifiers().peekable();
        let bar = self.mnemonic() == "bar";
        let aligned = bar || self.has("aligned");
        modifiers.next_if(|&word| word == "cta");
        let action = match modifiers.next() {
            Some("warp") => return Operation::WarpBarrier { mask: self.operand(0) },
            Some("cluster") => {
                let wait = modifiers.next() == Some("wait");
                let action = if wait { ClusterBarrierAction::Wait } else { ClusterBarrierAction::Arrive };
                return Operation::ClusterBarrier { action, aligned };
            }
            Some("sync") => BarrierAction::Sync,
            Some("arrive") => BarrierAction::Arrive,
            Some("red") => BarrierAction::Red,
            _ => return Operation::Other,
        };
        let (id, threads) = match action {
            // bar.red.popc.u32 d, a{, b}, {!}c;
            BarrierAction::Red => {
                let four = self.operand(3).is_some();
                (self.operand(1), if four { self.operand(2) } else { None })
            }
            _ => (self.operand(0), self.operand(1)),
        };
        Operation::NamedBarrier(NamedBarrier { action, aligned, id, threads })
    }

    fn mbarrier(&self) -> Mbarrier<'a> {
        let mut modifiers = self.modifiers();
        let action = match modifiers.next().unwrap_or("") {
            "init" => MbarrierAction::Init,
            "inval" => MbarrierAction::Inval,
            "expect_tx" => MbarrierAction::ExpectTx,
            "complete_tx" => MbarrierAction::CompleteTx,
            "arrive" if self.has("expect_tx") => MbarrierAction::ArriveExpectTx,
            "arrive" => MbarrierAction::Arrive,
            "arrive_drop" => MbarrierAction::ArriveDrop,
            "test_wait" => MbarrierAction::TestWait,
            "try_wait" => MbarrierAction::TryWait,
            "pending_count" => MbarrierAction::PendingCount,
            _ => MbarrierAction::Other,
        };
        let mut operands = self.operands();
        let address = operands.find(|operand| matches!(operand.shape(), Shape::Address(_)));
        Mbarrier { action, address, argument: operands.next(), parity: self.has("parity") }
    }

    fn copy(&self) -> Operation<'a> {
        let bulk = self.has("bulk");
        let (tensor, reduce) = (self.has("tensor"), self.has("reduce"));
        if !bulk {
            if !self.has("async") {
                return Operation::Other;
            }
            return Operation::CpAsync(match self.modifiers().nth(1).unwrap_or("") {
                "commit_group" => CpAsync::CommitGroup,
                "wait_group" => CpAsync::WaitGroup(self.number(0)),
                "wait_all" => CpAsync::WaitAll,
                "mbarrier" => CpAsync::MbarrierArrive,
                _ => CpAsync::Copy,
            });
        }
        Operation::Bulk(match self.modifiers().nth(2).unwrap_or("") {
            _ if reduce => Bulk::Reduce { tensor },
            "commit_group" => Bulk::CommitGroup,
            "wait_group" => Bulk::WaitGroup { pending: self.number(0), read: self.has("read") },
            "prefetch" => Bulk::Prefetch { tensor },
            _ => Bulk::Copy { tensor },
        })
    }

    /// What a `call` calls, and with what: `call{.uni} (ret), f, (args), table;`, in which everything but `f` may be missing.
    pub fn call(&self) -> Call<'a> {
        let mut call = Call { callee: None, returns: None, arguments: None, table: None, uniform: self.has("uni") };
        for operand in self.operands() {
            match operand.shape() {
                Shape::List(_) if call.callee.is_none() => call.returns = Some(operand),
                Shape::List(_) => call.arguments = Some(operand),
                _ if call.callee.is_none() => call.callee = operand.name(),
                _ => call.table = operand.name(),
            }
        }
        call
    }
}

fn tcgen05(word: &str) -> Tcgen05 {
    // `.wait::ld` and `.fence::before_thread_sync` are one word.
    match word.split("::").next().unwrap_or(word) {
        "alloc" => Tcgen05::Alloc,
        "dealloc" => Tcgen05::Dealloc,
        "relinquish_alloc_permit" => Tcgen05::Relinquish,
        "mma" => Tcgen05::Mma,
        "commit" => Tcgen05::Commit,
        "wait" => Tcgen05::Wait,
        "ld" => Tcgen05::Ld,
        "st" => Tcgen05::St,
        "cp" => Tcgen05::Cp,
        "shift" => Tcgen05::Shift,
        "fence" => Tcgen05::Fence,
        _ => Tcgen05::Other,
    }
}
