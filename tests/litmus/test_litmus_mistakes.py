"""What the parser of litmus tests says to faulty texts: where, what, and what would be legal."""

from __future__ import annotations

import time

import pytest
from lastread.litmus.language.parser import parse
from lastread.model.program import InputError

INIT = """x = 0; P1:r2 = 5; shared s; tmem t; mbarrier b count 1; y @ surface aliases x;"""


def text_of(
    cell: str = "",
    init: str = INIT,
    threads: str = "P0@cta 0 | P1@cta 1",
    question: str = "exists x = 1",
) -> str:
    """Header, init block, threads, two rows, question: one line each, so the cell is on line 5."""
    row = "ld.weak r1, x | ld.weak r1, x"
    return f"PTX t\n{{ {init} }}\n{threads} ;\n{row} ;\n{cell} | ;\n{question}\n"


def complaint(text: str) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        parse(text, "f.litmus")
    return caught.value.where.removeprefix("f.litmus:"), caught.value.message


CELLS = [
    # opcodes and modifiers
    ("st.acquire.gpu x, 1", "5:1",
     "`st` cannot be .acquire: what does not read cannot acquire; "
     "legal: .weak .volatile .relaxed .release .mmio"),
    ("ld.release.gpu r1, x", "5:1", "`ld` cannot be .release: what does not write cannot release"),
    ("st.sc.gpu x, 1", "5:1", "`st` cannot be .sc: only a fence is sequentially consistent"),
    ("atom.weak.add r1, x, 1", "5:1", "`atom` cannot be .weak: it is a strong operation always"),
    ("ld.acq_rel.gpu r1, x", "5:1", "`ld` cannot be .acq_rel"),
    ("mbarrier.inval.release b", "5:1", "cannot be .release: what does not write cannot release"),
    ("atom.relaxed.gpu r1, x, 1", "5:1", "`atom` needs one of .add .sub"),
    ("atom.add.sub r1, x, 1", "5:1", "`atom` has .add .sub; keep one"),
    ("ld.relaxed r1, x", "5:1", "`ld` needs a scope after .relaxed: .cta .cluster .gpu .sys"),
    ("ld.relaxed.gpu.cta r1, x", "5:1", "`ld` has two scopes, .gpu and .cta; keep one"),
    ("ld.relaxed.acquire.gpu r1, x", "5:1", "`ld` is both .relaxed and .acquire; keep one"),
    ("ld.weak.gpu r1, x", "5:1", "`ld`: .weak takes no scope; leave out .gpu"),
    ("ld.gpu r1, x", "5:1", "a scope but no semantics; legal before it: .relaxed .acquire"),
    ("ld.mmio.relaxed.gpu r1, x", "5:1", ".mmio is written `.mmio.relaxed.sys`"),
    ("fence", "5:1", "`fence` needs a scope: .cta .cluster .gpu .sys"),
    ("fence.sc", "5:1", "`fence` needs a scope after .sc"),
    ("fence.relaxed.gpu", "5:1", "`fence` cannot be .relaxed; legal: .acq_rel .sc"),
    ("mbarrier.arrive.release.gpu b", "5:1", "`.gpu` is no scope of `mbarrier.arrive`; legal:"),
    ("ld.relxed.gpu r1, x", "5:1", "unknown modifier `.relxed`; did you mean `relaxed`?"),
    ("goto.uni L", "5:1", "`goto.uni`: unknown modifier `.uni`; it takes no modifiers"),
    ("fence.proxy.async.foo", "5:1", "unknown modifier `.foo`; legal: .global .shared::cta"),
    ("mbarier.arrive b", "5:1", "unknown opcode `mbarier.arrive`; did you mean `mbarrier.arrive`?"),
    ("mbarrier.try_wait b, 0", "5:1", "did you mean `mbarrier.try_wait.parity`?"),
    ("qqqq x, 1", "5:1", "unknown opcode `qqqq`; known: mov, add"),
    ("ld. r1, x", "5:1", "a modifier is missing after a dot"),
    ("fence.proxy", "5:1", "`fence.proxy` needs one of .generic .surface"),
    ("fence.proxy.async.global.shared::cta", "5:1", "names one space, or none for all"),
    # operands
    ("st x", "5:1", "1 operand; the form is `st x, v` (x: a location or a register with its"),
    ("st x, 1, 2", "5:1", "3 operands; the form is `st x, v`"),
    ("membar.cta 3", "5:12", "`membar` takes no operands"),
    ("atom.cas r1, x, 1", "5:1", "3 operands; the form is `atom.cas r, x, old, new`"),
    ("red.add x", "5:1", "1 operand; the form is `red x, v`"),
    ("tcgen05.mma t, s", "5:1", "takes `d` alone or `d, a, b`"),
    ("ld.weak r1, 5", "5:13", "5 is a number where a location must be"),
    ("ld.weak 5, x", "5:9", "`5` must be a register, which gets the result"),
    ("ld.weak [r1], x", "5:10", "`[r1]` must be a register"),
    ("ld.weak x[1], x", "5:9", "`x[1]` is a location; a register gets the result"),
    ("st x, r9", "5:7", "P0 never sets a register `r9`"),
    ("st x, x", "5:7", "`x` is a location; load it first, or write `&x` for its address"),
    ("st x, [x]", "5:8", "`[x]` is memory; load it into a register first"),
    ("beq r7, 0, L", "5:5", "P0 never sets a register `r7`"),
    ("goto L1", "5:6", "P0 has no label `L1`; put `L1:` where it goes"),
    ("LC00: goto LC0", "5:12", "P0 has no label `LC0`; did you mean `LC00`?"),
    ("L: L:", "5:4", "two labels `L` in one thread"),
    ("st x, 99999999999999999999", "5:7", "a number that no 32-bit word holds"),
    ("st x, 0x" + "f" * 5000, "5:7", "a number that no 32-bit word holds"),
    ("st x[-1], 1", "5:4", "`x[-1]`: an index counts from 0"),
    ("st [x+4], 1", "5:6", "unexpected `+`; an address is a location such as `x` or `x[1]`"),
    ("@p st x, 1", "5:1", "unexpected `@`; no predicates; branch around"),
    ("st x, {r1, r2}", "5:7", "unexpected `{`; no vectors; every value is one word"),
    ("exists st", "5:11", "unexpected `|`"),
    # spaces
    ("ld r1, y", "5:8", "`y` is declared for the surface proxy, and `ld` uses the generic proxy"),
    ("suld r1, y[1]", "5:10", "`y` is a second name of one word; declare `y[1]` as an alias too"),
    ("ld.shared r1, x", "5:15", "`x` is in global memory, not .shared; declare `shared x`"),
    ("ld r1, t", "5:8", "`t` is tensor memory, which only tcgen05 accesses"),
    ("mov r1, &t", "5:10", "the address of tensor memory is no value here"),
    ("tcgen05.ld r1, x", "5:16", "`x` is in global memory; `tcgen05.ld` wants a location in"),
    ("tcgen05.mma t, x, s", "5:16", "wants a location in tensor or shared memory here"),
    ("tcgen05.mma t, s, t", "5:19", "wants a location in shared memory here"),
    ("cp.async s, r1", "5:13", "`r1` is a register; name the location itself here"),
    ("cp.async.bulk x, s, b", "5:15", "with an mbarrier the copy writes shared memory"),
    ("cp.async.bulk s, x", "5:15", "the copy goes from shared to global memory"),
    ("cp.async.bulk.bulk_group s, x, b", "5:32", "names no mbarrier"),
    ("cp.async.bulk.mbarrier::complete_tx::bytes x, s", "5:1", "names it as its third operand"),
    # barriers
    ("st b, 1", "5:4", "`b` is an mbarrier; only mbarrier operations use it"),
    ("mbarrier.arrive x", "5:17", "`x` is no mbarrier; declare `mbarrier x count N`"),
    ("mbarrier.arrive bb", "5:17", "`bb` is no mbarrier; did you mean `b`?"),
    ("mbarrier.arrive 1", "5:17", "1 is a number where an mbarrier must be"),
    ("mbarrier.init b, 1", "5:15", "`b` has a count from the start; declare it `mbarrier b`"),
    ("mbarrier.arrive b, 0", "5:20", "a count of arrivals is from 1 to"),
    ("mbarrier.expect_tx b, r1", "5:23", "a count of bytes must be a number, not `r1`"),
    ("mbarrier.try_wait.parity b, 2", "5:29", "a parity is from 0 to 1, not 2"),
    ("bar.sync 16", "5:10", "the barrier's number is from 0 to 15, not 16"),
    ("bar.sync 1, 0", "5:13", "the count of threads is from 1 to"),
    ("bar.arrive 1", "5:1", "1 operand; the form is `bar.arrive v, v`"),
    ("bar.cta.sync r1", "5:14", "the instance of bar.cta must be a number"),
    ("cp.async.wait_group -1", "5:21", "a count of pending groups is from 0 to"),
]  # fmt: skip


@pytest.mark.parametrize(("cell", "place", "message"), CELLS)
def test_instructions(cell: str, place: str, message: str) -> None:
    where, said = complaint(text_of(cell))
    assert message in said
    assert where == place


INITS = [
    ("x = 0; x = 1;", "2:10", "`x` is declared twice (first on line 2)"),
    ("x = 0; shared x;", "2:10", "`x` is declared twice"),
    ("share x;", "2:3", "`share` declares nothing; legal: global, shared, tmem, mbarrier; did you"),
    ("global x @ cta 1;", "2:3", "global memory belongs to no CTA; leave out the `@`"),
    ("shared x @ cta 7;", "2:3", "no thread is in cta 7; the threads' CTAs: 0, 1"),
    ("shared x @ gpu 0;", "2:3", "memory belongs to a CTA: write `@ cta 0`, not `@ gpu`"),
    ("shared x count 2;", "2:3", "only an mbarrier has a count, and `x` is memory"),
    ("shared a; a[1] = 2;", "2:13", "all elements of `a` are in one memory"),
    ("mbarrier b;", "2:3", "nothing initialises `b`: a thread executes `mbarrier.init b, N`, or"),
    ("mbarrier b count 0;", "2:3", "an mbarrier's count is from 1 to"),
    ("mbarrier b = 1;", "2:3", "an mbarrier has no value; write `mbarrier b count N`"),
    ("mbarrier b count 1; z = b;", "2:27", "`b` is an mbarrier, not a location"),
    ("P1:r1 = 0; P1:r1 = 0;", "2:14", "`P1:r1` is set twice"),
    ("P5:r1 = 0;", "2:3", "no thread `P5`; the threads are P0, P1"),
    ("P1:r1 = zz;", "2:11", "`zz` is no location that was declared"),
    ("y @ generic aliases z;", "2:3", "`z` must be declared before it is used here"),
    ("z = q;", "2:7", "`q` must be declared before it is used here"),
    ("x = 0; y @ surfce aliases x;", "2:10", "`surfce` is no proxy; legal: generic, surface"),
    ("tmem t; y @ surface aliases t;", "2:11", "not accessed through another proxy"),
    ("x = ;", "2:7", "unexpected `;`; expected `&`, a name or a number"),
]  # fmt: skip


@pytest.mark.parametrize(("init", "place", "message"), INITS)
def test_the_init_block(init: str, place: str, message: str) -> None:
    where, said = complaint(text_of(init=init))
    assert message in said
    assert where == place


THREADS = [
    ("P0 | P0", "3:6", "two threads named `P0`"),
    ("P0@ctas 0 | P1", "3:4", "`ctas` is no level; legal: warp, cta, cluster, gpu; did you mean"),
    ("P0@cta 0,cta 1 | P1", "3:10", "`cta` is given twice for P0"),
    ("P0@cta -1 | P1", "3:4", "`cta -1`: levels are numbered from 0"),
    ("P0", "4:17", "this row has 2 cells for 1 thread in the first row"),
    ("P0 | P1 | P2", "4:31", "this row ends after 2 cells, for 3 threads in the first row"),
]


@pytest.mark.parametrize(("threads", "place", "message"), THREADS)
def test_the_thread_row(threads: str, place: str, message: str) -> None:
    where, said = complaint(text_of(threads=threads))
    assert message in said
    assert where == place


QUESTIONS = [
    ("exists P1:r7 = 1", "6:8", "P1 never sets a register `r7`"),
    ("exists z = 1", "6:8", "no location `z` in this test"),
    ("exists r1 = 1", "6:8", "no location `r1` in this test; a register is written `P0:r1`"),
    ("exists P7:r1 = 1", "6:8", "no thread `P7`; the threads are P0, P1"),
    ("exists &t = 1", "6:9", "the address of tensor memory is no value here"),
    ("locations [z;] exists true", "6:12", "no location `z` in this test"),
    ("filter z = 1 exists true", "6:8", "no location `z` in this test"),
    ("filter true filter true exists true", "6:13", "a second `filter`; a test has at most one"),
    ("", "5:5", "unexpected end of the file; expected `;`, `exists`"),
    ("exists (P1:r1 = )", "6:17", "unexpected `)`; expected `&`, `[`, a name or a number"),
    ("exists x = 1 foo", "6:14", "unexpected `foo`; expected `/\\`, `:`, `\\/` or the end"),
    ("exists " + "~" * 3000 + "x = 1", "6:2967", "a condition nested more than 40 deep"),
    ("exists " + "~(" * 100 + "x = 1" + ")" * 100, "6:126", "nested more than 40 deep"),
    ("exists " + "(x = 1 /\\ (x = 1 \\/ " * 40 + "true" + "))" * 40, "6:409", "nested more than"),
    ("exists " + "(" * 5000, "6:5008", "unexpected end of the file"),
]


@pytest.mark.parametrize(("question", "place", "message"), QUESTIONS)
def test_the_question(question: str, place: str, message: str) -> None:
    where, said = complaint(text_of(question=question))
    assert message in said
    assert where == place


FILES = [
    ("", "1:1", "this is no litmus test; a litmus test for PTX starts with `PTX NAME`"),
    ("X86 a {x = 0;}", "1:1", "the file starts with `X86`"),
    ("PTX a", "1:6", "unexpected end of the file; expected `{`"),
    ('PTX a "b { }', "1:7", 'unexpected `"`; expected `{`'),
    ("PTX a { }", "1:10", "unexpected end of the file; expected a name"),
    ("(* a (* b *)\nPTX", "1:1", "a comment that is never closed; end it with `*)`"),
    ("(* @expect maybe *)\n" + text_of(), "1:4", "`@expect` needs an answer: holds, fails, race"),
    ("(* @expect holds foo=1 *)\n" + text_of(), "1:4", "`foo=1` is no condition; write isa="),
    ("(* \n @rul x *)\n" + text_of(), "2:2", "unknown directive `@rul`; did you mean `rule`?"),
    ("PTX " + "a" * 200_000, "1:1", "more than 200,000 characters: no litmus test"),
]


@pytest.mark.parametrize(("text", "place", "message"), FILES)
def test_files(text: str, place: str, message: str) -> None:
    where, said = complaint(text)
    assert message in said
    assert where == place


def test_many_threads() -> None:
    names = " | ".join(f"P{number}" for number in range(65))
    text = f"PTX t\n{{ }}\n{names} ;\nst x, 1{' |' * 64} ;\nexists x = 1"
    assert complaint(text) == ("3:375", "more than 64 threads")


def test_a_mistake_without_a_file() -> None:
    with pytest.raises(InputError) as caught:
        parse("no")
    assert caught.value.where == "<litmus>:1:1"


def test_much_nesting_and_width_is_no_trouble() -> None:
    """Parentheses alone nest nothing; a long conjunction is flat."""
    wide = " /\\ ".join(["x = 1"] * 2000)
    started = time.monotonic()
    test = parse(text_of(question=f"exists {'(' * 3000}{wide}{')' * 3000}"))
    assert len(getattr(test.condition, "parts", ())) == 2000
    assert time.monotonic() - started < 20
