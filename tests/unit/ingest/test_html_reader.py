"""HTML: what of a page is text, how it is laid out, and in which encoding it comes."""

import codecs
import contextlib
from datetime import UTC, datetime

import pytest

from groundwire.ingest.chunking.cuts import sections_of
from groundwire.ingest.parsing.html_reader import MAX_ATTRIBUTES, MAX_DEPTH, read_html
from groundwire.kernel.document_errors import DocumentEncodingError, DocumentLimitError, EmptyDocumentError
from groundwire.kernel.errors import InvalidRequestError
from tests.growth import LINEAR, growth


def text_of(html: str) -> str:
    return read_html(html.encode(), "content").text


def titles_of(html: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in read_html(html.encode(), "content").outline.headings]


def test_headings_and_paragraphs_are_blocks_and_inline_tags_are_nothing() -> None:
    found = read_html(
        b"<h1>Of <em>Tides</em></h1><p>The moon\n  <b>pulls</b>.</p><h3>Deep</h3>Loose text<p>End", "content"
    )
    assert found.text == "# Of Tides\n\nThe moon pulls.\n\n### Deep\n\nLoose text\n\nEnd"
    assert [(heading.level, heading.text) for heading in found.outline.headings] == [(1, "Of Tides"), (3, "Deep")]
    assert [found.text[heading.start : heading.end] for heading in found.outline.headings] == ["# Of Tides", "### Deep"]


@pytest.mark.parametrize(
    ("box", "is_section"), [("note", False), ("Warning box", False), ("example", False), ("notes", True), ("", True)]
)
def test_the_title_of_a_note_begins_no_section(box: str, is_section: bool) -> None:
    html = (
        f'<h2>Tides</h2><p>They rise.</p><div class="{box}"><h3 class="title">Note</h3><p>Twice.</p></div><p>They fall.'
    )
    note = "### Note" if is_section else "Note"
    assert text_of(html) == f"## Tides\n\nThey rise.\n\n{note}\n\nTwice.\n\nThey fall."


def test_scripts_styles_navigation_and_what_is_hidden_are_left_out() -> None:
    noise = "<script>a < b</script><style>p {}</style><nav><ul><li>Home</ul></nav><template><p>no</p></template>"
    assert text_of(f"<title>T</title>{noise}<ul hidden><li>no</ul><!-- no --><p>Yes.{noise}") == "Yes."


def test_entities_are_decoded_and_controls_are_replaced() -> None:
    assert text_of("<p>tr&egrave;s &amp; &#x1F30A; &lt;b&gt; &#1;") == "très & 🌊 <b> \ufffd"


def test_lists_keep_their_markers_numbers_and_depth() -> None:
    html = "<ul><li>One<li><p>Two</p><p>more</p><ol><li>a</li><li>b</li></ol></li></ul><p>End"
    assert text_of(html) == "- One\n- Two\n  more\n  1. a\n  2. b\n\nEnd"
    assert text_of("<ol start=4><li>a<li value=7>b<li>c<li value=x>d</ol><ol start=''><li>e") == (
        "4. a\n7. b\n8. c\n9. d\n1. e"
    )
    assert text_of("<ul><li><h3>One</h3>a<br>b</ul><h3>Two</h3>") == "- One\n  a\n  b\n\n### Two"
    assert text_of("<ul><li></ul><pre>x</pre>") == "```\nx\n```"
    assert text_of("<ul><li>x" * 12).splitlines()[-1] == f"{' ' * 16}- x"


@pytest.mark.parametrize(
    "noise",
    [
        '<div role="navigation"><a>Next</a></div>',
        '<div role="dialog"><p>Subscribe!</p></div>',
        '<div id="cookie-banner"><p>We use cookies.</p></div>',
        '<section class="site cookieConsent x">We use cookies.</section>',
        '<p style="color: red; DISPLAY: none">Spam</p>',
        "<form><button>Send</button><textarea>typed</textarea></form>",
    ],
)
def test_what_no_reader_of_the_page_reads_is_no_text(noise: str) -> None:
    page = '<div role="main"><section id="cookies"><p>Cookies are small files.</p></section></div>'
    assert text_of(f"{noise}{page}") == "Cookies are small files."


def test_a_page_is_read_whatever_scripts_say_about_all_of_it() -> None:
    page = '<html class="has-cookie-banner"><body class="toc" style="display: none" hidden><p>Tides rise.</p></body>'
    assert text_of(page) == "Tides rise."


def test_what_xhtml_closes_in_its_own_tag_holds_nothing_that_follows() -> None:
    page = '<?xml version="1.0"?><html><head><title/><script src="a.js" /></head><body>A <a id="b>"/>tide<br/>rises.'
    assert text_of(page) == "A tide\nrises."
    assert text_of(f"<p>Tides <svg>{'<path/>' * (MAX_DEPTH + 1)}</svg>rise.</p>") == "Tides rise."
    # The slash belongs to the attribute.
    assert text_of("<div class=toc/><p>Foxes eat mice.</p></div><nav id=a/>Home</nav>") == "Foxes eat mice."


@pytest.mark.parametrize(
    "frames",
    ['<frameset><frame src="a.html"><noframes><p>Old.</noframes></frameset>', '<iframe src="a.html"></iframe>'],
)
def test_a_page_of_frames_is_refused_saying_so(frames: str) -> None:
    with pytest.raises(EmptyDocumentError, match="ingest the pages that its frames show"):
        read_html(frames.encode(), "content")
    with pytest.raises(EmptyDocumentError, match=r"is a page without text$"):
        read_html(b"<p></p>", "content")


def test_a_table_becomes_one_of_markdown() -> None:
    row = "<tr><td>Moon<br>light</td><td><p>1</p><p>2</p></td><td><table><tr><td>x<td>y</table></td></tr>"
    html = f"<table><caption>Pull</caption><tr><th>Body<th>Force<th>In</tr>{row}<tr><td></table>"
    inner = "<table><tr><th>A<th>B<tr><td><table><tr><td><h3>x</h3></table><p>y</p>z<td>w</table>"
    assert text_of(f"{inner}<table><tr><td>c<td>d</table>") == "| A | B |\n| --- | --- |\n| x y z | w |\n\n| c | d |"
    assert text_of("<table><tr><td>a<th>b<tr><td>c<th>d<tr><th>e<th>f</table>") == "| a | b |\n| c | d |\n| e | f |"
    assert text_of("<table><tr><td rowspan=2>a<td rowspan=2>b<tr></tr><tr><td>c<td>d</table>").endswith("| c | d |")
    assert text_of("<table><tr><td>a<td rowspan=2>b<tr><td>c</table>") == "| a | b |\n| c | b |"
    assert text_of("<table><tr><th>a<th>b</table><ul><li>c</ul>") == "| a | b |\n\n- c"
    assert text_of("<table><tr><td>a|b</table>") == "a|b"
    assert text_of(f"<ul><li>a</ul>{html}<p>b") == (
        "- a\n\nPull\n\n| Body | Force | In |\n| --- | --- | --- |\n| Moon light | 1 2 | x y |\n\nb"
    )


def test_cells_of_several_rows_or_columns_keep_the_columns_apart() -> None:
    rows = [
        "<thead><tr><td>System<td>Kind<td>Version</thead>",
        '<tr><td rowspan="2">Linux<td>x86<td>a|b<tr><td>arm<td>5',
        '<tr><td colspan="2">Others<td rowspan="200">6<tr><td colspan=0>Last<td>1',
    ]
    assert text_of(f"<table>{''.join(rows)}</table>") == (
        "| System | Kind | Version |\n| --- | --- | --- |\n| Linux | x86 | a\\|b |\n| Linux | arm | 5 |\n"
        "| Others |  | 6 |\n| Last | 1 |  |"
    )


def test_columns_that_are_empty_in_all_rows_are_no_columns() -> None:
    note = "<table><tr><td rowspan=2><img src='note.png'><th>Note<tr><td>Owls hunt | by night.</table>"
    assert text_of(note) == "Note\n\nOwls hunt | by night."
    spaced = "<table><tr><th>Owl<th> <th>Fox<tr><td>vole<td>&nbsp;<td>mouse<tr><td><td><td>hare</table>"
    assert text_of(spaced) == "| Owl | Fox |\n| --- | --- |\n| vole | mouse |\n|  | hare |"


def test_tables_that_lay_out_a_page_are_none() -> None:
    data = "<table><tr><th>Fox<th>Owl<tr><td>mice<td>voles</table>"
    outer = f"<table><tr><td><h1>Tides</h1><p>One.<td>Two.<tr><td><div>Three.</div>{data}<p>Four.</table>"
    found = read_html(outer.encode(), "content")
    assert found.text == (
        "# Tides\n\nOne.\n\nTwo.\n\nThree.\n\n| Fox | Owl |\n| --- | --- |\n| mice | voles |\n\nFour."
    )
    assert [heading.text for heading in found.outline.headings] == ["Tides"]
    for level in (2, 3):
        page = f"<table><tr><td><h{level}>Tides</h{level}>One.<td>Two.</table>"
        assert text_of(page) == f"{'#' * level} Tides\n\nOne.\n\nTwo."
    column = f"<table><tr><td>Foxes eat mice.<tr><td>Owls do too.</table><table><tr><td>{'a ' * 600}<td>b</table>"
    assert text_of(column) == f"Foxes eat mice.\n\nOwls do too.\n\n{('a ' * 600).strip()}\n\nb"


@pytest.mark.parametrize(
    "attribute",
    [
        'class="big navfooter"',
        'class="toc"',
        'class="nav_table"',
        'class="nav-panel"',
        'class="genindextable"',
        'role="navigation"',
    ],
)
def test_links_to_other_pages_are_no_text(attribute: str) -> None:
    page = f"<div {attribute}><ul><li><a href=a>Prev</a><li>Home</ul></div><p class=navy>Tides rise.</p>"
    assert text_of(page) == "Tides rise."


def test_a_term_and_what_explains_it_are_one_line() -> None:
    html = (
        "<dl><dt>Den:<dd><p>where a fox sleeps</p><p>It is dark.</p><dt>Earth<dt>Sett<dd>a den of others"
        "<dt>Kit<dd><ul><li>young</ul><dt>Last</dl><p>End"
    )
    assert text_of(html) == (
        "- Den: where a fox sleeps\n  It is dark.\n\nEarth, Sett: a den of others\n\n- Kit: young\n\nLast\n\nEnd"
    )


def test_what_explains_a_term_in_several_blocks_is_an_item_that_shows_where_it_ends() -> None:
    html = (
        "<dl><dt>Den<dd><p>Of foxes.</p><ul><li>dark<li>dry</ul><p>It is old.</p><dt>Sett<dd><p>Of others.</p></dl>End."
        "<dl><dd><p>No term.</p><p>Plain.</p></dl><dl><dt>Earth<dd><h2>Soil</h2><p>Deep.</p><p>Dark.</p></dl>"
    )
    assert text_of(html) == (
        "- Den: Of foxes.\n  - dark\n  - dry\n  It is old.\n\nSett: Of others.\n\nEnd.\n\nNo term.\n\nPlain."
        "\n\nEarth\n\n## Soil\n\nDeep.\n\nDark."
    )


@pytest.mark.parametrize("inside", ["<h3>x</h3>", "<pre>x</pre>", "<table><tr><td>x<td>y</table>"])
def test_a_term_stands_above_what_is_no_paragraph(inside: str) -> None:
    introduces = ":" if inside.startswith("<pre>") else ""
    assert text_of(f"<dl><dt>Den<dd>{inside}</dl>").startswith(f"Den{introduces}\n\n")


def test_code_that_explains_a_term_is_no_item_and_text_behind_it_is() -> None:
    html = "<dl><dt>Dig a den:</dt><dd><pre>dig</pre><ol><li>Foxes do.</li></ol></dd></dl>"
    assert text_of(html) == "Dig a den:\n\n```\ndig\n```\n\n  1. Foxes do."


def test_terms_below_the_text_of_an_item_are_items_of_it() -> None:
    inner = "<dl><dt>--soft<dd>Digs.</dd><dt>--hard<dd>Fills.</dd></dl>"
    text = "- dig [MODE]: One of:\n  - --soft: Digs.\n  - --hard: Fills."
    assert text_of(f"<dl><dt>dig [MODE]<dd><p>One of:</p>{inner}</dd></dl>") == text
    assert text_of(f"<ul><li>One of: {inner}</ul>") == "- One of:\n  - --soft: Digs.\n  - --hard: Fills."


def test_questions_and_options_in_a_list_of_definitions_are_sections() -> None:
    html = (
        "<h2>Foxes</h2><dl><dt>May I?<dt>How?<dd>No.<dt>-d<dt>--dig=&lt;n> (deep)<dd><p>Digs.<p>Foxes do.</dd>"
        "<dt>- none<dd>Sleeps.</dd></dl>"
    )
    assert text_of(html) == (
        "## Foxes\n\n### May I?, How?\n\nNo.\n\n### `-d, --dig=<n> (deep)`\n\nDigs.\n\nFoxes do.\n\n- none: Sleeps."
    )
    named = [(2, "Foxes"), (3, "May I?, How?"), (2, "Foxes"), (3, "-d, --dig=<n> (deep)"), (2, "Foxes")]
    assert [each for each in titles_of(html) if each != (2, "Foxes")] == [named[1], named[3]]
    assert text_of(f"<ul><li>{html[14:]}</ul>").startswith("- May I?, How?: No.\n")


_SHELTER = (
    '<h2>Dens</h2><p>Of foxes.<dl class="py class"><dt class="sig sig-object py" id="dens.Den">'
    '<em class="property">class </em><span>dens.</span><span>Den</span>(<em>depth=1</em>)</dt>'
    '<dd><p>Shelters a fox.</p><dl class="py method"><dt class="sig" id="dens.Den.dig">dig(<em>by</em>) &#8594; int'
    "</dt><dd><p>Makes it deeper.</p><p>Returns the depth.</p></dd></dl></dd></dl><h2>Setts</h2><p>Of badgers."
)


def test_each_entry_of_a_reference_is_a_section_below_its_name() -> None:
    text = read_html(_SHELTER.encode(), "content")
    assert text.text == (
        "## Dens\n\nOf foxes.\n\n### class `dens.Den`\n\n`(depth=1)`\n\nShelters a fox.\n\n#### `dig`\n\n"
        "`(by) \u2192 int`\n\nMakes it deeper.\n\nReturns the depth.\n\n## Setts\n\nOf badgers."
    )
    headings = [(each.level, each.text) for each in text.outline.headings]
    assert headings == [(2, "Dens"), (3, "class dens.Den"), (4, "dig"), (2, "Setts")]


def test_what_follows_the_entries_of_a_reference_belongs_to_the_section_that_they_stand_in() -> None:
    entry = '<dl class="py function"><dt class="sig" id="dig">dig(by)</dt><dd>Digs.{}</dd></dl>'
    nested = entry.format(f"{entry.format('')}<p>Well.") + "<p>All dig.<p>All sleep."
    text = read_html(f"<h1>Dens</h1>{nested}{entry.format('')}<h2>Setts</h2>Of badgers.".encode(), "content")
    sections = [
        (section.path[-1].text, " ".join(text.text[section.body_start : section.end].split()))
        for section in sections_of(text.outline, 0, len(text.text))
    ]
    assert sections == [
        ("Dens", ""),
        ("dig", "`(by)` Digs."),
        ("dig", "`(by)` Digs."),
        ("dig", "Well."),
        ("Dens", "All dig. All sleep."),
        ("dig", "`(by)` Digs."),
        ("Setts", "Of badgers."),
    ]
    assert [section.path[0].text for section in sections_of(text.outline, 0, len(text.text))] == ["Dens"] * 7
    # A heading inside of an entry changes nothing behind it.
    inside = entry.format("<h4>Deeply</h4>Down.")
    within = read_html(f"<h1>Dens</h1>{inside}<p>All dig.{entry.format('')}".encode(), "content")
    levels = [(each.level, each.text) for each in within.outline.headings]
    assert levels == [(1, "Dens"), (2, "dig"), (4, "Deeply"), (1, "Dens"), (2, "dig")]
    # Without a heading above it there is nothing to come back to.
    alone = read_html(f"{entry.format('')}<p>All dig.".encode(), "content")
    assert [each.text for each in alone.outline.headings] == ["dig"]


@pytest.mark.parametrize(
    ("terms", "shown"),
    [
        (["dens.MAX = 3"], "# `dens.MAX`\n\n`= 3`"),
        (["-o FILE, --output FILE"], "# `-o FILE, --output FILE`"),
        (["dig(by)", "burrow(by, *, deep)"], "# `dig, burrow`\n\n`(by)`\n`(by, *, deep)`"),
        (["dig()", "dig(by)"], "# `dig`\n\n`()`\n`(by)`"),
        (["async classmethod dens.Den.of(fox)"], "# async classmethod `dens.Den.of`\n\n`(fox)`"),
        (["Den *dig_den(int depth)"], "# `dig_den`\n\n`Den *dig_den(int depth)`"),
        (["Den &amp;dig_den(int depth)"], "# `dig_den`\n\n`Den &dig_den(int depth)`"),
        (["@dens.shared(by)"], "# `@dens.shared`\n\n`(by)`"),
        (["dig (by)"], "# `dig`\n\n`(by)`"),
        (["dens.MOST: int"], "# `dens.MOST`\n\n`: int`"),
        (["dens.Den[T]"], "# `dens.Den`\n\n`[T]`"),
        (["$den.dig(by)"], "# `$den.dig`\n\n`(by)`"),
        (["exception dens.Lost"], "# exception `dens.Lost`"),
        (["dens::Den::dig(by)"], "# `dens::Den::dig`\n\n`(by)`"),
        (["dens.A = 1", "dens.B", "dens.C = 3"], "# `dens.A, dens.B, dens.C`\n\n`= 1`\n`= 3`"),
        (["dig(by)", "3 dens"], "# dig(by), 3 dens"),
        (["3 dens", "4 dens"], "# 3 dens, 4 dens"),
    ],
)
@pytest.mark.parametrize("attributes", [('class="std"', 'class="sig"'), ('class="py function"', 'id="dens.dig"')])
def test_the_heading_of_an_entry_is_its_name(attributes: tuple[str, str], terms: list[str], shown: str) -> None:
    of_list, of_term = attributes
    entry = "".join(f"<dt {of_term}>{term}</dt>" for term in terms)
    assert text_of(f"<dl {of_list}>{entry}<dd><p>As foxes do.</p></dd></dl>") == f"{shown}\n\nAs foxes do."


_JAVADOC = (
    '<ul class="details-list"><li><section class="method-details"><h2>Method Details</h2><ul class="member-list"><li>'
    '<section class="detail" id="dig(int)"><h3>dig</h3><div class="member-signature"><span>public</span>&nbsp;int&nbsp;'
    "dig(<span>int&nbsp;depth)</span></div><div>Makes it deeper:<ul><li>day<li>night</ul></div>{}</section></li></ul>"
    "</section></li></ul>"
)
_JAVADOC_8 = (
    '<ul class="blockList"><li class="blockList"><h3>Method Details</h3><ul class="blockListLast">'
    '<li class="blockList"><h4>dig</h4><pre>public&nbsp;int&nbsp;dig(int&nbsp;depth)</pre>'
    "<div>Makes it deeper:<ul><li>day<li>night</ul></div>{}</li></ul></li></ul>"
)


@pytest.mark.parametrize(("page", "level"), [(_JAVADOC, 2), (_JAVADOC_8, 3)])
def test_members_in_the_lists_of_javadoc_have_sections(page: str, level: int) -> None:
    given = "<dl><dt>Parameters:</dt><dd><code>depth</code> - how deep</dd></dl>"
    text = read_html(page.format(given).encode(), "content")
    assert text.text == (
        f"{'#' * level} Method Details\n\n{'#' * (level + 1)} `dig`\n\n`public int dig(int depth)`\n\n"
        "Makes it deeper:\n\n- day\n- night\n\nParameters: depth - how deep"
    )
    assert [(each.level, each.text) for each in text.outline.headings] == [
        (level, "Method Details"),
        (level + 1, "dig"),
    ]


def test_a_member_without_a_signature_has_only_its_heading() -> None:
    page = '<section class="detail"><h3>dig</h3><div class="member-signature"> </div><div>Digs.</div></section>'
    assert text_of(page) == "### `dig`\n\nDigs."


def test_a_list_goes_on_behind_a_section_inside_of_it() -> None:
    assert text_of("<ul><li>one<section><p>apart</p></section><li>two</ul>") == "- one\n\napart\n\n- two"


def test_signatures_of_rustdoc_come_without_what_stands_beside_them() -> None:
    entry = (
        '<details><summary><section><span class="rightside">1.0.0 <a class="srclink">source</a></span>'
        '<h4 class="code-header">pub fn <a>dig</a>&lt;E&gt;(self, e: E) -&gt; Den<span class="notable-traits">Notable'
        "</span></h4></section></summary><div><p>Digs.</p><pre>dig(1)</pre>"
        '<a class="test-arrow">Run</a></div></details>'
    )
    assert text_of(f"<h3 class=code-header>impl&lt;T&gt; Den&lt;T, A&gt;</h3>{entry}") == (
        "### impl<T> Den<T, A>\n\n#### pub fn `dig`\n\n`<E>(self, e: E) -> Den`\n\nDigs.\n\n```\ndig(1)\n```"
    )


@pytest.mark.parametrize("kind", ["function", "method", "class", "attribute", "data", "exception", "option"])
def test_lists_of_what_a_module_has_are_known_by_their_class_and_the_ids_of_their_terms(kind: str) -> None:
    entry = f'<dl class="{kind}"><dt{{}}>dens.Den</dt><dd>As foxes do.</dd></dl>'
    assert text_of(entry.format(' id="dens.Den"')) == "# `dens.Den`\n\nAs foxes do."
    assert text_of(entry.format("")) == "dens.Den: As foxes do."


def test_an_entry_below_the_lowest_heading_is_beside_it() -> None:
    entry = '<dl class="py function"><dt class="sig">dig(by)</dt><dd>Digs.</dd></dl>'
    assert text_of(f"<h6>Dens</h6>{entry}") == "###### Dens\n\n###### `dig`\n\n`(by)`\n\nDigs."


def test_a_signature_without_text_or_in_a_list_begins_no_section() -> None:
    entry = '<dl class="py function"><dt class="sig" id="dig">dig(by)</dt><dd>{}</dd></dl>'
    assert text_of(f"<h1>Dens</h1>{entry.format(' ')}<p>Foxes dig.") == "# Dens\n\ndig(by)\n\nFoxes dig."
    terms = "<dl><dt>Den<dd>Where foxes sleep.</dl>"
    assert text_of(f"{entry.format(' ')}{terms}") == "dig(by)\n\nDen: Where foxes sleep."
    assert text_of(f"<ul><li>{entry.format('Makes it deeper.')}</ul>") == "- dig(by): Makes it deeper."
    glossary = '<dl class="glossary"><dt id="term-den">Den</dt><dd>Where foxes sleep.</dd></dl>'
    assert text_of(glossary) == "Den: Where foxes sleep."


@pytest.mark.parametrize("shown", ["TOC", "\u00b6", "#", "\U0001f517", "\uf0c1", "\uf0c1\uf0c2"])
def test_links_of_headings_to_themselves_are_no_text(shown: str) -> None:
    html = f'<h2>Areas<a class="headerlink" href="#a">{shown}</a></h2><p>One \uf0c1 <a href="b">#1</a></p>'
    assert text_of(html) == "## Areas\n\nOne \uf0c1 #1"


def test_code_of_doxygen_is_one_block_without_its_hints() -> None:
    lines = '<div class="line"><a>owl</a> = 1;</div>\n<div class="line">  hunt();</div>'
    hint = '<div class="ttc"><div class="ttdef">Definition: owls.h:211</div></div>'
    html = f'<p>Do:<div class="fragment">{lines}{hint}</div><!-- fragment --><p>Done'
    assert text_of(html) == "Do:\n\n```\nowl = 1;\n  hunt();\n```\n\nDone"


def test_a_paragraph_of_links_to_neighbouring_pages_is_no_text() -> None:
    links = 'Next: <a rel="next">Owls of the barn</a>, Previous: <a rel="prev">Mice</a>, Up: <a rel="up">Top</a>'
    text = "Read on in the chapter about owls:"
    html = f'<p>{links} [<a href="#c">Contents</a>]</p><p>{text} <a rel="next">Owls</a></p><div>See <a rel="up">Top</a>'
    assert text_of(html) == f"{text} Owls\n\nSee Top"


def test_raised_numbers_stay_apart_and_links_of_headings_to_themselves_are_no_text() -> None:
    html = '<h2>Areas<a href="#a">¶</a></h2>10<sup>3</sup> m<sup>-2</sup>.<sup><a>12</a></sup> 1<sup>st</sup>'
    html += "<sup><a>1</a>a</sup><sup>1<b>x</b></sup>"
    found = read_html(html.encode(), "content")
    assert (found.text, found.outline.headings[0].text) == ("## Areas\n\n10³ m⁻².¹² 1st1a1x", "Areas")


@pytest.mark.parametrize(
    "name", ['class="footnote-reference brackets"', 'class="footnote-ref" role="doc-noteref"', 'epub:type="noteref"']
)
def test_numbers_of_notes_stand_in_brackets_close_to_their_word(name: str) -> None:
    html = f'<p>An owl. <a {name} href="#n"><sup>12</sup></a> It hunts <a {name}>3</a>, <a {name}>see</a> <a>4</a>'
    assert text_of(html) == "An owl.[12] It hunts[3], see 4"


def test_preformatted_text_keeps_its_lines_as_one_block() -> None:
    found = read_html(b"<p>Do:<pre>\n  a\n\n  b &lt; c\n</pre><p>Done<br>now", "content")
    assert found.text == "Do:\n\n```\n  a\n\n  b < c\n```\n\nDone\nnow"
    assert [found.text[start:end] for start, end in found.outline.verbatim] == ["```\n  a\n\n  b < c\n```"]
    assert read_html(b"<pre>a ``` b</pre>", "content").text == "````\na ``` b\n````"
    assert read_html(b"<ol><li><pre>a\nb</pre></ol>", "content").text == "1. a\nb"


def test_blocks_in_preformatted_text_have_lines_of_their_own() -> None:
    assert text_of("<pre>a<br>b<pre>c\n  d</pre>\n  e</pre>") == "```\na\nb\nc\n  d\n```\n\n```\n  e\n```"
    assert text_of("<pre><div>a</div><div>b\n</div><p>c</p></pre>") == "```\na\nb\nc\n```"
    rfc = "<pre>Of Tides\n\n<span><h2>1. Ebb</h2></span>\n   It falls.\n<table><tr><td>a<td>b</table>End</pre>"
    found = read_html(rfc.encode(), "content")
    assert found.text == ("```\nOf Tides\n```\n\n## 1. Ebb\n\n```\n   It falls.\n```\n\n| a | b |\n\n```\nEnd\n```")
    assert [heading.text for heading in found.outline.headings] == ["1. Ebb"]


def test_the_head_becomes_properties() -> None:
    head = (
        '<html lang="de-AT"><head><title> Of\n Tides </title><meta name=author content=Ada>'
        "<meta name=Author content=Lin>"
        '<meta name=keywords content="moon, sea,"><meta name=description content="All of it">'
        '<meta property="article:published_time" content="2024-05-01T12:00:00+02:00"></head><p>Text.'
    )
    found = read_html(head.encode(), "content").properties
    assert (found.title, found.creators, found.subjects) == ("Of Tides", ("Ada", "Lin"), ("moon", "sea"))
    assert (found.description, found.language) == ("All of it", "de")
    assert found.date_created == datetime(2024, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (codecs.BOM_UTF8 + "<meta charset=latin1><p>très".encode(), "très"),
        (codecs.BOM_UTF16_LE + "<p>très".encode("utf-16-le"), "très"),
        (codecs.BOM_UTF16_BE + "<p>très".encode("utf-16-be"), "très"),
        ("<meta charset='windows-1252'><p>“très”".encode("cp1252"), "“très”"),
        ("<meta charset=iso-8859-1><p>“très”".encode("cp1252"), "“très”"),
        ('<meta http-equiv=Content-Type content="text/html; charset=shift_jis"><p>海'.encode("shift_jis"), "海"),
        ("<meta charset=utf-16><p>très".encode(), "très"),
        ("<meta charset=no-such-thing><p>très".encode(), "très"),
        ("<meta charset=base64><p>très".encode(), "très"),
        ("<meta charset=unicode_escape><p>très\\n".encode(), "très\\n"),
        ("<meta charset=koi8-r><p>море".encode("koi8-r"), "море"),
        ("<p>très".encode(), "très"),
    ],
)
def test_a_byte_order_mark_decides_then_the_declaration_then_utf_8(data: bytes, text: str) -> None:
    assert read_html(data, "content").text == text


def test_bytes_that_are_not_in_the_encoding_are_refused_with_their_place() -> None:
    with pytest.raises(DocumentEncodingError) as caught:
        read_html(b"<p>tr\xe8s", "content")
    assert caught.value.metadata == {"offset": "5"}


@pytest.mark.parametrize("html", ["<p> <!-- nothing -->", "<script>a()</script>", "<title>only</title>", "\n"])
def test_a_page_without_text_is_refused(html: str) -> None:
    with pytest.raises(EmptyDocumentError):
        text_of(html)


def test_elements_may_be_nested_deeply_but_not_endlessly() -> None:
    depth = MAX_DEPTH - 10
    assert text_of("<div>" * depth + "deep" + "</div>" * depth) == "deep"
    with pytest.raises(DocumentLimitError) as caught:
        text_of("<div>" * 100_000 + "deep")
    assert caught.value.metadata == {"resource": "nesting_depth", "limit": str(MAX_DEPTH)}


def test_many_elements_that_end_themselves_are_not_deep() -> None:
    assert text_of("<p>a" * 20_000).count("a") == 20_000


@pytest.mark.parametrize(
    "hidden",
    [
        "<!-- {} -->",
        "<script>{}</script>",
        "<STYLE>{}</style >",
        "<textarea>{}</textarea>",
        '<p title="{}">',
        "<p title='{}'>",
        "<!doctype {}",
        "</ {}",
    ],
)
def test_tags_that_are_none_have_no_depth(hidden: str) -> None:
    tags = "<div>" * (MAX_DEPTH + 1) if hidden[1] not in "!/" or "--" in hidden else "<div " * (MAX_DEPTH + 1) + ">"
    assert "Tides rise." in read_html(f"{hidden.format(tags)}<p>Tides rise.</p>".encode(), "content").text


@pytest.mark.parametrize(
    "before", ["<!--> ", "<!-- a -->", "<script></script>", "<p title='>'>", "</b>", "a < b", "<p/title=x>"]
)
def test_tags_behind_what_is_none_count(before: str) -> None:
    with pytest.raises(DocumentLimitError):
        read_html(f"{before}{'<div>' * (MAX_DEPTH + 1)}<p>Tides.".encode(), "content")


@pytest.mark.parametrize("attribute", [" a{}", " a{}=1", " a{}='x'", "/a{}", ' a{} = "x"'])
def test_an_element_may_have_many_attributes_but_not_endlessly_many(attribute: str) -> None:
    def page(count: int) -> bytes:
        return f"<p{''.join(attribute.format(number) for number in range(count))}>Tides rise.</p>".encode()

    assert read_html(page(MAX_ATTRIBUTES), "content").text == "Tides rise."
    with pytest.raises(DocumentLimitError) as caught:
        read_html(page(MAX_ATTRIBUTES + 1), "content")
    assert caught.value.metadata == {"resource": "attributes", "limit": str(MAX_ATTRIBUTES)}


@pytest.mark.parametrize(
    "bit", ["<p a='", '<p a="', "<!--", "<script>", "<p a=", "< ", "</", "<p a/", "<!-- <p>", "<p a>"]
)
def test_looking_at_the_elements_takes_linear_time(bit: str) -> None:
    def read(html: str) -> None:
        with contextlib.suppress(InvalidRequestError):
            read_html(html.encode(), "content")

    assert growth(lambda n: "<p>Tides.</p>" + bit * n, read, 10_000) < LINEAR


@pytest.mark.parametrize("above", ["", "<h1>Dens</h1>"])
@pytest.mark.parametrize("part", ["<h2>Den</h2>", '<dl><dt class="sig">dig(by)</dt><dd>Digs.</dd></dl>'])
def test_text_below_many_headings_takes_linear_time(part: str, above: str) -> None:
    assert growth(lambda n: above + f"{part}<p>Of foxes." * n, text_of, 2500) < LINEAR


def test_a_table_of_one_long_row_takes_linear_time() -> None:
    def page(n: int) -> str:
        return f"<table><tr>{'<td>a' * n}{'<tr><td>a' * n}</table>"

    assert growth(page, text_of, 2000) < LINEAR


def test_cells_of_many_rows_and_columns_make_no_more_than_a_hundred_columns_of_them() -> None:
    assert len(text_of(f"<table>{'<tr><td rowspan=99 colspan=99>x' * 500}</table>")) < 500 * 1000


@pytest.mark.parametrize(
    ("paragraph", "is_title"),
    [
        ("<p><b>May I keep an owl?</b></p>", True),
        ("<p>\n<strong><a name='q2'></a>(2) My owl does not <i>eat</i>!</strong>\n</p>", True),
        ("<p><b>2. Food</b></p>", True),
        ("<p><b>Food</b></p>", False),
        ("<p><b>2. Take these:</b></p>", False),
        ("<p><b>May I keep an owl?</b> No.</p>", False),
        ("<p><b>May</b> <b>I?</b></p>", False),
        ("<p><i>May I keep an owl?</i></p>", False),
        ("<ul><li><p><b>May I keep an owl?</b></p></li></ul>", False),
        (f"<p><b>{'very ' * 40}old?</b></p>", False),
    ],
)
def test_a_question_or_a_number_in_bold_begins_a_section(paragraph: str, is_title: bool) -> None:
    page = f"<h2>Owls</h2>{paragraph}<p>They see.</p>{paragraph}<p>They hear.</p>"
    assert [level for level, _ in titles_of(page)] == [2, *[3, 3] * is_title]
    assert text_of(page).count("\n\n###") == 2 * is_title


def test_a_paragraph_in_bold_that_is_no_title_keeps_its_lines() -> None:
    assert text_of("<h1>Zoo</h1><p><b>Owl Lane 1<br>Oslo</b></p>") == "# Zoo\n\nOwl Lane 1\nOslo"


def test_an_item_of_a_title_and_several_paragraphs_is_a_section() -> None:
    item = "<li><p><b>{0}</b></p><p>At most {1} of them.</p><ul><li>wild</li></ul><p>Or more.</p></li>"
    page = f"<h1>Limits</h1><ol>{item.format('Owls', 2)}{item.format('Mice', 9)}</ol>"
    assert titles_of(page) == [(1, "Limits"), (2, "Owls"), (2, "Mice")]
    assert text_of(page).endswith("## Mice\n\nAt most 9 of them.\n\n- wild\n\nOr more.")
    short = "<li><p><b>Owls</b></p><p>At most 2.</p></li><li><p>Mice</p><p>At</p><p>most 9.</p></li>"
    assert titles_of(f"<h1>Limits</h1><ol>{short}</ol>") == [(1, "Limits")]


LINKS = "".join(f'<li><a href="#{name}"><code>{name}</code></a></li>' for name in ("owls", "mice", "foxes"))
PAGES = LINKS.replace("#", "/")


@pytest.mark.parametrize(
    ("body", "shows"),
    [
        (f"<h1>Zoo</h1><ul>{LINKS}</ul><p>It is open.</p>", False),
        (f"<h1>Zoo</h1><p>Contents of this page:</p><ol>{LINKS}</ol><p>It is open.</p>", False),
        (f"<h1>Zoo</h1><ul><li>{LINKS[4:-5]}<ul>{LINKS}</ul></li></ul><p>It is open.</p>", False),
        (f"<ul>{PAGES}</ul><h1>Zoo</h1><p>It is open.</p>", False),
        # What a sentence introduces, what is more than links, links in a table, and few of them.
        (f"<h1>Zoo</h1><p>There are three kinds of animals in the zoo:</p><ul>{LINKS}</ul>", True),
        (f"<h1>Zoo</h1><ul>{LINKS}<li>and foxes</li></ul>", True),
        (f"<h1>Zoo</h1><table><tr><th>See</th></tr><tr><td><ul>{LINKS}</ul></td></tr></table>", True),
        ('<h1>Zoo</h1><ul><li><a href="#mice">mice</a></li><li><a href="#owls">owls</a></li></ul>', True),
        # What leads to other pages below a heading, and a page that is nothing else.
        (f"<h1>Zoo</h1><ul>{PAGES}</ul>", True),
        (f"<ul>{PAGES}</ul>", True),
        (f"<ul>{LINKS}</ul>", True),
    ],
)
def test_menus_and_tables_of_contents_are_no_text(body: str, shows: bool) -> None:
    assert ("mice" in text_of(body)) is shows
    assert shows or text_of(body).endswith("It is open.")


def test_a_list_that_is_too_long_for_contents_is_text() -> None:
    page = f"<h1>Zoo</h1><ul>{LINKS * 300}<li>and foxes</li></ul>"
    assert text_of(page).endswith("- foxes\n- and foxes")


def test_lists_inside_of_sections_of_lists_are_read_in_linear_time() -> None:
    assert (
        growth(lambda n: "<h1>Zoo</h1>" + "<ul><li><section>" * n + '<a href="#o">owl</a>' * 20 * n, text_of, 300)
        < LINEAR
    )
