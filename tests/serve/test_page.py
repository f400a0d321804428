"""The page in a real browser: chromium, driven by Playwright. SSMT_SCREENSHOTS=DIR keeps what it shows."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from ssmt.serve.service import Service
from ssmt.translator import Translator
from tests.serve.conftest import Running

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)")

BIRD, COWS = "I see a bird.", "We call 2 cows now."
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Page:
    """A page of the service that fails on any error in it, and on anything that comes from elsewhere."""

    def __init__(
        self, browser: Any, running: Running, size: dict[str, int], fragment: str = "", **options: Any
    ) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=running.url)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.problems: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "request", lambda asked: None if asked.url.startswith(running.url) else self.problems.append(asked.url)
        )
        self.page.goto(f"{running.url}/{fragment}", wait_until="networkidle")  # its modules are loaded

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: object, *others: object) -> None:
        self.context.close()
        if kind is None:
            assert self.problems == []


def screenshot(page: Any, name: str) -> None:
    if folder := os.environ.get("SSMT_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def settled(page: Any, translation: str) -> None:
    shown = api.expect(page.locator("#translation"))  # asked from outside: the page's policy forbids eval() within
    shown.to_have_js_property("textContent", translation, timeout=30_000)
    shown.to_have_attribute("aria-busy", "false")


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_sentence_from_typing_to_a_kept_beginning(
    browser: Any, running: Running, translator: Translator, size: dict[str, int]
) -> None:
    ranked = translator.translate([BIRD], n_best=5)
    texts, segments = ranked.texts[0], ranked.segments[0]
    with Page(browser, running, size) as page:
        name = f"{size['width']}"
        screenshot(page, f"{name}-empty")
        page.keyboard.type(BIRD)  # the field has the focus
        settled(page, texts[0])
        words = page.locator("#translation .word")
        assert words.count() == len(texts[0].split())
        assert page.locator("#translation .segment").all_text_contents() == [one for one in segments[0] if one.strip()]
        spoken = words.first.get_attribute("aria-label")
        assert texts[0].split()[0] in spoken
        words.first.hover()
        if "in segments" in spoken:
            assert "%" in words.first.get_attribute("data-cuts")
        screenshot(page, f"{name}-translated")

        options = page.locator("#alternatives button")
        assert options.count() == len(texts)
        options.nth(1).click()
        settled(page, texts[1])
        assert options.nth(1).get_attribute("aria-pressed") == "true"
        screenshot(page, f"{name}-alternative")
        options.first.click()
        settled(page, texts[0])

        words.nth(1).click()
        beginning = texts[0][: texts[0].index(" ") + 1]
        assert page.input_value("#prefix") == beginning
        page.keyboard.type("izi")  # goes on in the field of the beginning
        forced = translator.translate([BIRD], prefixes=[f"{beginning}izi"]).texts[0]
        settled(page, forced)
        assert page.locator("#translation .kept").count() == 1
        screenshot(page, f"{name}-beginning")
        page.reload()
        settled(page, forced)  # the link has the beginning
        assert page.input_value("#prefix") == f"{beginning}izi"
        page.click("#release")
        settled(page, texts[0])

        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
        screenshot(page, f"{name}-dark")
        page.reload()
        settled(page, texts[0])  # the address has the text, the browser has the choice of colours
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert fits(page)


def test_several_sentences_keep_their_white_space(browser: Any, running: Running, translator: Translator) -> None:
    bird, cows = translator.translate([BIRD, COWS]).texts
    with Page(browser, running, DESK) as page:
        page.fill("#source", f"{BIRD} {COWS}\n\n42\n{BIRD}")
        settled(page, f"{bird} {cows}\n\n42\n{bird}")
        screenshot(page, "1280-several")
        page.click("#copy")
        api.expect(page.locator("#status")).to_have_text("Translation copied")
        assert page.evaluate("navigator.clipboard.readText()") == f"{bird} {cows}\n\n42\n{bird}"
        page.click("#link")
        api.expect(page.locator("#status")).to_have_text("Link copied")
        link = page.evaluate("navigator.clipboard.readText()")
    with Page(browser, running, DESK, link.removeprefix(running.url + "/")) as page:
        settled(page, f"{bird} {cows}\n\n42\n{bird}")


def test_without_a_mouse_words_are_reached_and_kept(browser: Any, running: Running, translator: Translator) -> None:
    text = translator.translate([COWS]).texts[0]
    with Page(browser, running, PHONE) as page:
        page.keyboard.type(COWS)
        settled(page, text)
        seen = set()
        for _ in range(10):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.textContent"))
            assert fits(page)  # what is said below a word is on the screen, wherever the word is
            if page.evaluate("document.activeElement.textContent") == text.split()[-1]:
                break
        assert set(text.split()) <= seen
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "prefix"
        assert page.input_value("#prefix") == text[: text.rindex(" ") + 1]
        page.keyboard.press("Escape")
        page.wait_for_selector("#release", state="hidden")


def test_long_text_comes_in_parts(browser: Any, running: Running, translator: Translator) -> None:
    """What is computed together is bounded, and what stands twice in the text is asked for once."""
    sentences = [f"I see {number} birds." for number in range(90)]
    asked: list[list[str]] = []
    with Page(browser, running, DESK) as page:
        page.on(
            "request",
            lambda sent: asked.append(sent.post_data_json["sources"]) if sent.url.endswith("/v1/translate") else None,
        )
        page.fill("#source", "\n".join([*sentences, sentences[0]]))
        settled(page, "\n".join(translator.translate([*sentences, sentences[0]]).texts))
    assert [source for some in asked for source in some] == sentences
    assert len(asked) == 2
    assert max(sum(map(len, some)) for some in asked) <= 1000


def test_a_service_that_is_gone_is_said(browser: Any, translator: Translator) -> None:
    with Running(Service([("en", "zu", translator)])) as short:
        shown = Page(browser, short, PHONE)
    shown.page.fill("#source", BIRD)
    shown.page.wait_for_selector("#problem:not([hidden])")
    assert shown.page.inner_text("#problem") == "The service cannot be reached; is it still running?"
    assert shown.page.input_value("#source") == BIRD
    assert shown.page.locator("#translation.stale").count() == 1
    shown.context.close()


def test_a_link_that_somebody_spoilt_shows_its_text(browser: Any, running: Running, translator: Translator) -> None:
    (bird,) = translator.translate([BIRD]).texts
    for choices in ("7", "null", '{"0": 1}', '{"0": ["", "x"]}', '{"0": ["", 99], "x": []}', '[["", -3]]', "{"):
        spoilt = urlencode({"model": "none", "tab": "none", "text": BIRD, "choices": choices})
        with Page(browser, running, DESK, f"#{spoilt}") as page:
            if "99" in choices:
                page.wait_for_selector("#alternatives li:last-child button[aria-pressed=true]")
            else:
                settled(page, bird)


def test_a_pair_is_cut_and_scored_without_a_mouse(browser: Any, running: Running, translator: Translator) -> None:
    target = "nibona inyoni."
    with Page(browser, running, PHONE, color_scheme="dark") as page:
        page.focus("#tab-translate")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("#tab-analyse", "aria-selected") == "true"
        for _ in range(4):  # past the picker and the theme
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "pair-source":
                break
        page.keyboard.type(BIRD)
        page.keyboard.press("Tab")
        page.keyboard.type(target)
        (cut,) = translator.segment([BIRD], [target])
        api.expect(page.locator("#pair-segments .segment")).to_have_text([one for one in cut if one.strip()])
        api.expect(page.locator("#pair-numbers")).to_contain_text("log probability")
        assert f"{translator.score([BIRD], [target])[0]:.3f}".replace("-", "−") in page.inner_text("#pair-numbers")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"  # the dark paper
        screenshot(page, "360-pair")
        assert fits(page)


def test_languages_are_picked_and_problems_shown(browser: Any, running: Running) -> None:
    with Page(browser, running, DESK) as page:
        page.select_option("#model", "en-ss")
        assert page.inner_text("#target-label") == "Swati"
        assert "model=en-ss" in page.url
    shown = Page(browser, running, DESK)
    shown.page.fill("#source", "a " * 15_000)
    shown.page.wait_for_selector("#problem:not([hidden])")
    assert "30,000 characters; a request can have 20,000" in shown.page.inner_text("#problem")
    screenshot(shown.page, "1280-problem")
    shown.context.close()


def test_the_description_of_the_interfaces_is_shown(browser: Any, running: Running, translator: Translator) -> None:
    with Page(browser, running, DESK, "docs") as page:
        page.wait_for_selector("summary")
        shown = [text.split()[1] for text in page.locator("summary code:first-child").all_text_contents()]
        assert {"/v1/translate", "/translate", "/v2/translate"} <= set(shown)
        asked = page.locator("details", has=page.get_by_text("POST /v1/translate", exact=True))
        asked.locator("summary").click()
        assert "hypotheses a sentence" in asked.inner_text()
        assert asked.locator("summary code").all_text_contents() == ["POST /v1/translate", "ssmt translate"]
        assert json.loads(asked.locator("textarea").input_value()) == {"model": "en-zu", "sources": ["a sentence"]}
        asked.locator("textarea").fill('{"model": "en-zu", "sources": ["I see a bird."]}')
        screenshot(page, "1280-docs")
        asked.get_by_role("button", name="Send").click()
        asked.locator("pre:not([hidden])").wait_for()
        assert translator.translate([BIRD]).texts[0] in asked.locator("pre").inner_text()
    with Page(browser, running, PHONE, "docs") as page:
        page.wait_for_selector("summary")
        page.locator("summary").nth(2).click()
        screenshot(page, "360-docs")
        assert fits(page)
