# ruff: noqa: E501 (forms of the shell, each on its line)
"""Scripts that no one wrote: every construct of bash, in any order and within each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

NAMES = ("A", "B", "C", "D", "E")
VALUES = ("1", "4", "16", "a", "b", "x/y.z", "a b", "", "--k v", "a,b", "0", "-1", "08", "Ab")
PLAIN = ("1", "2", "4", "a", "b", "ab", "x1", "7b")
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "8",
    "10",
    "0x1f",
    "017",
    "2#101",
    "A",
    "B",
    "$C",
    "9223372036854775807",
)
OPERATORS = (
    *("+", "-", "*", "/", "%", "**", "<<", ">>", "&", "|", "^", "<", ">", "<=", ">=", "==", "!="),
    *("&&", "||", ","),
)
ASSIGNING = ("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=")
PATTERNS = (
    *("a*", "*b", "?", "[0-9]", "[!0-9]", "[^a]", "[[:digit:]]*", "[[:alpha:]]", "*", '""', "a|b"),
    *("'a*'", "${A}", '"$B"', "[a-c1]*", "*[[:space:]]*", "x/*", "-*", "\\*"),
)
TERMINATORS = (";;", ";;", ";;", ";&", ";;&")


class Writer:
    """Writes one script by chance."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._depth = 0
        self._loops = 0

    def script(self) -> str:
        lines = [f"{name}={self._quoted(self._one(VALUES))}" for name in self._some(NAMES, 2)]
        lines += ["f() { return 0; }", "R=(1 'a b' 3)"][: self._random.randint(0, 2)]
        if self._chance(0.25):
            lines.append(self._one(("set -e", "set -u", "set -o pipefail", "set -- x 'y z' 3")))
        lines += [self.statement() for _ in range(self._random.randint(2, 6))]
        return "\n".join([*lines, self._train()]) + "\n"

    def _one(self, choices: Sequence[str]) -> str:
        return self._random.choice(choices)

    def _some(self, choices: Sequence[str], least: int) -> list[str]:
        return self._random.sample(list(choices), self._random.randint(least, len(choices)))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _name(self) -> str:
        return self._one(NAMES)

    def _quoted(self, text: str) -> str:
        return self._one((f"'{text}'", f'"{text}"'))

    def _train(self) -> str:
        words = " ".join(self.word() for _ in range(self._random.randint(1, 4)))
        prefix = self._one(("", "", "", f"{self._name()}={self.word()} ", "command ", "time "))
        behind = self._one(("", "", "", " > /dev/null", " 2>&1", " <<< x", " | cat"))
        launcher = self._one(("train", "torchrun --nproc_per_node 8 pretrain_gpt.py"))
        return f"{prefix}{launcher} --micro-batch-size {words}{behind}"

    def word(self) -> str:
        """A word of any make."""
        name, other = self._name(), self._name()
        forms: list[Callable[[], str]] = [
            lambda: f"${name}",
            lambda: f'"${name}"',
            lambda: f"p${{{name}}}q",
            lambda: f'"{self._one(PLAIN)} ${{{name}}}"',
            lambda: f"'${name}'",
            lambda: self._one(PLAIN),
            lambda: f"${{{name}:-{self._one(('d', 'd e', f'${other}'))}}}",
            lambda: f'"${{{name}-{self._one(("d", "d e", f"${other}"))}}}"',
            lambda: f"${{{name}:+{self._one(('t', 't u', f'${other}'))}}}",
            lambda: f"${{{name}:={self._one(PLAIN)}}}",
            lambda: f"${{#{name}}}",
            lambda: (
                f"${{{name}{self._one(('#', '##', '%', '%%'))}{self._one(('*.', '*', '?', 'a', '[0-9]', '*/', '${A}'))}}}"
            ),
            lambda: (
                f"${{{name}{self._one(('/', '//', '/#', '/%'))}{self._one(('a', '[a-z]', '[[:digit:]]', '?', ' ', ','))}/{self._one(('', '-', 'x y', f'${other}'))}}}"
            ),
            lambda: f"${{{name}{self._one(('^^', '^', ',,', ','))}}}",
            lambda: (
                f"${{{name}:{self._one(('0', '1', ' -1', '2'))}{self._one(('', ':1', ':2', ': -1'))}}}"
            ),
            lambda: f"$(({self.expression()}))",
            lambda: f"$(echo {self._plain_word()})",
            lambda: f'"$(printf "%s-" {self._plain_word()})"',
            lambda: f"`echo ${name}`",
            lambda: '"${R[@]}"' if self._chance(0.5) else "${R[@]}",
            lambda: self._one(
                (
                    "${R[0]}",
                    "${R[1]}",
                    "${#R[@]}",
                    '"${R[*]}"',
                    "${R[-1]}",
                    "${!R[@]}",
                    '"${R[@]:1}"',
                    '"${R[@]/a/b}"',
                )
            ),
            lambda: self._one(('"$@"', "$*", '"$*"', "$#", "$1", '"${2:-no}"', "${@:2}")),
            lambda: self._one(
                ("{1..3}", "x{a,b}", "{a,b}{1,2}", "{a}", f"{{${name},z}}", "{3..1}", "{01..03}")
            ),
            lambda: f"$'{self._one(('a', 'b c', chr(92) + 't', chr(92) + 'x41'))}'",
            lambda: f"${{!{name}-none}}" if self._chance(0.1) else f"{name}",
            lambda: "$?",
        ]
        return self._random.choice(forms)()

    def _plain_word(self) -> str:
        return self._one((f"${self._name()}", f'"${self._name()}"', *PLAIN, '"${R[@]}"', "a b"))

    def expression(self, depth: int = 0) -> str:
        """An expression of any operators."""
        if depth > 2 or self._chance(0.35):
            return self._one(NUMBERS)
        kind = self._random.randint(0, 9)
        one = self.expression(depth + 1)
        if kind == 0:
            return f"({one})"
        if kind == 1:
            return (
                f"{self._one(('-', '+', '~', '!', '- -'))}{one}"
                if not one.startswith(("-", "+"))
                else one
            )
        if kind == 2:
            return f"{self._name()}{self._one(('++', '--'))}"
        if kind == 3:
            return f"{self._one(('++', '--'))}{self._name()}"
        if kind == 4:
            return f"({self._name()} {self._one(ASSIGNING)} {one})"
        if kind == 5:
            return f"{one} ? {self.expression(depth + 1)} : {self.expression(depth + 1)}"
        return f"{one} {self._one(OPERATORS)} {self.expression(depth + 1)}"

    def condition(self) -> str:
        """What is asked by if, while, && and the like."""
        name, other = self._name(), self._name()
        text = self._one((f"${name}", f'"${name}"', f'"${{{name}:-}}"', f"${{#{name}}}"))
        value = self._one((f'"${other}"', f"${other}", *PLAIN))
        forms = (
            f"[ {text} {self._one(('=', '!=', '=='))} {value} ]",
            f"[ {self._one(('-n', '-z', '!', '! -z', ''))} {text} ]",
            f"[ {text} {self._one(('-eq', '-ne', '-lt', '-le', '-gt', '-ge'))} {self._one(('1', '4', value))} ]",
            f"[ {text} = {value} {self._one(('-a', '-o'))} -n {text} ]",
            f"[[ {text} {self._one(('=', '!=', '=='))} {self._one(PATTERNS).replace('|', '')} ]]",
            f"[[ {self._one(('-n', '-z', '! -z', ''))} {text} ]]",
            f"[[ {text} {self._one(('&&', '||'))} {text} == {value} ]]",
            f"[[ {text} =~ {self._one(('^[0-9]+$', 'a', '^(a|b)$', '([a-z])([0-9])', '^$', '[[:space:]]'))} ]]",
            f"[[ {self._one(('1', '4', name))} {self._one(('-eq', '-lt', '-gt'))} {self._one(('1', '2+2', '4'))} ]]",
            f"test {text} != {value}",
            f"(({self.expression()}))",
            self._one(
                ("true", "false", "! true", "! false", ":", "f", "f 1", "(exit 3)", "f && true")
            ),
            f"let '{self.expression()}'",
            f"[[ -v {name} ]]",
            "[ -f none ]",
            "[ $(date) ]",
        )
        return self._one(forms)

    def statement(self) -> str:
        """One statement, with others within it."""
        if self._depth >= 3:
            return self.simple()
        self._depth += 1
        try:
            return self._random.choice(self._compound)() if self._chance(0.55) else self.simple()
        finally:
            self._depth -= 1

    def _block(self, separator: str = "; ") -> str:
        return separator.join(self.statement() for _ in range(self._random.randint(1, 3)))

    @property
    def _compound(self) -> Sequence[Callable[[], str]]:
        return (
            self._if,
            self._if,
            self._case,
            self._for,
            self._for,
            self._counting,
            self._while,
            self._function,
            self._chain,
            self._chain,
            self._subshell,
            self._reading,
        )

    def _if(self) -> str:
        others = "".join(
            f"elif {self.condition()}; then {self._block()}\n"
            for _ in range(self._random.choice((0, 0, 1)))
        )
        last = f"else {self._block()}\n" if self._chance(0.6) else ""
        return f"if {self.condition()}; then\n{self._block()}\n{others}{last}fi"

    def _case(self) -> str:
        items = " ".join(
            f"{self._one(('', '('))}{self._one(PATTERNS)}) {self._block()} {self._one(TERMINATORS)}"
            for _ in range(self._random.randint(1, 4))
        )
        return f"case {self._one((f'${self._name()}', self._quoted('$A'), 'ab', '$1'))} in {items} esac"

    def _for(self) -> str:
        words = " ".join(self.word() for _ in range(self._random.randint(1, 3)))
        listed = self._one((f" in {words}", f" in {words}", "", " in 1 2 3", " in $(seq 2)"))
        return f"for {self._name()}{listed}; do\n{self._body()}\ndone"

    def _body(self) -> str:
        self._loops += 1
        try:
            block = self._block("\n")
            leaves = ""
            if self._chance(0.5):
                way = self._one(("break", "continue"))
                level = self._one(("", "", " 2", " 1"))
                leaves = f"{self.condition()} && {way}{level}\n"
            return f"{leaves}{block}" if self._chance(0.5) else f"{block}\n{leaves}:"
        finally:
            self._loops -= 1

    def _counting(self) -> str:
        name = self._one(("I", "J"))
        return (
            f"for (({name} = 0; {name} < {self._one('123')}; {name}++)); do\n{self._body()}\ndone"
        )

    def _while(self) -> str:
        name = self._one(("K", "L"))
        asked = self._one((f"[ ${name} -lt 3 ]", f"(({name} < 3))", f"[[ ${name} -ne 3 ]]"))
        kind, asked = ("until", f"! {asked}") if self._chance(0.3) else ("while", asked)
        return f"{name}=0; {kind} {asked}; do {name}=$(({name} + 1))\n{self._body()}\ndone"

    def _function(self) -> str:
        name = self._one("fgh")
        local = f"local {self._name()}={self.word()}; " if self._chance(0.5) else ""
        leaves = self._one(
            (
                "",
                "",
                "return",
                "return 1",
                f"return $(({self._one('0123')}))",
                f"{self.condition()} && return 2",
                "shift",
            )
        )
        body = f"{local}{self._block()}; {leaves or ':'}; {self._block()}"
        arguments = " ".join(self.word() for _ in range(self._random.randint(0, 2)))
        called = self._one(
            (
                f"{name} {arguments}",
                f"if {name} {arguments}; then {self.simple()}; fi",
                f"{name} || {self.simple()}",
                f"{self._name()}=$({name} {arguments})",
            )
        )
        head = self._one((f"{name}()", f"function {name}"))
        return f"{head} {{\n{body}\n}}\n{called}"

    def _chain(self) -> str:
        first = self.condition()
        parts = [
            f"{self._one(('&&', '||'))} {self._one((self.simple(), self.condition()))}"
            for _ in range(self._random.randint(1, 2))
        ]
        return " ".join([first, *parts])

    def _subshell(self) -> str:
        block = self._block()
        return self._one(
            (
                f"({block})",
                f"{{ {block}; }}",
                f"({block}) &\nwait",
                f"{{ {block}; }} | cat",
                f"{self._name()}=$({block})",
                f"({block}; exit {self._one('012')}) || {self.simple()}",
            )
        )

    def _reading(self) -> str:
        one, two = self._name(), self._name()
        return self._one(
            (
                f"while read -r {one} {two}; do {self._block()}; done <<< $'a b\\nc d e'",
                f'echo "${one} x" | while read {two}; do {self.simple()}; done',
                f"cat > out <<EOF\n${one} k\nEOF\n{two}=$(cat out)",
                f"mapfile -t R < <(printf '%s\\n' {self._plain_word()} z)",
                f"while getopts 'ab:' O -a -b 4 -c; do {one}=$O{two}; {two}=$OPTARG; done; OPTIND=1",
            )
        )

    def simple(self) -> str:
        """A statement without others in it."""
        name, other = self._name(), self._name()
        forms: list[Callable[[], str]] = [
            lambda: f"{name}={self.word()}",
            lambda: f"{name}+={self._plain_word()}".replace('"${R[@]}"', "r").replace("a b", "ab"),
            lambda: f"{name}=$(({self.expression()}))",
            lambda: f"(({self.expression()}))",
            lambda: f"let {name}=2+3",
            lambda: f"R=({self.word()} {self.word()})",
            lambda: f"R+=({self.word()})",
            lambda: f"R[{self._one(('0', '2', '-1', '1+1'))}]={self.word()}",
            lambda: f"unset {self._one((name, name, 'R[1]', 'R', '-v ' + name, '-f g'))}",
            lambda: f"export {name}={self._plain_word()}".replace('"${R[@]}"', "r").replace(
                "a b", "ab"
            ),
            lambda: (
                f"declare {self._one(('-i', '-x', '-u', '-l', '-r', '-g', '-a', '', '+x', '+i'))} {self._one('FGHAB')}={self._one(PLAIN)}"
            ),
            lambda: (
                f"declare -A M=([x]={self._one(PLAIN)} [y]=2); {name}=${{M[{self._one('xyz')}]}}"
            ),
            lambda: (
                f"printf -v {name} '{self._one(('%s', '%d', '%03d', '%s,', '%x', '%5s', '%-3s|'))}' {self._one((*PLAIN, f'${other}'))}"
            ),
            lambda: f"read -r {name} {other} <<< {self._plain_word()}",
            lambda: f'IFS={self._one((",", ":", "/"))} read -ra R <<< "${name}"',
            lambda: f"set -- {self.word()} {self.word()}",
            lambda: f"shift {self._one(('', '', '2'))}",
            lambda: (
                f"eval {self._one((f'{name}=5', f'{name}=${other}', repr(f'{name}=${other}')))}"
            ),
            lambda: f"{name}=`echo {self._plain_word()}`",
            lambda: f"IFS={self._one((',', ':', chr(39) * 2, '/a'))}" if self._chance(0.3) else ":",
            lambda: self._train(),
            lambda: self._train(),
            lambda: self._one(("f", "g 1 2", "f a && g", "h || true")),
            lambda: (
                self._one(
                    ("exit 3", "trap 'train trapped' EXIT", "set +e", "return 0", "exec train last")
                )
                if self._chance(0.12)
                else "true"
            ),
            lambda: self._one(
                (
                    "false",
                    "true",
                    "! true",
                    "set -f",
                    "set +f",
                    f"echo {self._plain_word()} > /dev/null",
                )
            ),
            lambda: f"{name}=$(date)" if self._chance(0.3) else f"{name}={self._one(PLAIN)}",
            lambda: f"source ./sourced.sh {self._one(('', 'p'))}",
            lambda: f"[[ ${name} =~ ([a-z])([0-9]*) ]] && {other}=${{BASH_REMATCH[1]}}",
            lambda: f"declare -n N={name}; N={self._one(PLAIN)}; {other}=$N",
        ]
        return self._random.choice(forms)()


SOURCED = """A=sourced
[ "$1" = p ] && return 1
B=more
"""
"""A file that the scripts source."""


def script(seed: int) -> str:
    return Writer(seed).script()
