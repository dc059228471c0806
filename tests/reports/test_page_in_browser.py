"""The report does what it should in a real browser: headless Chromium, driven through Selenium."""

import json
import shutil
import time
from pathlib import Path

import pytest

from countergen_edit.runs.run import open_run
from tests.reports.runs import HARMFUL, make_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = ("headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-dev-shm-usage")
FLAGS += ("disable-quic", "disable-background-networking", "disable-component-update")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH: make browser"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return open_run(make_run(tmp_path_factory.mktemp("run") / "audit")).report()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, report):
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)  # what was logged before is read and gone
    browser.get(report.as_uri())
    return browser


def column(page, table, place):
    return page.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr:not([hidden], .group)`)]"
        ".map((row) => row.cells[arguments[1]].firstChild?.textContent.trim() ?? '')",
        table,
        place,
    )


def resize(page, width):
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def open_table(page, tab, title):
    page.find_element("css selector", f"#tab-{tab}").click()
    return page.execute_script(
        "return [...document.querySelectorAll('table')]"
        ".find((table) => table.caption.textContent === arguments[0]).id",
        title,
    )


def test_no_request_leaves_the_page_and_the_console_is_silent(page, report):
    for tab in page.find_elements("css selector", "[role=tab]"):
        tab.click()
    time.sleep(0.2)
    logged = [json.loads(line["message"])["message"] for line in page.get_log("performance")]
    sent = [m["params"] for m in logged if m["method"] == "Network.requestWillBeSent"]
    urls = {event["request"]["url"] for event in sent}
    assert {url for url in urls if not url.startswith("data:")} <= {report.as_uri()}
    assert page.get_log("browser") == []


def test_generated_text_stays_text(page):
    assert page.execute_script("return window.harmed") is None
    assert page.execute_script("return document.scripts.length") == 1
    assert not page.find_elements("css selector", "img:not([src^='data:image/svg+xml'])")
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.harmed = 1';"
        "document.body.append(s);"
    )
    assert page.execute_script("return window.harmed") is None  # the page's policy
    for section in ("fairpair", "cid", "examples", "search", "classifiers", "run"):
        element = page.find_element("id", section)
        assert HARMFUL in element.get_property("textContent"), section


def test_tabs_show_one_section_by_mouse_and_by_keyboard(page):
    from selenium.webdriver.common.keys import Keys

    def seen():
        sections = page.find_elements("css selector", "main > section")
        return [s.get_attribute("id") for s in sections if s.is_displayed()]

    assert seen() == ["overview"]
    page.find_element("id", "tab-bias").click()
    assert seen() == ["bias"]
    for key, tab in (
        (Keys.ARROW_RIGHT, "layers"),
        (Keys.END, "run"),
        (Keys.ARROW_RIGHT, "overview"),
    ):
        page.switch_to.active_element.send_keys(key)
        assert seen() == [tab]
    assert page.current_url.endswith("#overview")


def test_a_column_is_sorted_by_its_figures_and_back(page):
    table = open_table(page, "costs", "Costs")
    head = page.find_element("css selector", f"#{table} thead th:nth-child(3) button")
    head.click()
    up = [float(text) for text in column(page, table, 2)]
    assert up == sorted(up)
    head.click()
    assert [float(text) for text in column(page, table, 2)] == up[::-1]
    assert head.find_element("xpath", "..").get_attribute("aria-sort") == "descending"


def test_search_keeps_what_matches_and_a_button_shows_the_rest(page):
    table = open_table(page, "examples", "Prompts and outputs")
    assert len(column(page, table, 3)) == 50  # of 60: the others wait behind a button
    box = page.find_element("css selector", f"input[data-for={table}]")
    box.send_keys("OUTPUT 58")
    assert column(page, table, 3) == ["output 58"]
    assert page.find_element("css selector", f"output[for={table}]").text == "1 of 60"
    box.clear()
    box.send_keys(" ")
    more = page.find_element("css selector", "#examples .more")
    assert more.text == "Show more (10 left)"
    more.click()
    assert len(column(page, table, 3)) == 60


AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, { preload: false, resultTypes: ["violations"] })
  .then((found) => done(found.violations.map((v) => [v.impact, v.id, v.nodes[0].html])));
"""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_no_fault(page, width, scheme):
    import axe_core_python

    page.set_script_timeout(120)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    resize(page, width)
    page.execute_script((Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8"))
    # Every section at once: axe leaves out what is hidden.
    page.execute_script("for (const s of document.querySelectorAll('section')) s.hidden = false")
    assert page.execute_async_script(AXE) == []


CUT = """
return [...document.querySelectorAll(".scroll")]
  .filter((box) => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.ariaLabel)
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_column_is_cut_off(page, width):
    resize(page, width)
    for tab in page.find_elements("css selector", "[role=tab]"):
        tab.click()
        wide = page.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, tab.text
        assert page.execute_script(CUT) == [], tab.text
