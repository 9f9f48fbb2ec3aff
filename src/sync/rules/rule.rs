//! The rules, each with its code, what breaking it does, and who is believed where a rule and an execution speak of the same.

use std::fmt;

/// What breaking a rule does to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It hangs, faults, or is refused.
    Fatal,
    /// It misbehaves.
    Other,
}

/// Who tells that a rule is broken, and who is believed where both do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Executing the kernel tells it, and nothing else.
    Executed,
    /// Instructions and the paths between them tell it: no execution does.
    Read,
    /// Both; of one line the surer is told.
    Both,
    /// Both. An execution that is decided is believed, whatever the instructions say.
    ExecutedFirst,
    /// Both. The instructions name what is missing, an execution only where that shows: they are believed.
    ReadFirst,
}

impl Told {
    /// What the page of a rule says of it.
    #[cfg(test)]
    const fn words(self) -> &'static str {
        match self {
            Told::Executed => "Told by executing the kernel's barriers",
            Told::Read => "Told by reading the instructions and the paths between them; nothing is executed for it.",
            Told::Both => "Told by reading the instructions, and by executing the kernel's barriers.",
            Told::ExecutedFirst => {
                "Told by reading the instructions, and by executing the kernel's barriers: where that decides it, it is believed."
            }
            Told::ReadFirst => {
                "Told by reading the instructions, and by executing the kernel's barriers; the instructions are believed"
            }
        }
    }
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `setmaxnreg` and the pool of registers.
    Pool,
    /// Named barriers and what whole warps must come to.
    Named,
    /// Mbarriers.
    Mbarrier,
    /// The cluster barrier.
    Cluster,
    /// Groups of copies and multiplications.
    Groups,
    /// Tensor memory.
    Tensor,
    /// Data in shared memory.
    Data,
    /// Descriptors of multiplications and of matrices.
    Descriptors,
    /// Addresses and sizes.
    Addresses,
    /// Registers and single instructions.
    Registers,
    /// Flags in memory, and scopes.
    Flags,
}

macro_rules! rules {
    ($($family:ident { $($(#[doc = $text:literal])+ $rule:ident $code:literal $harm:ident $told:ident,)+ })+) => {
        /// A rule that a kernel's synchronisation must keep. `docs/codes` has a page for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($($(#[doc = $text])+ $rule,)+)+
        }

        impl Rule {
            /// Every rule, by code.
            #[cfg(test)]
            pub const ALL: &[Rule] = &[$($(Rule::$rule),+),+];

            /// `PI201`
            pub const fn code(self) -> &'static str {
                match self { $($(Rule::$rule => $code,)+)+ }
            }

            /// What breaking it does.
            pub const fn harm(self) -> Harm {
                match self { $($(Rule::$rule => Harm::$harm,)+)+ }
            }

            /// What it is about.
            pub const fn family(self) -> Family {
                match self { $($(Rule::$rule)|+ => Family::$family,)+ }
            }

            /// Who tells that it is broken.
            pub const fn told(self) -> Told {
                match self { $($(Rule::$rule => Told::$told,)+)+ }
            }
        }
    };
}

rules! {
    Pool {
        /// ptxas leaves setmaxnreg as it is.
        SetMaxNRegKept "PI101" Other Read,
        /// The pool has the registers that setmaxnreg.inc asks for.
        PoolSuffices "PI102" Fatal Both,
        /// setmaxnreg.dec asks for no more registers than the warp has, setmaxnreg.inc for no fewer.
        ToFewerOrMore "PI103" Fatal Both,
        /// The warps of a warpgroup meet between one setmaxnreg and the next.
        SetApart "PI104" Fatal Read,
    }
    Named {
        /// A named barrier has an id from 0 to 15 and counts whole warps.
        BarrierOperands "PI201" Fatal Both,
        /// A named barrier has one count.
        OneCount "PI202" Other Read,
        /// As many threads come to a named barrier as it counts to.
        EnoughThreads "PI203" Fatal Executed,
        /// No more threads come to a named barrier than it counts to.
        NoMoreThreads "PI204" Fatal Executed,
        /// Somebody waits at a named barrier that is arrived at.
        BarrierWaitedFor "PI205" Other Read,
        /// Whole warps come to what is aligned.
        WholeWarps "PI206" Fatal Both,
        /// A lane is in the mask that it gives.
        InMask "PI207" Fatal Both,
        /// Every lane of a mask comes.
        LanesOfMask "PI208" Fatal Read,
        /// A shuffle reads lanes that take part.
        ShuffledLane "PI209" Other Read,
        /// Whole warpgroups come to wgmma, and set one number of registers.
        WholeWarpgroups "PI210" Fatal Read,
        /// Nothing hangs on which lane is elected.
        ElectedLane "PI211" Other Read,
        /// A branch that says .uni is taken by all lanes of a warp, or by none.
        BranchUniform "PI212" Other Both,
    }
    Mbarrier {
        /// An mbarrier is initialised.
        Initialised "PI301" Fatal Both,
        /// Somebody arrives at an mbarrier that is waited for.
        ArrivedAt "PI302" Fatal ExecutedFirst,
        /// The bytes of a copy are announced.
        Announced "PI303" Fatal ExecutedFirst,
        /// An mbarrier counts from 1 to 1,048,575.
        MbarrierCount "PI304" Fatal Both,
        /// As many arrive at an mbarrier as it counts to.
        EnoughArrivals "PI305" Fatal Executed,
        /// The bytes announced are those that are copied.
        EqualBytes "PI306" Fatal ExecutedFirst,
        /// A barrier comes between initialising an mbarrier and using it.
        Published "PI307" Fatal Read,
        /// A fence comes between initialising an mbarrier and a relaxed cluster barrier, or a copy.
        InitFenced "PI308" Fatal Read,
        /// A phase is waited for that is not over.
        PhaseToCome "PI309" Fatal Executed,
        /// No more arrive at an mbarrier than it counts to.
        NoMoreArrivals "PI310" Fatal Executed,
        /// A block lives as long as copies into its shared memory.
        OutlivesCopies "PI311" Fatal Executed,
        /// One thread issues a bulk copy.
        CopiedOnce "PI312" Fatal Read,
        /// An mbarrier is initialised once.
        InitialisedOnce "PI313" Fatal Read,
        /// One thread initialises an mbarrier.
        OneInitialises "PI314" Fatal Read,
        /// What try_wait answers decides what is done next.
        AnswerHeeded "PI315" Other Both,
    }
    Cluster {
        /// A wait at the cluster barrier comes after an arrival.
        ClusterArrived "PI401" Fatal ReadFirst,
        /// Between two arrivals at the cluster barrier comes a wait.
        ClusterWaited "PI402" Fatal ReadFirst,
        /// An arrival at the cluster barrier is waited for.
        ClusterWaitedFor "PI403" Other Read,
        /// Every thread comes to the cluster barrier.
        WholeCluster "PI404" Fatal Executed,
    }
    Groups {
        /// wgmma.fence comes before what multiplies registers that were written.
        WgmmaFenced "PI501" Other Read,
        /// Multiplications of wgmma are committed.
        WgmmaCommitted "PI502" Other Read,
        /// Groups of wgmma are waited for.
        WgmmaWaitedFor "PI503" Other Both,
        /// Copies are committed.
        CopiesCommitted "PI504" Other Both,
        /// Groups of copies are waited for.
        CopiesWaitedFor "PI505" Other Both,
        /// The first wgmma does not add to registers that nothing set.
        WgmmaFirst "PI506" Other Read,
        /// Others are told of a store when it has been written.
        StoreWritten "PI507" Other Read,
    }
    Tensor {
        /// A kernel has one cta_group.
        OneCtaGroup "PI601" Fatal Read,
        /// Tensor memory is freed.
        TensorFreed "PI602" Fatal Both,
        /// Columns of tensor memory are a power of two from 32 to 512.
        TensorColumns "PI603" Fatal Read,
        /// There is as much tensor memory as is asked for.
        TensorFits "PI604" Fatal Read,
        /// The permit to allocate tensor memory is given up.
        PermitGivenUp "PI605" Other Read,
        /// One warp allocates and frees tensor memory.
        OneWarpAllocates "PI606" Fatal Read,
        /// One thread issues work of tensor cores.
        IssuedOnce "PI607" Other Both,
        /// Addresses of tensor memory are those that were allocated.
        TensorAddress "PI608" Fatal Read,
        /// Nothing is allocated after the permit was given up.
        PermitHeld "PI609" Fatal Read,
        /// Columns that are used were allocated.
        TensorWithin "PI610" Fatal Both,
        /// A warp reaches its own lanes of tensor memory.
        TensorLanes "PI611" Fatal Both,
        /// Accumulators do not overlap.
        TensorOverlap "PI612" Other Both,
        /// The first multiplication does not add to tensor memory that nothing set.
        TensorFirst "PI613" Other Both,
        /// Registers of tcgen05.ld are used after tcgen05.wait::ld.
        TensorLoadAwaited "PI614" Other Read,
        /// The blocks of a pair meet before they free tensor memory.
        PairMeets "PI615" Fatal Read,
        /// tcgen05.fence::after_thread_sync comes between a wait for multiplications and what reads their results.
        TensorFenced "PI616" Other Read,
        /// A collector buffer that is used was filled.
        CollectorFilled "PI617" Other Read,
    }
    Data {
        /// A barrier comes between two threads that touch the same bytes.
        Ordered "PI701" Other Executed,
        /// Bytes are copied over only when nobody uses them any more.
        FreeToFill "PI702" Other Executed,
        /// A proxy fence comes between what threads write and what the async proxy does with it.
        ProxyFenced "PI703" Other Executed,
        /// What is copied is used when it has come.
        CopyAwaited "PI704" Other Executed,
        /// What is read asynchronously is overwritten when it has been read.
        ReadAwaited "PI705" Other Executed,
        /// A block lives as long as stores that read its shared memory.
        ReadBeforeEnd "PI706" Other Executed,
        /// The shared memory of another block is touched while that block runs.
        PeerRuns "PI707" Fatal Both,
        /// Lanes meet between one that writes and another that reads.
        LanesMeet "PI708" Other Executed,
        /// Tensor memory is used when what is under way there is over.
        TensorOrdered "PI709" Other Executed,
    }
    Descriptors {
        /// The shape in an instruction descriptor is one that there is.
        InstructionShape "PI801" Fatal Read,
        /// The types in an instruction descriptor are those of its kind.
        InstructionTypes "PI802" Fatal Read,
        /// Flags of an instruction descriptor belong to its instruction, and reserved bits are 0.
        InstructionFlags "PI803" Fatal Read,
        /// The fields of a matrix descriptor have values that there are.
        MatrixFields "PI804" Fatal Read,
        /// A matrix descriptor has its address in units of 16 bytes, in 14 bits.
        MatrixStart "PI805" Other Read,
        /// A swizzled matrix starts where its pattern does.
        MatrixAligned "PI806" Other Read,
    }
    Addresses {
        /// Addresses are aligned.
        Aligned "PI811" Fatal Read,
        /// Accesses stay within their variable.
        WithinVariable "PI812" Other Both,
        /// Nothing writes to the memory of an mbarrier.
        MbarrierKept "PI813" Other Both,
        /// An address is of the space that its instruction names.
        OfSpace "PI814" Fatal Read,
        /// Ranks and masks name blocks that the cluster has.
        WithinCluster "PI815" Fatal Both,
        /// A copy reads no more than it copies.
        SourceSize "PI816" Other Both,
        /// The address of local memory stays with its thread.
        LocalKept "PI817" Other Read,
        /// What the kernel writes is read on a way that sees it.
        SeenByRead "PI818" Other Read,
        /// A block has 1,024 threads at most.
        BlockFits "PI819" Fatal Read,
    }
    Registers {
        /// A register is written before it is read.
        RegisterWritten "PI821" Other Read,
        /// An indexed branch has the target that it chooses.
        BranchTarget "PI822" Fatal Read,
        /// Bits that are taken are there.
        BitsThere "PI823" Other Read,
        /// A carry comes from the instruction before.
        CarryKept "PI824" Other Read,
        /// Calls and the stack are as the ABI has them.
        AsTheAbi "PI825" Other Read,
        /// An offset in an address fits into 32 bits.
        OffsetFits "PI826" Other Read,
        /// A directive does what it says.
        DirectiveHeeded "PI827" Other Read,
    }
    Flags {
        /// A flag that is waited for is read by a strong load.
        FlagStrong "PI831" Fatal Read,
        /// The scope of a flag, or of an arrival, has both sides in it.
        ScopeReaches "PI832" Other Both,
        /// A tensor map that the kernel changes is acquired before it is used.
        MapAcquired "PI833" Other Read,
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/faults.md between its marks: a row for each rule under its family, then what ptxas says.
    fn table_of_faults() -> String {
        let families = [
            (Family::Pool, "setmaxnreg and the register pool"),
            (Family::Named, "Named barriers, and what whole warps must come to"),
            (Family::Mbarrier, "mbarriers"),
            (Family::Cluster, "The cluster barrier"),
            (Family::Groups, "Groups of copies and multiplications"),
            (Family::Tensor, "Tensor memory"),
            (Family::Data, "Data in shared and tensor memory"),
            (Family::Descriptors, "Descriptors"),
            (Family::Addresses, "Addresses and sizes"),
            (Family::Registers, "Registers and single instructions"),
            (Family::Flags, "Flags and scopes"),
        ];
        let is_there = |rule: &Rule| families.iter().any(|(family, _)| *family == rule.family());
        assert!(Rule::ALL.iter().all(is_there), "a family is not in the table");
        let title = |code: &str| {
            let page = crate::base::codes::page(code).unwrap_or_else(|| panic!("{code} has no page"));
            let title = page.lines().next().and_then(|line| line.split_once(": "));
            title.unwrap_or_else(|| panic!("{code} has no title")).1.to_owned()
        };
        let mut text = String::new();
        for (family, name) in families {
            text += &format!("\n## {name}\n\n| code | fault | the kernel | found by |\n|---|---|---|---|\n");
            for rule in Rule::ALL.iter().filter(|rule| rule.family() == family) {
                let code = rule.code();
                let harm = match rule.harm() {
                    Harm::Fatal => "breaks",
                    Harm::Other => "misbehaves",
                };
                let told = match rule.told() {
                    Told::Executed => "executing",
                    Told::Read => "reading",
                    Told::Both => "both",
                    Told::ExecutedFirst => "both; executing decides",
                    Told::ReadFirst => "both; reading decides",
                };
                text += &format!("| [{code}](codes/{code}.md) | {} | {harm} | {told} |\n", title(code));
            }
        }
        text += "\n## What ptxas says\n\n| code | what it means |\n|---|---|\n";
        for code in crate::base::codes::codes().filter(|code| code.starts_with('C')) {
            text += &format!("| [{code}](codes/{code}.md) | {} |\n", title(code));
        }
        text
    }

    #[test]
    fn the_table_of_faults_is_current() {
        const MARK: &str = "<!-- what follows is made by PTXINSPECT_BLESS=1 cargo test --lib table_of_faults -->\n";
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults.md");
        let page = std::fs::read_to_string(&file).unwrap();
        let (before, found) = page.split_once(MARK).expect("the mark before the table");
        let table = table_of_faults();
        if std::env::var_os("PTXINSPECT_BLESS").is_some() {
            std::fs::write(file, format!("{before}{MARK}{table}")).unwrap();
        } else {
            assert_eq!(found, table, "docs/faults.md is not what the rules say");
        }
    }

    #[test]
    fn every_rule_has_a_page_that_says_who_tells_it() {
        let codes: Vec<&str> = Rule::ALL.iter().map(|rule| rule.code()).collect();
        assert!(codes.is_sorted_by(|one, other| one < other), "{codes:?}");
        for rule in Rule::ALL {
            let page = crate::base::codes::page(rule.code()).unwrap_or_else(|| panic!("{rule} has no page"));
            let page = page.split_whitespace().collect::<Vec<&str>>().join(" ");
            assert!(page.contains(rule.told().words()), "the page of {rule} does not say: {}", rule.told().words());
        }
    }
}
