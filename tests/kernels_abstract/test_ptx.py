"""The PTX front end on small kernels: parsing, execution, provenance, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from lastread.kernels_abstract.ptx_parser import parse_ptx
from lastread.kernels_abstract.ptx_program import load_ptx, program_of_ptx
from lastread.model import instructions as ins
from lastread.model.checking import check
from lastread.model.program import Agent, BudgetExceeded, InputError, Program, Space

HEADER = ".version 8.7\n.target sm_90\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %d<20>;
"""
PROLOGUE = """
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d1, %d1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
"""


def kernel(body: str, parameters: str = ".param .u64 out", shared: str = "") -> str:
    return f"{HEADER}{shared}\n.visible .entry k({parameters})\n{{{REGISTERS}{body}\nret;\n}}\n"


def run(
    body: str,
    block: Sequence[int] = (32,),
    shared: str = "",
    parameters: Mapping[str, int | float | str] | None = None,
    declared: str = ".param .u64 out",
    **more: object,
) -> Program:
    text = kernel(PROLOGUE + body, declared, shared)
    return program_of_ptx(text, block=block, parameters=parameters, **more)  # type: ignore[arg-type]


def of(agent: Agent, *kinds: type[ins.Instruction]) -> list[ins.Instruction]:
    return [step.instruction for step in agent.steps if isinstance(step.instruction, kinds)]


def stored(program: Program) -> list[str | None]:
    """The constant that each thread stores last."""
    values = []
    for agent in program.agents:
        last = of(agent, ins.Store)[-1]
        assert isinstance(last, ins.Store)
        values.append(last.value)
    return values


def computed(text: str, block: Sequence[int] = (32,), lane: int = 0) -> int:
    """What `%r9` is after some code, in one thread."""
    value = stored(run(text + "st.global.u32 [%d3], %r9;", block))[lane]
    assert value is not None
    return int(value, 16)


# --- parsing -------------------------------------------------------------------------------------


def test_scopes_have_their_own_registers_and_labels() -> None:
    text = """
        mov.u32 %r9, 1;
        { .reg .b32 %r9; mov.u32 %r9, 7; bra SKIP; mov.u32 %r9, 8; SKIP: }
        { .reg .b32 %r9; mov.u32 %r9, 5; bra SKIP; mov.u32 %r9, 6; SKIP: }
    """
    assert computed(text) == 1


def test_places_and_several_instructions_on_a_line() -> None:
    text = kernel("\n  mov.u32 %r1, 1; /* a\n comment */ mov.u32 %r2,\n 2; // st.bad\n")
    first, second, _ = parse_ptx(text).entries["k"].instructions
    assert (first.line, first.column) == (9, 3)
    assert (second.line, second.text) == (10, "mov.u32 %r2, 2;")


def test_operand_forms() -> None:
    text = kernel("""
        ld.global.v2.u32 {%r1, _}, [%d1+-8];
        @!%p1 mov.f32 %f1, 0f3F800000;
        setp.eq.and.s32 %p1|%p2, %r1, -1, !%p3;
        st.global .u32 [%d1 + 4], %r1;
    """)
    load, move, compare, store, _ = parse_ptx(text).entries["k"].instructions
    assert load.vector_length == 2
    assert move.guard_negated and move.guard is not None
    assert compare.types == ("s32",)
    assert store.opcode == "st.global.u32"


def test_dwarf_and_pragmas_are_skipped_and_loc_is_kept() -> None:
    loc = ".loc 1 42 7, function_name $L_info, inlined_at 1 3 4"
    text = kernel(f'.pragma "nounroll";\n{loc}\nmov.u32 %r1, 1;')
    text = text.replace(".address_size 64", '.address_size 64\n.file 1 "a.cu"')
    text += "\t.section .debug_abbrev\n{ .b8 1 }\n"
    assert parse_ptx(text).entries["k"].instructions[0].loc == (1, 42, 7)


def test_module_declarations() -> None:
    text = kernel("mov.u32 %r1, 1;").replace(
        ".visible",
        """.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .align 1 .b8 $str[3] = {37, 100, 0};
        .extern .shared .align 16 .b8 smem[];
        .visible""",
    )
    module = parse_ptx(text)
    assert [(v.name, v.bytes, v.dynamic) for v in module.variables] == [
        ("$str", 3, False),
        ("smem", 0, True),
    ]


# --- execution -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("add.s32 %r9, 5, -7;", 0xFFFFFFFE),
        ("sub.u32 %r9, 3, 4;", 0xFFFFFFFF),
        ("mul.lo.s32 %r9, 65536, 65537;", 65536),
        ("mul.hi.u32 %r9, -1, -1;", 0xFFFFFFFE),
        ("mul.hi.s32 %r9, -1, -1;", 0),
        ("mul.wide.s32 %d9, -2, 3; shr.s64 %d9, %d9, 1; cvt.u32.u64 %r9, %d9;", 0xFFFFFFFD),
        ("mad.lo.s32 %r9, 3, 4, -5;", 7),
        ("div.s32 %r9, -7, 2;", 0xFFFFFFFD),
        ("rem.s32 %r9, -7, 2;", 0xFFFFFFFF),
        ("div.u32 %r9, -7, 2;", 0x7FFFFFFC),
        ("shl.b32 %r9, 1, 40;", 0),
        ("shr.u32 %r9, -8, 1;", 0x7FFFFFFC),
        ("shr.s32 %r9, -8, 1;", 0xFFFFFFFC),
        ("shr.s32 %r9, -8, 99;", 0xFFFFFFFF),
        ("min.s32 %r9, -1, 1;", 0xFFFFFFFF),
        ("min.u32 %r9, -1, 1;", 1),
        ("abs.s32 %r9, -9;", 9),
        ("neg.s32 %r9, 9;", 0xFFFFFFF7),
        ("not.b32 %r9, 0;", 0xFFFFFFFF),
        ("lop3.b32 %r9, 12, 10, 6, 0x96;", 0),
        ("lop3.b32 %r9, 12, 10, 6, 0xE8;", 14),
        ("bfe.u32 %r9, 0xABCD, 4, 8;", 0xBC),
        ("bfe.s32 %r9, 0xABCD, 4, 8;", 0xFFFFFFBC),
        ("bfi.b32 %r9, 0xF, 0xA000, 4, 4;", 0xA0F0),
        ("prmt.b32 %r9, 0x33221100, 0x77665544, 0x7531;", 0x77553311),
        ("shf.l.wrap.b32 %r9, 0x80000000, 1, 1;", 3),
        ("popc.b32 %r9, 0xF0F0;", 8),
        ("clz.b32 %r9, 1;", 31),
        ("brev.b32 %r9, 1;", 0x80000000),
        ("bfind.u32 %r9, 0x100;", 8),
        ("cvt.s32.s8 %r9, 0xFF;", 0xFFFFFFFF),
        ("cvt.u32.u8 %r9, 0x1FF;", 0xFF),
        ("mov.b64 %d9, {1, 2}; mov.b64 {%r8, %r9}, %d9;", 2),
        ("setp.lt.s32 %p1, -1, 1; selp.b32 %r9, 4, 5, %p1;", 4),
        ("setp.lo.u32 %p1, -1, 1; selp.b32 %r9, 4, 5, %p1;", 5),
        ("setp.lt.f32 %p1, 0fBF800000, 0f00000000; selp.b32 %r9, 4, 5, %p1;", 4),
        ("setp.ne.s32 %p1|%p2, 1, 1; selp.b32 %r9, 4, 5, %p2;", 4),
        ("mov.u32 %r9, %ntid.x;", 32),
        ("mov.u32 %r9, WARP_SZ;", 32),
        ("mov.u32 %r8, 3; L: add.u32 %r9, %r9, %r8; sub.u32 %r8, %r8, 1;"
         "setp.ne.u32 %p1, %r8, 0; @%p1 bra L;", 6),
        ("mov.u32 %r8, 1; bra.uni T; A: mov.u32 %r9, 1; bra E; B: mov.u32 %r9, 2; bra E;"
         "TS: .branchtargets A, B; T: brx.idx %r8, TS; E:", 2),
    ],
)  # fmt: skip
def test_integer_instructions(text: str, expected: int) -> None:
    assert computed(text) == expected


@pytest.mark.parametrize(
    ("text", "lane", "expected"),
    [
        ("mov.u32 %r9, %tid.y;", 9, 2),
        ("mov.u32 %r9, %laneid;", 15, 15),
        ("mov.u32 %r9, %lanemask_lt;", 3, 7),
        ("shfl.sync.bfly.b32 %r9, %r1, 1, 31, 0xffff;", 4, 1),
        ("shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;", 8, 3),
        ("mov.u32 %r2, %laneid; shfl.sync.up.b32 %r9|%p1, %r2, 2, 0, -1;", 1, 1),
        ("mov.u32 %r2, %laneid; shfl.sync.down.b32 %r9|%p1, %r2, 2, 31, -1;", 1, 3),
        ("setp.lt.u32 %p1, %r1, 2; vote.sync.ballot.b32 %r9, %p1, -1;", 0, 0x3333),
        ("setp.lt.u32 %p1, %r1, 2;vote.sync.any.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;", 7, 1),
        ("setp.lt.u32 %p1, %r1, 2;vote.sync.all.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;", 0, 0),
        ("elect.sync _|%p1, -1; selp.b32 %r9, 1, 0, %p1;", 0, 1),
        ("elect.sync _|%p1, -1; selp.b32 %r9, 1, 0, %p1;", 1, 0),
        ("setp.lt.u32 %p1, %r1, 2; @%p1 bra A; mov.u32 %r9, 5; bra E; A: mov.u32 %r9, 6; E:", 1, 6),
    ],
)  # fmt: skip
def test_lanes_of_a_4_by_4_block(text: str, lane: int, expected: int) -> None:
    assert computed(text, (4, 4), lane) == expected


def test_divergent_lanes_meet_before_a_shuffle() -> None:
    text = """
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra SLOW;
        bra MEET;
        SLOW: mov.u32 %r2, 100;
        MEET: shfl.sync.idx.b32 %r9, %r2, 0, 31, -1;
    """
    assert computed(text, lane=31) == 100


def test_lanes_of_a_warp_share_positions() -> None:
    program = run("ld.global.u32 %r2, [%d3]; add.u32 %r2, %r2, 1; st.global.u32 [%d3], %r2;", (64,))
    positions = {tuple(step.position for step in agent.steps) for agent in program.agents}
    assert len(positions) == 1
    (only,) = positions
    assert list(only) == sorted(set(only))


def test_agents_and_regions() -> None:
    program = run("ld.global.v2.u32 {%r2, %r3}, [%d1+8];", (48,), parameters={"out": "S"})
    last = program.agents[-1]
    assert (last.name, last.thread, last.warp, last.lanes) == ("thread", 47, 1, 1)
    (load,) = of(last, ins.Load)
    assert isinstance(load, ins.Load)
    assert load.region.label == "S[2]"
    assert load.region.columns[1] - load.region.columns[0] == 8
    assert (load.region.space, load.region.cta) == (Space.GLOBAL, -1)
    assert program.parameters == {"grid": [1, 1, 1], "block": [48, 1, 1], "out": "S"}


def test_two_pointers_are_two_buffers() -> None:
    declared = ".param .u64 out, .param .u64 .ptr .global .align 4 in"
    program = run("ld.param.u64 %d4, [in]; ld.global.u32 %r2, [%d4];", (1,), declared=declared)
    assert set(program.arrays) == {"in"}
    assert any("do not overlap" in note for note in program.notes)


def test_shared_variables_are_laid_out_by_alignment() -> None:
    shared = """
        .shared .align 1 .b8 tag[1];
        .shared .align 16 .b8 _ZZ4ringE4tile[64];
        .extern .shared .align 8 .b8 dynamic[];
    """
    text = """
        mov.u32 %r2, _ZZ4ringE4tile; st.shared.u32 [%r2+4], 1; st.shared.u8 [tag], 2;
        st.shared.u64 [dynamic+8], 3;
    """
    regions = [s.region for s in of(run(text, (1,), shared).agents[0], ins.Store)]  # type: ignore[attr-defined]
    assert [(r.label, r.columns) for r in regions] == [
        ("tile[1]", (20, 24)), ("tag[0]", (0, 1)), ("dynamic[1]", (88, 96))
    ]  # fmt: skip


def test_shared_memory_holds_known_values_byte_by_byte() -> None:
    shared = ".shared .align 4 .b8 state[4];"
    text = """
        st.shared.u32 [state], 0x04030201; bar.sync 0;
        cvt.u64.u32 %d4, %r1; mov.u64 %d5, state; add.s64 %d5, %d5, %d4;
        ld.shared.u8 %r2, [%d5]; st.global.u32 [%d3], %r2;
    """
    assert stored(run(text, (4,), shared)) == ["0x1", "0x2", "0x3", "0x4"]
    branch = text.replace("st.global", "setp.eq.u32 %p1, %r2, 3; @!%p1 bra E; st.global") + "E:"
    assert [len(of(a, ins.Store)) for a in run(branch, (4,), shared).agents] == [1, 1, 2, 1]


def test_generic_addresses_reach_shared_memory() -> None:
    shared = ".shared .align 4 .b8 x[4];"
    text = "cvta.shared.u64 %d4, %d5; mov.u64 %d5, x; cvta.shared.u64 %d4, %d5; st.u32 [%d4], 1;"
    (store,) = of(run(text, (1,), shared).agents[0], ins.Store)
    assert store.accesses[0].region.space is Space.SHARED


def test_local_memory_has_no_events_and_keeps_provenance() -> None:
    text = """
        .local .align 4 .b8 spill[8];
        ld.global.u32 %r2, [%d3]; st.local.u32 [spill+4], %r2; ld.local.u32 %r3, [spill+4];
        st.global.u32 [%d3], %r3;
    """
    agent = run(text, (1,)).agents[0]
    load, store = of(agent, ins.Load, ins.Store)
    assert load.writes == store.reads


def test_contents_of_buffers_decide_branches_and_addresses() -> None:
    text = """
        ld.global.u32 %r2, [%d1+4];
        setp.eq.u32 %p1, %r2, 7; @%p1 bra E; st.global.u32 [%d3], 0; E:
    """
    agent = run(text, (1,), buffers={"out": [0, 7]}).agents[0]
    assert [i.text for i in of(agent, ins.Load, ins.Store)] == ["ld out[1]"]
    (use,) = of(agent, ins.Use)
    assert use.reads == of(agent, ins.Load)[0].writes


# --- provenance ----------------------------------------------------------------------------------


def functions(body: str, block: Sequence[int] = (4,)) -> list[object]:
    program = run(body, block)
    return [of(agent, ins.Store)[-1].reads for agent in program.agents]


def test_the_same_function_of_the_same_location_is_equal() -> None:
    one = "ld.global.f32 %f1, [%d1]; add.f32 %f2, %f1, 0f3F800000; st.global.f32 [%d1], %f2;"
    assert len(set(functions(one))) == 1
    assert len(set(functions(one.replace("%f1, [%d1]", "%f1, [%d3]")))) == 4
    by_thread = one.replace("0f3F800000", "%r1")
    assert len(set(functions(by_thread))) == 4


def test_a_constant_next_to_a_loaded_value_counts() -> None:
    text = "ld.global.u32 %r2, [%d1]; st.global.v2.u32 [%d1], {%r2, %r1};"
    assert len(set(functions(text))) == 4


def test_loads_before_and_after_a_store_differ() -> None:
    text = """
        ld.global.u32 %r2, [%d1]; ld.global.u32 %r2, [%d1]; st.global.u32 [%d3+64], %r2;
        st.global.u32 [%d1], 1; ld.global.u32 %r3, [%d1]; st.global.u32 [%d3+64], %r3;
    """
    agent = run(text, (1,)).agents[0]
    registers = [load.writes for load in of(agent, ins.Load)]
    assert len(set(registers)) == 3
    stores = of(agent, ins.Store)
    assert stores[0].reads == registers[1]
    assert stores[2].reads == registers[2]


def test_a_branch_on_data_over_arithmetic_is_a_selection() -> None:
    text = """
        ld.global.f32 %f1, [%d3]; ld.global.f32 %f3, [%d1]; setp.gt.f32 %p1, %f1, 0f00000000;
        mov.f32 %f2, 0f00000000;
        @%p1 bra E; fma.rn.f32 %f2, %f3, %f3, %f3; E: st.global.f32 [%d1], %f2;
    """
    program = run(text, (4,))
    assert len(set(functions(text))) == 4, "each thread has its own condition"
    agent = program.agents[1]
    (use,) = of(agent, ins.Use)
    compute = of(agent, ins.Compute)[-1]
    assert set(use.reads) < set(compute.reads)
    assert any("both sides only compute" in note for note in program.notes)


def test_a_value_chosen_by_known_data_depends_on_that_data() -> None:
    text = """
        ld.global.u32 %r2, [%d1]; setp.eq.u32 %p1, %r2, 7;
        mov.u32 %r3, 1; @%p1 mov.u32 %r3, 2; st.global.u32 [%d3], %r3;
    """
    agent = run(text, (1,), buffers={"out": [7]}).agents[0]
    (compute,) = of(agent, ins.Compute)
    assert compute.reads == of(agent, ins.Load)[0].writes


def test_shuffles_use_what_they_send() -> None:
    text = """
        ld.global.f32 %f1, [%d3]; shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; st.global.f32 [%d3], %f2;
    """
    agent = run(text).agents[0]
    (use,) = of(agent, ins.Use)
    assert use.reads == of(agent, ins.Load)[0].writes
    assert isinstance(use, ins.Use) and use.kind == "shuffle"


# --- synchronisation -----------------------------------------------------------------------------


def test_barriers_with_numbers_and_counts() -> None:
    text = """
        setp.ge.u32 %p1, %r1, 32; mov.u32 %r2, 3; mov.u32 %r3, 64;
        @%p1 bra B; bar.arrive %r2, %r3; bra E; B: bar.sync %r2, %r3; E: bar.sync 0;
    """
    program = run(text, (64,))
    first, last = program.agents[0], program.agents[-1]
    assert [bar.text for bar in of(first, ins.Bar)] == ["bar.arrive 3, 64", "bar.sync 0, 64"]
    assert [bar.text for bar in of(last, ins.Bar)] == ["bar.sync 3, 64", "bar.sync 0, 64"]


def test_exited_threads_do_not_count_at_a_barrier() -> None:
    program = run("setp.lt.u32 %p1, %r1, 32; @%p1 exit; bar.sync 0;", (64,))
    assert [bar.text for bar in of(program.agents[40], ins.Bar)] == ["bar.sync 0, 32"]
    assert not program.agents[0].steps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fence.acq_rel.gpu;", ins.Fence(ins.Sem.ACQ_REL, ins.Scope.GPU)),
        ("fence.sc.cta;", ins.Fence(ins.Sem.SC, ins.Scope.CTA)),
        ("membar.gl;", ins.Fence(ins.Sem.SC, ins.Scope.GPU)),
        ("fence.proxy.async.shared::cta;", ins.FenceProxyAsync(Space.SHARED)),
        ("fence.proxy.async;", ins.FenceProxyAsync()),
        ("fence.mbarrier_init.release.cluster;", ins.FenceMbarrierInit()),
        ("bar.warp.sync -1;", ins.BarWarpSync(0xFFFFFFFF)),
        ("barrier.cluster.arrive.relaxed.aligned;", ins.ClusterArrive(ins.Sem.RELAXED)),
    ],
)
def test_fences_and_barriers(text: str, expected: ins.Instruction) -> None:
    assert [step.instruction for step in run(text).agents[5].steps] == [expected]


@pytest.mark.parametrize(
    ("opcode", "sem", "scope"),
    [
        ("ld.global.u32", ins.Sem.WEAK, ins.Scope.CTA),
        ("ld.acquire.gpu.global.u32", ins.Sem.ACQUIRE, ins.Scope.GPU),
        ("ld.relaxed.cluster.global.u32", ins.Sem.RELAXED, ins.Scope.CLUSTER),
        ("ld.volatile.global.u32", ins.Sem.RELAXED, ins.Scope.SYS),
        ("ld.global.nc.L1::no_allocate.u32", ins.Sem.WEAK, ins.Scope.CTA),
    ],
)
def test_semantics_of_loads(opcode: str, sem: ins.Sem, scope: ins.Scope) -> None:
    (load,) = of(run(f"{opcode} %r2, [%d3];", (1,)).agents[0], ins.Load)
    assert isinstance(load, ins.Load)
    assert (load.sem, load.scope) == (sem, scope)


def test_atomics() -> None:
    text = "atom.global.add.u32 %r2, [%d1], 1; red.release.cta.global.add.u32 [%d1], %r2;"
    first, second = of(run(text, (2,)).agents[0], ins.Atomic)
    assert isinstance(first, ins.Atomic) and isinstance(second, ins.Atomic)
    assert (first.sem, first.scope) == (ins.Sem.RELAXED, ins.Scope.GPU)
    assert (second.sem, second.scope) == (ins.Sem.RELEASE, ins.Scope.CTA)
    assert second.reads == first.writes


RING = """
    mov.u32 %r2, bars; mov.u32 %r3, bars; add.u32 %r3, %r3, 8; mov.u32 %r8, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r2], 32;
    mbarrier.init.shared.b64 [%r3], 32;
READY:
    bar.sync 0;
    setp.ge.u32 %p2, %r1, 32;
    @%p2 bra CONSUMER;
PRODUCER:
    xor.b32 %r4, %r8, 1;
    and.b32 %r4, %r4, 1;
W1: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], %r4;
    @!%p3 bra W1;
    st.shared.u32 [data], %r8;
    mbarrier.arrive.shared.b64 _, [%r2];
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p4, %r8, 3;
    @%p4 bra PRODUCER;
    bra END;
CONSUMER:
    and.b32 %r4, %r8, 1;
    { .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%r2], %r4; @p bra D; bra W; D: }
    ld.shared.u32 %r5, [data];
    RELEASE
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p4, %r8, 3;
    @%p4 bra CONSUMER;
END:
"""
ARRIVE = "mbarrier.arrive.shared.b64 %d9, [%r3];"
BARRIERS = ".shared .align 8 .b64 bars[2]; .shared .align 4 .u32 data;"


def test_an_mbarrier_ring_runs() -> None:
    program = run(RING.replace("RELEASE", ARRIVE), (64,), BARRIERS)
    producer, consumer = program.agents[1], program.agents[33]
    assert [i.text for i in of(producer, ins.MbarrierTryWait, ins.MbarrierArrive)] == [
        "mbarrier.try_wait.parity bars[1], 1", "mbarrier.arrive bars[0]",
        "mbarrier.try_wait.parity bars[1], 0", "mbarrier.arrive bars[0]",
        "mbarrier.try_wait.parity bars[1], 1", "mbarrier.arrive bars[0]",
    ]  # fmt: skip
    assert len(of(consumer, ins.Load)) == 3
    assert [barrier.label for barrier in program.barriers] == ["bars[0]", "bars[1]"]


def test_a_ring_that_nobody_releases_is_stuck() -> None:
    program = run(RING.replace("RELEASE", ""), (64,), BARRIERS)
    assert any("wait for ever" in note for note in program.notes)
    assert check(program).verdict == "deadlock"


def test_a_single_try_is_taken_to_fail() -> None:
    text = """
        mbarrier.init.shared.b64 [bars], 1;
        mbarrier.test_wait.parity.shared.b64 %p1, [bars], 1;
        selp.u32 %r2, 1, 0, %p1; st.global.u32 [%d3], %r2;
    """
    program = run(text, (1,), BARRIERS)
    assert stored(program) == ["0x0"]
    assert any("taken to fail" in note for note in program.notes)


def test_asynchronous_copies() -> None:
    text = """
        cp.async.cg.shared.global [tile+16], [%d1+32], 16;
        cp.async.ca.shared.global [tile], [%d1+4], 4, %r1;
        cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
        mbarrier.init.shared.b64 [bars], 1; cp.async.mbarrier.arrive.noinc.shared.b64 [bars];
        W: mbarrier.try_wait.parity.shared.b64 %p1, [bars], 0; @!%p1 bra W;
        ld.shared.u32 %r2, [tile]; setp.eq.u32 %p1, %r2, 0; @%p1 exit;
    """
    shared = ".shared .align 16 .b8 tile[32];" + BARRIERS
    steps = [step.instruction for step in run(text, (1,), shared).agents[0].steps]
    assert [step.text for step in steps[:6]] == [
        "cp.async tile[1], out[2]", "cp.async tile[0]", "cp.async.commit_group",
        "cp.async.wait_group 0", "cp.async.wait_all", "mbarrier.init bars[0]",
    ]  # fmt: skip
    assert steps[6] == ins.CpAsyncMbarrierArrive(steps[5].barrier, noinc=True)  # type: ignore[attr-defined]


def test_two_blocks_of_a_cluster() -> None:
    text = """
        mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; mov.u32 %r4, x;
        mapa.shared::cluster.u32 %r5, %r4, %r3;
        st.shared::cluster.u32 [%r5], 1;
        barrier.cluster.arrive; barrier.cluster.wait;
        ld.shared.u32 %r6, [x];
    """
    program = run(text, (1,), ".shared .align 4 .u32 x;", cluster=(2,))
    stores = [of(agent, ins.Store)[0].accesses[0].region.cta for agent in program.agents]
    loads = [of(agent, ins.Load)[0].accesses[0].region.cta for agent in program.agents]
    assert (stores, loads, program.clusters) == ([1, 0], [0, 1], 2)


def test_a_cluster_barrier_in_turns() -> None:
    """A block that arrives again early does not hold back the one that still waits."""
    text = """
        mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0;
        barrier.cluster.arrive; @%p1 bra SLOW; bra WAIT;
        WAIT: barrier.cluster.wait; barrier.cluster.arrive; barrier.cluster.wait; bra E;
        SLOW: mov.u32 %r3, 1; bra WAIT;
        E: st.shared.u32 [x], 1;
    """
    program = run(text, (1,), ".shared .align 4 .u32 x;", cluster=(2,))
    assert [len(of(agent, ins.Store)) for agent in program.agents] == [1, 1]


def test_half_a_warp_synchronises() -> None:
    text = "setp.ge.u32 %p1, %r1, 16; @%p1 exit; bar.warp.sync 0xffff;"
    assert of(run(text).agents[0], ins.BarWarpSync) == [ins.BarWarpSync(0xFFFF)]


@pytest.mark.parametrize(("reader", "verdict"), [(5, "ordered"), (20, "race")])
def test_halves_of_a_warp_synchronise_apart(reader: int, verdict: str) -> None:
    text = f"""
        setp.lt.u32 %p1, %r1, 16; selp.b32 %r2, 0xffff, 0xffff0000, %p1;
        setp.eq.u32 %p2, %r1, 0; @%p2 st.global.u32 [%d1], 1;
        bar.warp.sync %r2;
        setp.eq.u32 %p3, %r1, {reader};
        @%p3 ld.global.u32 %r3, [%d1]; @%p3 st.global.u32 [%d3], %r3;
    """
    assert check(run(text), "ptx").verdict == verdict


def test_the_kernel_of_the_readme_question() -> None:
    """Each thread reads one location, and overwrites it."""
    text = "ld.global.f32 %f1, [%d1]; add.f32 %f1, %f1, %f1; BAR st.global.f32 [%d1], %f1;"
    assert check(run(text.replace("BAR", ""), (64,)), "hardware").verdict == "race"
    guarded = "bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 ret;"
    assert check(run(text.replace("BAR", guarded), (64,)), "ptx").verdict == "ordered"


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frob.b32 %r9, 1;", "ptx:15:1: unknown opcode: frob.b32"),
        ("wgmma.fence.sync.aligned;", "ptx:15:1: instruction outside the model: wgmma.fence"),
        ("cp.async.bulk.commit_group;", "outside the model: cp.async.bulk.commit_group"),
        ("add.sat.s32 %r9, 1, 2;", "outside the model: add.sat.s32"),
        ("add.cc.u32 %r9, 1, 2;", "outside the model: add.cc.u32"),
        ("add.u16x2 %r9, 1, 2;", "outside the model: add.u16x2"),
        ("prmt.b32.f4e %r9, 1, 2, 3;", "outside the model: prmt.b32.f4e"),
        ("bar.red.popc.u32 %r9, 0, %p1;", "outside the model: bar.red.popc.u32"),
        ("call f;", "f is not declared"),
        ("fence.proxy.alias;", "outside the model: fence.proxy.alias"),
        ("fence.acquire.sync_restrict::shared::cta.cluster;", "outside the model"),
        ("mov.u32 %r99, 1;", "ptx:15:1: %r99 is not declared"),
        ("@%r1 bra E; E:", "%r1 is not a predicate register"),
        ("bra NOWHERE;", "NOWHERE is not declared"),
        ("E: E: bra E;", "label E is defined twice"),
        ("bra %r1;", "a branch needs a label"),
        ("mov.u32 %r1 %r2;", "ptx:15:13: unexpected '%r2', expected ';'"),
        ("mov.u32 %r1, 1\nmov.u32 %r2, 2;", "unexpected 'mov.u32', expected ';'"),
        ("%r1 = 2;", "expected an instruction"),
        ("mov.u32 %r1, `;", "unexpected '`'"),
        ("add.u32 %r1;", "cannot understand add.u32 %r1;"),
        ("st.global.u32 [%d9], 1;", "no buffer is at address 0x0"),
        ("st.shared.u32 [%r9], 1;", "no shared variable is at offset 0"),
        ("mov.u32 %r1, %clock;", "special register %clock is outside the model"),
        ("st.global.u32 [%d3+0f3F800000], 1;", "unexpected 'f3F800000'"),
        ("mov.u32 %r1, 08;", "unexpected '8'"),
        ("/* open", "comment is never closed"),
        ("{" * 150 + "}" * 150, "nested deeper than 100"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        run("\n" + text, (32,))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L: bra L;", "an endless loop?"),
        ("ld.global.u32 %r2, [%d3]; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%d3], 1;",
         "whether st.global.u32 is executed depends on out[0], which is not known"),
        ("ld.global.u32 %r2, [%d3]; setp.eq.u32 %p1, %r2, 0; @%p1 bra E; bar.sync 0; E:",
         "a branch that decides what memory is accessed depends on out[0]"),
        ("ld.global.u32 %r2, [%d3]; mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d4, %d1;"
         "ld.global.u32 %r3, [%d4];", "--buffer out=VALUES"),
        ("L: ld.global.u32 %r2, [%d3]; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;", "depends on out[0]"),
        ("atom.global.add.u32 %r2, [%d1], 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra E; bar.sync 0; E:",
         "depends on out[0]"),
        ("setp.eq.u32 %p1, %r1, 0; @%p1 bra E; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ret;"
         "E: bar.sync 1, 64; ", "waits for lanes that never come"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_said(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastread.kernels_abstract.ptx_run.MAX_WARP_INSTRUCTIONS", 5000)
    with pytest.raises(BudgetExceeded) as caught:
        run(text)
    assert message in str(caught.value)


def test_scalars_are_asked_for_only_when_needed() -> None:
    declared = ".param .u64 out, .param .u32 n, .param .f32 scale"
    text = "ld.param.f32 %f1, [scale]; st.global.f32 [%d3], %f1; ld.param.u32 %r2, [n];"
    run(text, declared=declared)
    text += "setp.ge.u32 %p1, %r1, %r2; @%p1 ret; st.global.u32 [%d3], 1;"
    with pytest.raises(InputError, match="depends on parameter n: give --param n=VALUE"):
        run(text, declared=declared)
    program = run(text, declared=declared, parameters={"n": 3, "scale": 0.5})
    assert [len(of(agent, ins.Store)) for agent in program.agents[:5]] == [2, 2, 2, 1, 1]
    assert stored(program)[9] == "0x3f000000"
    assert run(text, declared=declared, parameters={"n": "0x3", "scale": "0.5"}) == program
    with pytest.raises(InputError, match="parameter n needs a number, not 'many'"):
        run(text, declared=declared, parameters={"n": "many"})


@pytest.mark.parametrize(
    ("tuning", "block", "message"),
    [
        ("", None, "give --block X,Y,Z"),
        (".maxntid 64, 2, 1", None, "at most 128 threads"),
        (".maxntid 64, 1, 1", (65,), ".maxntid allows 64"),
        (".reqntid 64", (32,), ".reqntid says 64"),
        ("", (1025,), "the most is 1024"),
        ("", (0,), "three positive numbers"),
    ],
)
def test_the_shape_of_the_block(tuning: str, block: Sequence[int] | None, message: str) -> None:
    text = kernel("mov.u32 %r1, 1;").replace("out)", f"out)\n{tuning}")
    with pytest.raises(InputError) as caught:
        program_of_ptx(text, block=block)
    assert message in str(caught.value)


def test_reqntid_is_the_shape() -> None:
    text = kernel("mov.u32 %r1, 1;").replace("out)", "out) .reqntid 8, 4, 2")
    assert program_of_ptx(text).parameters["block"] == [8, 4, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (b"\x7fELF\x02\x01\x00\x00\xff", "this is a binary"),
        (kernel("mov.u32 %r1, 1;").encode()[:-9], "ends in the middle of a kernel"),
        (HEADER.encode(), "contains no .entry"),
        (b"hello, world", "hello"),
    ],
)
def test_files_that_are_no_kernels(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_ptx(path, block=(32,))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_ptx(tmp_path / "none.ptx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"entry": "other"}, "there is no entry other; there is k"),
        ({"parameters": {"m": 1}}, "no parameter m; the kernel has out"),
        ({"buffers": {"m": [1]}}, "no buffer m"),
        ({"cluster": (32,)}, "a cluster has at most 16 blocks"),
        ({"grid": (3,), "cluster": (2,)}, "is no multiple of cluster"),
    ],
)
def test_launch_options(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run("", **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_several_entries_need_a_choice() -> None:
    text = kernel("") + kernel("").replace("entry k", "entry j").replace(HEADER, "")
    with pytest.raises(InputError, match="choose one with --entry: k, j"):
        program_of_ptx(text, block=(1,))
    assert program_of_ptx(text, entry="j", block=(1,)).name == "j"
