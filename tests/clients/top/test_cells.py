"""Changes of a screen: whatever was shown before, a terminal that gets them shows what a fresh one would."""

from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from rich.text import Text

from lifebus.top.cells import BEGIN, END, Cell, cells_of, changes, line_text, painter
from support.top_terminal import shown_by

WIDTH, HEIGHT = 12, 3
STYLES = (Style.null(), Style(bold=True), Style(color="red"), Style(reverse=True, color="yellow"))

pieces = st.lists(st.tuples(st.text(alphabet="ab █·漢é…\u0323", max_size=8), st.sampled_from(STYLES)), max_size=4)
screens = st.lists(pieces, min_size=HEIGHT, max_size=HEIGHT)


def rows(screen: list[list[tuple[str, Style]]]) -> list[list[Cell]]:
    lines: list[list[Cell]] = []
    for parts in screen:
        line = Text()
        for text, style in parts:
            line.append(text, style)
        lines.append(cells_of(line, WIDTH))
    return lines


@given(st.lists(screens, min_size=1, max_size=4))
def test_changes_lead_to_what_a_fresh_screen_shows(history: list[list[list[tuple[str, Style]]]]) -> None:
    paint = painter(colored=True)
    written: list[str] = []
    old: list[list[Cell]] | None = None
    for screen in history:
        new = rows(screen)
        written.append(changes(old, new, paint))
        old = new
    assert old is not None
    followed = shown_by(written, WIDTH, HEIGHT)
    fresh = shown_by([changes(None, old, paint)], WIDTH, HEIGHT)
    assert followed.display == fresh.display
    for number in range(HEIGHT):
        for column in range(WIDTH):
            assert followed.buffer[number][column] == fresh.buffer[number][column]


@given(screens)
def test_the_same_screen_writes_nothing(screen: list[list[tuple[str, Style]]]) -> None:
    assert changes(rows(screen), rows(screen), painter(colored=True)) == ""


def test_one_letter_costs_one_letter_inside_a_synchronised_update() -> None:
    paint = painter(colored=True)
    written = changes(rows([[("abc", STYLES[0])]]), rows([[("abd", STYLES[0])]]), paint)
    assert written == f"{BEGIN}\x1b[1;3Hd{END}"


def test_blanks_to_the_end_of_a_line_are_one_code() -> None:
    paint = painter(colored=True)
    assert (
        changes(rows([[("abcdefg", STYLES[0])]]), rows([[("a", STYLES[0])]]), paint) == f"{BEGIN}\x1b[1;2H\x1b[K{END}"
    )


@given(pieces)
def test_a_line_is_cut_to_its_width(parts: list[tuple[str, Style]]) -> None:
    (row,) = rows([parts])
    assert len(row) == WIDTH


def test_without_colour_bold_and_reversed_text_stay_so() -> None:
    text = Text("a", Style(bold=True, color="red"))
    assert line_text(text, 5, painter(colored=False)) == "\x1b[1ma\x1b[0m"
    assert line_text(Text("a", Style(color="red")), 5, painter(colored=False)) == "a"
