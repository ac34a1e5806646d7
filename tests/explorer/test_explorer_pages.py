"""Pages of the explorer in headless Chromium, with no network: nothing is asked for, and numbers are `propagate`'s."""

from __future__ import annotations

import numpy as np
import pytest

from meanfield import derive
from tests.explorer.explorer_pages import CHROMIUM, assert_run

pytest.importorskip("bokeh", reason="Bokeh is not installed, which writes pages")
browsers = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, which drives a browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed, in which pages are opened")

DEPTH = 50
READY = "window.meanfieldReady === true"
LAST = """() => {
  const models = Array.from(Bokeh.documents[0]._all_models.values());
  const own = models.find((one) => one.room).room;
  return own.last && {columns: own.last.run.columns, stop: own.last.run.stop, lost: own.last.run.lost, p: own.last.p,
                      took: own.last.took, held: own.held, name: own.last.end.name, text: ''};
}"""


@pytest.fixture(scope="module")
def browser():
    with browsers.sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    return derive("relu").explore(tmp_path_factory.mktemp("pages") / "relu.html")


class Opened:
    """A page in a browser without network; what it asks for and what it logs."""

    def __init__(self, browser, path, width=1200, scheme="light"):
        self.context = browser.new_context(
            offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.asked, self.errors = [], []
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.goto(path.as_uri())
        self.page.wait_for_function(READY, timeout=20_000)

    def plane(self):
        """The frame of the plane in pixels of the page."""
        return self.page.evaluate("""() => {
          const find = (view) => {
            if (view.model && view.model.name === 'plane') return view;
            for (const one of view.children ? view.children() : []) { const got = find(one); if (got) return got; }
          };
          let view;
          for (const one of Bokeh.index.roots) view = view || find(one);
          const box = view.frame.bbox, at = view.el.getBoundingClientRect();
          return [at.x + box.left, at.y + box.top, box.width, box.height,
                  view.model.x_range.end, view.model.y_range.end];
        }""")

    def over(self, sigma_w, sigma_b, click=False):
        """Point at (σ_w, σ_b), and wait until a page shows that."""
        left, top, width, height, w, b = self.plane()
        x, y = left + width * sigma_w / w, top + height * (1 - sigma_b / b)
        (self.page.mouse.click if click else self.page.mouse.move)(x, y)
        self.page.wait_for_function(
            f"() => {{ const last = ({LAST})(); return last && Math.abs(last.p.sigma_w - {sigma_w}) < {1.5 * w / width}"
            f" && Math.abs(last.p.sigma_b - {sigma_b}) < {1.5 * b / height}; }}", timeout=5_000
        )  # fmt: skip
        return self.page.evaluate(LAST)

    def close(self):
        self.context.close()


@pytest.mark.fast_with("400-dark")
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
def test_a_page_asks_for_nothing_logs_nothing_and_fits(browser, page_file, width, scheme):
    one = Opened(browser, page_file, width, scheme)
    one.over(1.0, 0.3)
    one.page.wait_for_timeout(200)
    asked = [url for url in one.asked if not url.startswith(("file:", "data:", "blob:"))]
    wide = one.page.evaluate("document.documentElement.scrollWidth")
    one.close()
    assert (asked, one.errors) == ([], []) and wide <= width


def test_pointing_and_clicking_give_the_numbers_of_propagate(browser, page_file):
    theory, one = derive("relu"), Opened(browser, page_file)
    for place in ((0.7, 0.4), (1.4, 0.0), (2.6, 1.9), (1.0, 2.5)):
        found = one.over(*place)
        assert_run(theory, found["p"], found, DEPTH)
        assert not found["held"]
    found = one.over(1.1, 0.6, click=True)
    assert_run(theory, found["p"], found, DEPTH)
    assert found["held"] and found["name"] == "ordered"
    one.page.mouse.move(5, 5)
    left, top, width, height, *_ = one.plane()
    one.page.mouse.move(left + width / 2, top + height / 2)
    one.page.wait_for_timeout(100)
    assert one.page.evaluate(LAST)["p"] == found["p"]  # a held point stays
    one.close()
    wrong = found | {"columns": found["columns"] | {"K": [*found["columns"]["K"][1:], 1.0]}}
    with pytest.raises(AssertionError, match="K"):
        assert_run(theory, found["p"], wrong, DEPTH)


def test_a_page_is_fast(browser, page_file):
    one = Opened(browser, page_file)
    took = [one.over(w, 0.5)["took"] for w in np.linspace(0.3, 2.7, 9)]
    one.close()
    assert np.median(took) < 30  # milliseconds
