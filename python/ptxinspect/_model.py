"""The report's values. Made by scripts/python-model from docs/schema/report-v1.schema.json: do not edit."""

from typing import List, Literal, Optional

from ._view import View


class Unit(View):
    """One input compiled or read for one architecture."""

    input: str
    arch: Optional[str]
    ptxas: Optional["PtxasUsed"]
    #: What was changed on a copy of the input so that ptxas would read it.
    prepared: List[str]
    cubin: Optional["CubinFacts"]
    #: How the launcher of a compiler's cache starts its kernels, from the file beside the input; absent where none
    #: says.
    recorded_launch: Optional["RecordedLaunch"]
    advisories: List["Advisory"]
    #: Lines of ptxas's log that were not understood.
    unparsed_log: List["LogLine"]
    #: What our own readers did not understand.
    problems: List["Problem"]
    error: Optional["UnitError"]
    kernels: List["Kernel"]


class RecordedLaunch(View):
    """How the launcher of a compiler's cache starts its kernels, from the file beside the input; absent where none says."""

    file: str
    threads: int
    smem_dynamic_bytes: int


class LogLine(View):
    """LogLine."""

    line: int
    text: str


class Problem(View):
    """Problem."""

    stage: Literal["ptx", "cubin", "lines", "sass", "join", "analysis"]
    ptx_line: Optional[int]
    message: str


class PtxasUsed(View):
    """The ptxas that ran; null for a cubin."""

    version: Optional[str]
    path_kind: str
    reason: str
    #: The file that ran; null for a managed one, which its version names.
    path: Optional[str]
    flags: List[str]


class CubinFacts(View):
    """CubinFacts."""

    abi: Literal[7, 8]
    relocatable: bool
    made_by: Optional[str]
    made_with: Optional[str]


class Advisory(View):
    """Advisory."""

    code: Optional[str]
    severity: Literal["info", "warning", "error"]
    kernel: Optional[str]
    ptx_line: Optional[int]
    #: Where ptx_line is null: the first line of the function with an instruction of the kind that the message speaks
    #: of.
    first_ptx_line: Optional[int]
    source_line: Optional["SourceLine"]
    message: str


class SourceLine(View):
    """SourceLine."""

    file: str
    line: int
    called_at: Optional["CallSite"]


class CallSite(View):
    """CallSite."""

    file: str
    line: int


class UnitError(View):
    """Why there is no result."""

    stage: Literal["input", "toolchain", "ptxas", "cubin", "timeout"]
    message: str
    diagnostics: List["Diagnostic"]


class Diagnostic(View):
    """Diagnostic."""

    severity: Literal["info", "warning", "error"]
    code: Optional[str]
    ptx_line: Optional[int]
    source: Optional["SourceLine"]
    text: Optional[str]
    message: str


class Kernel(View):
    """Kernel."""

    name: str
    demangled: Optional[str]
    kind: Literal["entry", "func"]
    #: The kernel whose section a device function lives in.
    within: Optional[str]
    ptx_line: Optional[int]
    resources: "Resources"
    launch: "Launch"
    register_cap: Optional["RegisterCap"]
    #: decoded + unknown + padding = total.
    instructions: "Instructions"
    pressure: Optional["Pressure"]
    live_at_peak: Optional[List["LiveValue"]]
    lines: List["LineFacts"]
    #: Every line of the front end's source that became SASS, what is inlined where the kernel calls it; absent where
    #: the cubin has no such lines.
    source_lines: List["SourceFacts"]
    #: Where one source line became more than half of the function by what is inlined there: the lines of that; absent
    #: otherwise.
    inlined_lines: Optional["InlinedLines"]
    unmapped_pcs: List[int]
    spills: Optional[List["Spill"]]
    roles: Optional[List["Role"]]
    #: setmaxnreg asked for against done; null without any.
    setmaxnreg: Optional["SetMaxNReg"]
    #: Barriers of all kinds; null without PTX.
    barriers: Optional["Barriers"]
    #: Maps of shared and tensor memory, groups under way, copies and fences; null without PTX, and where there is none
    #: of them.
    memory: Optional["MemoryMaps"]
    occupancy: Optional["KernelOccupancy"]
    parameters: List["Parameter"]
    attributes: List["Attribute"]
    #: What is alive at the lines asked for with --at.
    live_at: List["LiveAt"]
    loops: Optional[List["Loop"]]
    #: What its hottest loops cost, or those that were asked for; absent where nobody measured the architecture, or
    #: nobody asked.
    costs: List["LoopCost"]
    #: The .local variables of its PTX.
    local_variables: List["LocalVariable"]
    #: What wgmma and tcgen05.mma multiply, by line; absent where there is none.
    multiplications: List["Multiplication"]
    #: Which elements registers hold at the lines asked for with --at; absent where there is nothing to tell.
    fragments_at: List["FragmentsAt"]
    #: What its accesses of memory take; absent without PTX, and where it has none.
    accesses: Optional["AccessFacts"]


class Launch(View):
    """Launch."""

    reqntid: Optional[List[int]]
    maxntid: Optional[List[int]]
    minnctapersm: Optional[int]
    maxnreg: Optional[int]
    cluster: Optional[List[int]]
    max_cluster_rank: Optional[int]


class RegisterCap(View):
    """RegisterCap."""

    registers: int
    cause: Literal["maxnreg", "launch_bounds", "block_size", "maxrregcount", "isa"]
    explanation: str


class Instructions(View):
    """decoded + unknown + padding = total."""

    total: Optional[int]
    decoded: Optional[int]
    unknown: Optional[int]
    padding: Optional[int]
    with_ptx_line: Optional[int]
    with_source_line: Optional[int]


class Pressure(View):
    """Pressure."""

    exact: bool
    gpr: "Peak"
    pred: "Peak"
    ugpr: "Peak"
    upred: "Peak"
    profile: List[int]
    #: The highest vector register that an instruction names.
    highest_register: Optional[int]
    #: Why more registers are allocated than are ever live.
    gap: List[str]


class LineFacts(View):
    """LineFacts."""

    ptx_line: int
    pcs: List[int]
    padding: int
    live_gpr_max: Optional[int]
    spill_stores: Optional[int]
    spill_loads: Optional[int]


class InlinedLines(View):
    """Where one source line became more than half of the function by what is inlined there: the lines of that; absent otherwise."""

    #: The call, or the innermost of several in a row, by which most instructions come.
    called_at: "CallSite"
    #: The lines there, what they inline in turn where they call it.
    lines: List["SourceFacts"]


class Spill(View):
    """Spill."""

    pc: int
    kind: Optional[Literal["store", "refill"]]
    bytes: Optional[int]
    ptx_line: Optional[int]
    loop_depth: Optional[int]
    role: Optional[str]
    #: Offset from the stack pointer.
    slot: Optional[int]
    value_ptx_line: Optional[int]
    basis: Literal["marked", "inferred"]


class Role(View):
    """Warps of a block that do the same."""

    name: str
    entry_ptx_line: Optional[int]
    #: Registers that it has where it does what it is named for.
    budget: Optional[int]
    #: Every count that its setmaxnreg ask for, ascending.
    budgets: List[int]
    peak_gpr: Optional[int]
    peak_ptx_line: Optional[int]
    headroom: Optional[int]
    spills: Optional[int]
    instructions: Optional[int]
    warps: Optional[int]
    #: Which warps: 0-3, 8.
    warp_ids: Optional[str]
    #: Named barriers that it uses.
    barriers: List[int]
    does: List[Literal["tma load", "cp.async", "wgmma", "mma", "tcgen05.mma", "tcgen05.ld", "tcgen05.st", "tma store", "clusterlaunchcontrol"]]
    #: What only some of its warps do.
    parts: List["RolePart"]


class RolePart(View):
    """RolePart."""

    #: One of does.
    does: str
    #: Which warps: 4.
    warp_ids: str


class SetMaxNReg(View):
    """setmaxnreg asked for against done; null without any."""

    requested: List["SetMaxNRegRequested"]
    emitted: List["SetMaxNRegEmitted"]
    #: Whether the cubin records a change of registers.
    recorded: bool
    honoured: Optional[bool]
    code: Optional[str]
    reason: Optional[str]
    fix: Optional[str]
    #: The registers of a block against what its roles ask for, in registers of a thread times warps.
    pool: Optional["RegisterPool"]


class SetMaxNRegRequested(View):
    """SetMaxNRegRequested."""

    ptx_line: int
    action: Literal["inc", "dec"]
    count: Optional[int]
    illegal: Optional[str]


class SetMaxNRegEmitted(View):
    """SetMaxNRegEmitted."""

    pc: int
    ptx_line: Optional[int]
    action: Literal["inc", "dec"]
    count: Optional[int]


class RegisterPool(View):
    """The registers of a block against what its roles ask for, in registers of a thread times warps."""

    available: Optional[int]
    required: Optional[int]
    verdict: Literal["exact", "unused", "never", "unknown"]
    explanation: str
    #: What must hold for the verdict.
    condition: Optional[str]
    #: The setmaxnreg at which a role waits for ever, where the order decides.
    stuck_ptx_line: Optional[int]
    #: Budgets that fit.
    rebalance: List["RoleBudget"]


class RoleBudget(View):
    """RoleBudget."""

    role: str
    registers: int


class Barriers(View):
    """Barriers of all kinds; null without PTX."""

    #: Named barriers that the cubin declares: the highest id and one.
    declared: Optional[int]
    named: List["NamedBarrier"]
    #: Sites whose id the code does not tell.
    unresolved: List["NamedBarrierSite"]
    #: Ids that are not used; null when some id is not known.
    free_ids: Optional[List[int]]
    #: Barrier instructions that no barrier of the PTX stands for.
    inserted: List["InsertedBarrier"]
    mbarriers: "MBarriers"
    cluster: List["ClusterSite"]
    asynchronous: List["AsyncSite"]
    #: What executing the barriers says; null where nothing synchronises, and where the size of a block is not known,
    #: but for what is wrong with every size.
    execution: Optional["Execution"]
    issues: List["Finding"]


class NamedBarrier(View):
    """NamedBarrier."""

    id: int
    sites: List["NamedBarrierSite"]


class InsertedBarrier(View):
    """InsertedBarrier."""

    pc: int
    ptx_line: Optional[int]
    text: str


class MBarriers(View):
    """MBarriers."""

    declared: Optional[int]
    sites: List["MBarrierSite"]


class MBarrierSite(View):
    """MBarrierSite."""

    ptx_line: int
    action: Literal["init", "arrive", "arrive.expect_tx", "expect_tx", "complete_tx", "async arrive", "wait", "inval", "other"]
    #: full+8; full+64[?] for an element of an array, full+? for a place that is not known.
    object: Optional[str]
    #: Count, bytes or parity, where constant.
    argument: Optional[int]
    reached_by: Optional[int]
    pcs: List[int]


class ClusterSite(View):
    """ClusterSite."""

    ptx_line: int
    action: Literal["arrive", "wait"]
    aligned: bool


class AsyncSite(View):
    """AsyncSite."""

    ptx_line: int
    action: str
    cta_group: Optional[int]
    #: Groups that may stay in flight, or columns of tensor memory.
    argument: Optional[int]
    #: Threads that may run it.
    reached_by: Optional[int]


class Execution(View):
    """What executing the barriers says; null where nothing synchronises, and where the size of a block is not known, but for what is wrong with every size."""

    #: It ends in every order of the warps that was tried, hangs in every one, hangs in one, does what the ISA leaves
    #: undefined, or cannot be told.
    verdict: Literal["ends", "hangs", "may_hang", "undefined", "undecided"]
    #: The line that decides; null where none does.
    ptx_line: Optional[int]
    #: Why it is undecided, or what was left untried; null otherwise.
    reason: Optional[str]
    #: Where everybody stands when nobody can go on; empty where it does not come to that.
    witness: List["Stands"]
    #: A change with which a kernel that goes wrong ends, whatever was tried; null where none was found.
    mend: Optional["Mend"]


class Finding(View):
    """Finding."""

    code: str
    severity: Literal["info", "warning", "error"]
    confidence: Literal["possible", "likely", "certain"]
    ptx_line: Optional[int]
    source_line: Optional["SourceLine"]
    message: str
    reasoning: str
    #: Of a finding that execution made: where everybody stands when nobody can go on, the one that it is about first.
    witness: List["Stands"]
    #: Of one that execution made: a change that mends the kernel; null where none was found.
    mend: Optional["Mend"]


class MemoryMaps(View):
    """Maps of shared and tensor memory, groups under way, copies and fences; null without PTX, and where there is none of them."""

    #: Shared memory; null where nothing touches it.
    shared: Optional["SharedMap"]
    #: Tensor memory; null where nothing allocates or touches it.
    tensor: Optional["TensorMap"]
    #: Groups of asynchronous work under way, by kind.
    groups: List["GroupsInFlight"]
    #: Bulk and tensor copies, in the order of the text.
    copies: List["CopySite"]
    #: Fences, in the order of the text.
    fences: List["FenceSite"]


class SharedMap(View):
    """Shared memory; null where nothing touches it."""

    #: Bytes of the variables whose size the PTX has.
    static_bytes: int
    #: Dynamic shared memory that a launch must have at least, for the places that constants give; null where there is
    #: none, or no such place.
    dynamic_least_bytes: Optional[int]
    #: The line that touches the last of these bytes.
    dynamic_least_ptx_line: Optional[int]
    #: Regions by their place. They overlap where bytes are used for two things in turn.
    regions: List["SharedRegion"]
    #: Bytes of static variables that nothing touches; null where an access has no known place, or may have others in
    #: another launch.
    untouched: Optional[List["Untouched"]]
    #: Accesses whose place the launch or memory decides.
    unknown: List["UnknownAccess"]


class SharedRegion(View):
    """SharedRegion."""

    kind: Literal["ring", "buffer", "mbarriers"]
    #: The variable that it lies in; null where an address is a number.
    variable: Optional[str]
    #: Whether the launch decides how large the variable is.
    dynamic: bool
    #: Bytes from the start of the variable.
    offset: int
    #: Its bytes, of all stages together; null where only its start is known.
    bytes: Optional[int]
    #: Whether `bytes` is what is touched, and not the room up to the next region.
    exact: bool
    #: Stages of a ring, mbarriers; 1 for a buffer.
    count: int
    #: Whether that is all of them: the execution came back to the first.
    complete: bool
    #: Bytes from one stage to the next; null for what is no ring.
    stride_bytes: Optional[int]
    uses: List["RegionUse"]


class Untouched(View):
    """Untouched."""

    variable: str
    offset: int
    bytes: int


class TensorMap(View):
    """Tensor memory; null where nothing allocates or touches it."""

    #: Columns that a block holds at once, at least; null where no allocation has a constant size.
    allocated: Optional[int]
    allocations: List["TensorAllocation"]
    #: Columns up to the last that is known to be used.
    used: Optional[int]
    #: Whether no launch uses more.
    complete: bool
    regions: List["TensorRegion"]
    #: Accesses whose place the launch or memory decides.
    unknown: List["UnknownAccess"]


class TensorAllocation(View):
    """TensorAllocation."""

    ptx_line: int
    columns: Optional[int]


class TensorRegion(View):
    """TensorRegion."""

    column: int
    #: How many; null where only the first is known.
    columns: Optional[int]
    uses: List["RegionUse"]


class GroupsInFlight(View):
    """GroupsInFlight."""

    kind: Literal["cp.async", "cp.async.bulk", "wgmma"]
    #: The most groups under way at any line; null where nothing bounds them.
    most: Optional[int]
    lines: List["GroupsAt"]


class GroupsAt(View):
    """GroupsAt."""

    ptx_line: int
    #: Committed groups that may not be over after the line: the fewest over all paths.
    least: int
    #: The most; null where a loop commits and nothing bounds it.
    most: Optional[int]
    #: Whether work may be under way that belongs to no group yet.
    open: bool


class CopySite(View):
    """CopySite."""

    ptx_line: int
    role: Optional[str]
    #: Dimensions of a tensor copy; null for a plain one.
    tensor: Optional[int]
    #: Whether it goes into shared memory.
    to_shared: bool
    #: Whether it goes to several blocks of the cluster.
    multicast: bool
    cta_group: Optional[int]
    #: Bytes; null where the tensor map has them and nothing else tells.
    bytes: Optional[int]
    #: Bytes that all copies of a phase of its mbarrier bring together, as announced; null where that is not known.
    stage_bytes: Optional[int]


class FenceSite(View):
    """FenceSite."""

    ptx_line: int
    kind: Literal["proxy_async", "proxy_tensormap", "proxy", "mbarrier_init", "threads", "wgmma", "tcgen05_before", "tcgen05_after"]


class KernelOccupancy(View):
    """KernelOccupancy."""

    threads: Optional[int]
    blocks_per_sm: Optional[int]
    warps_per_sm: Optional[int]
    max_warps_per_sm: int
    #: What stops one more block: the first of limiters.
    limiter: Optional[str]
    #: Everything that stops one more block.
    limiters: List[str]
    next_step: Optional["OccupancyStep"]
    cliff: Optional["OccupancyStep"]
    #: Dynamic shared memory of a block that was counted; null where the kernel takes some and nothing says how much.
    smem_dynamic_bytes: Optional[int]
    #: Dynamic shared memory that every launch must have, for constants in the PTX touch it; null where that is not
    #: known, or `smem_dynamic_bytes` is. Blocks were counted with it.
    smem_dynamic_least_bytes: Optional[int]
    #: Columns of tensor memory that a block holds at once; null where it allocates none, or how many is not known.
    tmem_columns: Optional[int]
    #: What only the launch knows, and nobody said; what depends on it is null.
    missing: List[Literal["threads", "smem_dynamic"]]
    #: Where only dynamic shared memory is missing: the blocks that each size of it leaves, the most blocks first.
    by_smem_dynamic: List["SmemRange"]
    #: What ptxas made of the kernel when it was held to the registers of next_step; null where it was not asked
    #: (--try-step).
    next_step_tried: Optional["StepTried"]


class SmemRange(View):
    """SmemRange."""

    #: The most bytes with this many blocks.
    smem_dynamic_bytes: int
    blocks_per_sm: int


class StepTried(View):
    """What ptxas made of the kernel when it was held to the registers of next_step; null where it was not asked (--try-step)."""

    #: Whether ptxas compiles it; null where it could not be asked. The figures are null where it does not.
    compiles: Optional[bool]
    registers: Optional[int]
    blocks_per_sm: Optional[int]
    spill_store_bytes: Optional[int]
    spill_load_bytes: Optional[int]
    #: In ptxas's words why it does not compile, why ptxas could not be asked, or what becomes of setmaxnreg.
    message: Optional[str]


class Parameter(View):
    """Parameter."""

    ordinal: int
    offset: int
    bytes: int


class Attribute(View):
    """Attribute."""

    code: int
    name: Optional[str]
    value: str


class LiveAt(View):
    """LiveAt."""

    ptx_line: int
    pc: int
    live_gpr: int
    values: List["LiveValue"]


class Loop(View):
    """Loop."""

    pc: int
    ptx_line: Optional[int]
    depth: int
    instructions: int
    gpr: "Peak"
    spills: Optional[int]


class LocalVariable(View):
    """LocalVariable."""

    name: str
    bytes: Optional[int]
    ptx_line: int


class FragmentsAt(View):
    """FragmentsAt."""

    ptx_line: int
    instruction: str
    fragments: List["Fragment"]


class Peak(View):
    """Peak."""

    peak: int
    pc: Optional[int]
    ptx_line: Optional[int]
    source_line: Optional["SourceLine"]


class OccupancyStep(View):
    """OccupancyStep."""

    registers: int
    blocks_per_sm: int


class Resources(View):
    """Resources."""

    registers: Optional[int]
    barriers: Optional[int]
    stack_bytes: Optional[int]
    spill_store_bytes: Optional[int]
    spill_load_bytes: Optional[int]
    smem_bytes: Optional[int]
    cmem_bytes: Optional[int]
    cmem: List["ConstantBank"]
    local_bytes: Optional[int]
    code_bytes: int


class ConstantBank(View):
    """ConstantBank."""

    bank: int
    bytes: int


class LiveValue(View):
    """LiveValue."""

    registers: List[int]
    ptx_line: Optional[int]
    #: Every line that makes one of the registers.
    ptx_lines: List[int]
    virtual_registers: List[str]
    source_line: Optional["SourceLine"]
    #: The matrix instruction that adds to it next; null for its own result, and for what is no accumulator.
    accumulator_of_ptx_line: Optional[int]
    last_use_ptx_line: Optional[int]
    next_use_ptx_line: Optional[int]
    #: Instructions between what made the value and its next use.
    idle_instructions: Optional[int]
    #: The first line of the outermost loop around the place that neither makes nor reads the value.
    idle_loop_ptx_line: Optional[int]
    #: The first instruction that makes it, where no line is known.
    pc: Optional[int]
    #: Opcode and modifiers of that instruction.
    sass: Optional[str]
    #: What could shorten a value that lies idle for long.
    could: Optional[Literal["reload", "recompute"]]
    #: Whether the line makes no register itself, as a store or a comparison: the value is an operand that ptxas
    #: computes for it.
    is_operand: bool


class NamedBarrierSite(View):
    """NamedBarrierSite."""

    ptx_line: int
    action: Literal["sync", "arrive", "red"]
    aligned: bool
    #: Threads that it counts to.
    threads: Optional[int]
    #: Threads that may run it.
    reached_by: Optional[int]


class Stands(View):
    """Warps that stand at one place and wait for one thing."""

    #: What they are called by what they do; null where all warps do the same, or these are of several roles.
    role: Optional[str]
    #: Which warps of the block, ascending.
    warps: List[int]
    #: Which block of the cluster.
    block: int
    #: Where they stand.
    ptx_line: int
    #: What kind of thing they wait for.
    kind: Literal["mbarrier", "barrier", "cluster", "registers", "columns", "lanes"]
    #: For what: full[2], storage+8, barrier 1, registers of the pool, …
    waits_for: str
    #: Arrivals, threads, registers or columns that are there; null where nothing counts them.
    arrived: Optional[int]
    #: How many are needed.
    expected: Optional[int]
    #: Bytes that have come; null where none were announced.
    bytes: Optional[int]
    #: Bytes that were announced.
    bytes_expected: Optional[int]
    #: The phase or the round, from 0; null for what has none.
    phase: Optional[int]


class Mend(View):
    """A change with which a kernel that goes wrong ends, whatever was tried."""

    #: The change in words.
    change: str
    #: The lines that it changes, all alike.
    lines: List["MendedLine"]
    #: The first step at which the kernel goes otherwise than with the change.
    first_wrong: Optional["FirstWrong"]


class MendedLine(View):
    """MendedLine."""

    ptx_line: int
    #: Where in it what is replaced begins, in characters from 1; null with it, and where the text numbers its lines
    #: itself.
    column: Optional[int]
    #: What stands there, as written; null where the line alone does not tell what to write.
    replaces: Optional[str]
    #: What takes its place, empty where it goes; null with it.
    instruction: Optional[str]


class FirstWrong(View):
    """FirstWrong."""

    ptx_line: int
    #: What goes wrong there.
    text: str


class RegionUse(View):
    """RegionUse."""

    direction: Literal["writes", "reads", "both"]
    #: By what.
    how: Literal["ld.shared", "st.shared", "atom.shared", "ldmatrix", "stmatrix", "cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "wgmma", "tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "tcgen05.st", "tcgen05.alloc", "mbarrier", "other"]
    #: The role that does it; null where several do, or the kernel has no roles.
    role: Optional[str]
    ptx_lines: List[int]


class UnknownAccess(View):
    """An access whose place is not known."""

    ptx_line: int
    how: Literal["ld.shared", "st.shared", "atom.shared", "ldmatrix", "stmatrix", "cp.async", "cp.async.bulk", "cp.async.bulk.tensor", "wgmma", "tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "tcgen05.st", "tcgen05.alloc", "mbarrier", "other"]


class Descriptor(View):
    """A descriptor of wgmma or tcgen05."""

    #: It, in hexadecimal; null where a bit of it is not known.
    value: Optional[str]
    #: From the lowest bits on.
    fields: List["DescriptorField"]


class DescriptorField(View):
    """DescriptorField."""

    name: str
    #: Its lowest and its highest bit.
    bits: List[int]
    value: Optional[int]
    #: What the value stands for, where it is more than a number.
    meaning: Optional[str]


class Tile(View):
    """A matrix in shared memory, as its descriptor has it."""

    #: The variable that it is in.
    variable: Optional[str]
    #: Where it starts, where that is a number.
    start: Optional[int]
    #: none, 32 bytes, 64 bytes, 128 bytes, 128 bytes in atoms of 32.
    swizzle: Optional[str]
    leading_bytes: Optional[int]
    stride_bytes: Optional[int]
    base_offset: Optional[int]
    descriptor: "Descriptor"


class Factor(View):
    """A or B."""

    place: Literal["registers", "tensor_memory", "shared_memory"]
    #: Whether M of A, or N of B, lies side by side instead of K.
    transposed: Optional[bool]
    negated: Optional[bool]
    #: How it lies in shared memory; null elsewhere.
    tile: Optional["Tile"]


class Multiplication(View):
    """A wgmma or tcgen05.mma. What is not known before the kernel runs is null."""

    ptx_line: int
    instruction: Literal["wgmma", "tcgen05.mma"]
    #: .kind of a tcgen05.mma.
    kind: Optional[str]
    m: Optional[int]
    n: Optional[int]
    k: Optional[int]
    d_type: Optional[str]
    a_type: Optional[str]
    b_type: Optional[str]
    sparse: bool
    a: "Factor"
    b: "Factor"
    #: The instruction descriptor; null of a wgmma.
    descriptor: Optional["Descriptor"]


class Fragment(View):
    """An operand that is spread over the threads: an element's place is the sum of what its register, its thread and its warp add."""

    #: A, B, C, D, matrix 0, tensor memory.
    operand: str
    #: Which operand of the instruction has its registers, from 0 on.
    operand_index: int
    #: Which of that operand's registers is its first, from 0 on.
    first_register: int
    rows: int
    columns: int
    element: str
    sparse: bool
    #: Warps that hold it together.
    warps: int
    #: The row of a thread, as a formula of t (the thread in its warp) and w (the warp).
    row: str
    column: str
    #: What each bit of the thread's number adds, lowest first.
    thread_bits: List[List[int]]
    #: What each warp adds to row and column.
    warp: List[int]
    registers: List["HeldElements"]


class HeldElements(View):
    """HeldElements."""

    name: str
    #: What is added for each element in the register, lowest bits first.
    elements: List[List[int]]


class CyclesAt(View):
    """Cycles of a turn with so many warps."""

    #: Warps on each scheduler of the SM; 0 for one warp alone on the SM.
    warps_per_scheduler: int
    #: Cycles in which each of these warps does a turn.
    cycles: float
    #: part: a part of the machine is busy all the time; latency: results are waited for; barrier: warps wait for each
    #: other.
    bound: Literal["part", "latency", "barrier"]
    #: The part that bounds it, or the busiest one.
    part: str
    #: How busy each part of the machine is, the busiest first.
    busy: List["PartBusy"]


class PartBusy(View):
    """A part and its share of the cycles."""

    part: str
    percent: int


class LoopWait(View):
    """What a lone warp waits for."""

    pc: int
    ptx_line: Optional[int]
    #: Cycles since the instruction before it.
    cycles: int
    cause: Literal["stall", "scoreboard", "branch", "pipe", "banks", "barrier", "groups"]
    #: The instruction that it waits for: the holder of the scoreboard, or behind a stall count the one whose result it
    #: reads; null where nobody can tell.
    for_pc: Optional[int]
    for_ptx_line: Optional[int]


class TurnCost(View):
    """What a turn of a loop costs."""

    #: Instructions of a warp.
    instructions: int
    #: Those of a kind that nobody measured: taken for what resembles them.
    unmeasured: int
    #: Accesses of shared memory that are counted with their bank conflicts.
    bank_conflicts: int
    #: Accesses of shared memory that are not decided: counted as if they had none.
    undecided_accesses: int
    #: Accesses that the first cache is not asked for: volatile, relaxed and acquiring loads of a wider scope than the
    #: block, atomics, copies of cp.async.cg. The second cache answers them at best.
    beyond_l1: int
    alone: "CyclesAt"
    #: What one warp alone waits for, the longest first.
    waits: List["LoopWait"]
    #: The instructions that the turn of that warp is as long as, those that take more than a cycle, in their order.
    critical_path: List["PathStep"]
    with_warps: List["CyclesAt"]


class PathStep(View):
    """An instruction of the path."""

    pc: int
    ptx_line: Optional[int]
    #: Cycles until the next one of the path.
    cycles: int


class LoopCost(View):
    """What a loop costs: an estimate."""

    pc: int
    ptx_line: Optional[int]
    source_line: Optional["SourceLine"]
    depth: int
    #: Whether most of the time goes to its own instructions, of the loops of its function: each is taken to make ten
    #: turns whenever it is come to. A loop that only waits never is.
    hottest: bool
    #: Loops inside; their turns are not counted.
    inner_loops: int
    #: Turns of the PTX's loop that a turn does: above 1 where ptxas unrolled it; null where nobody can tell.
    ptx_turns: Optional[int]
    #: Cycles after which global and local memory are taken to answer.
    memory_latency: int
    #: Loops that other warps of the block are taken to run at the same time, a turn for each of its own: what they put
    #: on the tensor cores, or on what else they share with it, counts in with_warps.
    beside: List["LoopBeside"]
    shortest: "TurnCost"
    #: The way with the most instructions, where the loop has branches.
    longest: Optional["TurnCost"]


class LoopBeside(View):
    """LoopBeside."""

    pc: int
    ptx_line: Optional[int]
    #: The role that runs it; null where it has none of its own.
    role: Optional[str]
    #: The warps of a block that run it: 4-7; null where only their number is known.
    warp_ids: Optional[str]
    #: How many of them are on each scheduler.
    warps_per_scheduler: int


class AccessFacts(View):
    """What accesses of shared and global memory take, decided from the addresses of the lanes of each warp."""

    #: Accesses of shared memory.
    shared_total: int
    #: Those whose wavefronts are decided.
    shared_decided: int
    #: Those of the decided ones that take more than they must.
    shared_conflicts: int
    #: Accesses of global memory.
    global_total: int
    #: Those whose sectors are decided.
    global_decided: int
    #: Those of the decided ones that ask for more than they must.
    global_scattered: int
    #: Whether every access was decided and none takes more than it must.
    clean: bool
    #: In the order of the text: all of them in `ptxinspect cost --accesses`, elsewhere those that are decided to take
    #: more than they must.
    accesses: List["Access"]
    #: What would mend the conflicts of each array.
    mends: List["ArrayMend"]


class Access(View):
    """An access of a warp to memory."""

    ptx_line: int
    #: Shared memory is counted in wavefronts, global memory in sectors of 32 bytes.
    space: Literal["shared", "global"]
    kind: Literal["load", "store", "atomic", "load_matrix", "store_matrix", "copy"]
    #: Bytes of a thread; of a matrix, those of a row.
    bytes: int
    #: The variable, where that is known.
    variable: Optional[str]
    #: Warps that may come to it.
    warps: int
    #: The fewest wavefronts or sectors that a warp takes, over warps and turns; null where nothing is known.
    least: Optional[int]
    #: The most.
    most: Optional[int]
    #: As many as the same lanes would take at best.
    ideal: Optional[int]
    #: Of shared memory: the most words that one bank has to give at once.
    ways: Optional[int]
    #: That bank, counted from where the variable starts; null without a conflict.
    bank: Optional[int]
    #: The threads that meet there.
    threads: List[int]
    #: Of global memory: the most sectors where the base that all lanes share is no multiple of 32; null where that
    #: makes no difference.
    misaligned: Optional[int]
    #: Why it is not decided; null where it is.
    undecided: Optional["UndecidedAccess"]


class UndecidedAccess(View):
    """Why it is not decided; null where it is."""

    why: Literal["block_size", "block_shape", "address", "lanes", "alignment", "form"]
    ptx_line: Optional[int]


class ArrayMend(View):
    """What would mend the conflicts of one array."""

    variable: str
    #: Accesses of it that have conflicts.
    lines: List[int]
    #: Accesses that it was evaluated for: all of the array, in every warp.
    proven: int
    #: Rows with a gap after each.
    padding: Optional["Padding"]
    #: Swizzle<bits, base, shift> as CuTe writes it, on the index of an element.
    swizzle: Optional["Swizzle"]
    #: Why there is none; null where there is one.
    refused: Optional[Literal["undecided", "others", "none_holds"]]


class Padding(View):
    """Rows with a gap after each."""

    row_bytes: int
    gap_bytes: int


class Swizzle(View):
    """Swizzle<bits, base, shift> as CuTe writes it, on the index of an element."""

    bits: int
    base: int
    shift: int
    element_bytes: int


class SourceFacts(View):
    """SourceFacts."""

    file: str
    line: int
    #: Without what only fills the section up.
    instructions: int
    live_gpr_max: Optional[int]
    spill_stores: Optional[int]
    spill_loads: Optional[int]


__all__ = [
    "Access",
    "AccessFacts",
    "Advisory",
    "ArrayMend",
    "AsyncSite",
    "Attribute",
    "Barriers",
    "CallSite",
    "ClusterSite",
    "ConstantBank",
    "CopySite",
    "CubinFacts",
    "CyclesAt",
    "Descriptor",
    "DescriptorField",
    "Diagnostic",
    "Execution",
    "Factor",
    "FenceSite",
    "Finding",
    "FirstWrong",
    "Fragment",
    "FragmentsAt",
    "GroupsAt",
    "GroupsInFlight",
    "HeldElements",
    "InlinedLines",
    "InsertedBarrier",
    "Instructions",
    "Kernel",
    "KernelOccupancy",
    "Launch",
    "LineFacts",
    "LiveAt",
    "LiveValue",
    "LocalVariable",
    "LogLine",
    "Loop",
    "LoopBeside",
    "LoopCost",
    "LoopWait",
    "MBarrierSite",
    "MBarriers",
    "MemoryMaps",
    "Mend",
    "MendedLine",
    "Multiplication",
    "NamedBarrier",
    "NamedBarrierSite",
    "OccupancyStep",
    "Padding",
    "Parameter",
    "PartBusy",
    "PathStep",
    "Peak",
    "Pressure",
    "Problem",
    "PtxasUsed",
    "RecordedLaunch",
    "RegionUse",
    "RegisterCap",
    "RegisterPool",
    "Resources",
    "Role",
    "RoleBudget",
    "RolePart",
    "SetMaxNReg",
    "SetMaxNRegEmitted",
    "SetMaxNRegRequested",
    "SharedMap",
    "SharedRegion",
    "SmemRange",
    "SourceFacts",
    "SourceLine",
    "Spill",
    "Stands",
    "StepTried",
    "Swizzle",
    "TensorAllocation",
    "TensorMap",
    "TensorRegion",
    "Tile",
    "TurnCost",
    "UndecidedAccess",
    "Unit",
    "UnitError",
    "UnknownAccess",
    "Untouched",
]
