"""The report in a real browser; skipped where Chromium and chromedriver are not installed."""

import pytest
from browser import ARROW_RIGHT, ENTER, SPACE, TAB, Browser, chromium
from made_up_campaign import write_campaign
from test_html import page_of

pytestmark = pytest.mark.skipif(chromium() is None, reason="chromium and chromedriver are not installed")


@pytest.fixture(scope="module")
def browser():
    with Browser() as window:
        yield window


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_campaign(folder / "published", seeds=3)
    path = folder / "report.html"
    path.write_text(page_of(folder / "published", folder)[0])
    return path


def visible_claims(browser):
    rows = "[...document.querySelectorAll('.claims tbody tr')].filter(row => row.getClientRects().length)"
    return browser.ask(f"{rows}.map(row => row.className)")


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_no_complaint_on_the_console_and_no_sideways_scrolling(browser, page, width, dark):
    browser.open(page, width, dark=dark)
    assert browser.ask("document.querySelectorAll('svg.chart').length") > 50
    browser.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") == width
    assert browser.ask("innerWidth") == width
    assert browser.console() == []


def test_the_dark_scheme_follows_the_system_until_the_reader_chooses(browser, page):
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(page, 1280)
    light = browser.ask(ground)
    browser.open(page, 1280, dark=True)
    dark = browser.ask(ground)
    assert light != dark
    line = "getComputedStyle(document.querySelector('.swatch .n-rmsnorm')).stroke"
    assert browser.ask(line) == "rgb(61, 139, 255)"
    browser.ask("document.getElementById('theme').click()")
    assert browser.ask(ground) == light
    assert browser.ask("document.getElementById('theme').getAttribute('aria-pressed')") == "false"
    browser.ask("localStorage.clear()")


def test_claims_are_filtered_by_keyboard(browser, page):
    browser.open(page, 1280)
    every = len(visible_claims(browser))
    browser.ask("document.getElementById('only-all').focus()")
    browser.press(ARROW_RIGHT)
    shown = visible_claims(browser)
    assert set(shown) == {"v-reproduced"}
    assert 0 < len(shown) < every
    assert browser.ask("document.getElementById('shown').textContent") == f"{len(shown)} of {every} shown"
    browser.press(TAB, *"table 10 rmsnorm")
    words = browser.ask(
        "[...document.querySelectorAll('.claims tbody tr')].filter(row => row.getClientRects().length)"
        ".map(row => row.textContent)"
    )
    assert words
    assert len(words) < len(shown)
    assert all(word in line.lower() for line in words for word in ("table", "10", "rmsnorm"))


def test_filters_and_all_numbers_work_without_a_script(browser, page):
    browser.open(page, 1280, script=False)
    browser.devtools("Emulation.setScriptExecutionDisabled", value=False)  # the page's own script did not run
    assert browser.ask("document.getElementById('theme').hidden") is True
    browser.ask("document.getElementById('only-v-not-measured').click()")
    assert set(visible_claims(browser)) == {"v-not-measured"}


def test_the_first_tab_skips_to_the_report_and_the_focus_is_seen(browser, page):
    browser.open(page, 1280)
    browser.press(TAB)
    assert browser.ask("document.activeElement.textContent") == "Skip to the report"
    assert browser.ask("document.activeElement.getBoundingClientRect().top") >= 0
    browser.press(ENTER)
    assert browser.ask("document.activeElement.id") == "main"
    browser.ask("document.querySelector('.commands summary').focus()")
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(SPACE)
    assert browser.ask("document.querySelector('.commands').open") is True


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(browser, page, dark):
    browser.open(page, 1280, dark=dark)
    lowest = browser.ask(CONTRAST)
    assert lowest[0] >= 4.5, lowest


#: The lowest contrast of any text to the nearest ground behind it, and where.
CONTRAST = """(() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const lum = (c) => {
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = c.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    for (let p = e; p; p = p.parentElement) {
      const c = parse(getComputedStyle(p).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  let lowest = [99, ""];
  for (const e of document.querySelectorAll("main *, nav *, header *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (e.closest("title") || e.tagName === "title") continue;
    const style = getComputedStyle(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [lum(ink), lum(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < lowest[0]) lowest = [ratio, e.outerHTML.slice(0, 120)];
  }
  return lowest;
})()"""


def test_a_stray_percent_sign_in_the_address_stops_nothing(browser, page):
    browser.open(page, 1280, fragment="#%")
    assert browser.ask("document.getElementById('find').hidden") is False
    assert browser.console() == []
