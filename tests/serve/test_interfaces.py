"""The three interfaces: what clients send, what they get, and how they are refused."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import deepl
import pytest
from fastapi.testclient import TestClient
from libretranslatepy import LibreTranslateAPI
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from ssmt.cli import app as verbs
from ssmt.errors import UserError
from ssmt.search.options import SearchOptions
from ssmt.serve.app import create_app
from ssmt.serve.keys import Keys, add_key
from ssmt.serve.limits import Limits, Refusal
from ssmt.serve.operations import Input, Translate
from ssmt.serve.service import ServedModel, Service, load_service
from ssmt.serve.v1 import TranslateRequest
from ssmt.serve.worker import Batching, Ticket, Waiting
from ssmt.text.subwords import Subwords
from ssmt.translator import Translator
from tests.serve.conftest import NewClient, Running

SECRET = "what nobody else may read"
BIRD, COWS = "I see a bird.", "We call 2 cows now."


def ours(translator: Translator, *sources: str) -> list[str]:
    return translator.translate(sources).texts


# Real clients, through a socket


def test_the_client_of_libretranslate(running: Running, translator: Translator) -> None:
    client = LibreTranslateAPI(running.url)
    bird, cows = ours(translator, BIRD, COWS)
    assert client.translate(BIRD, "en", "zu") == bird
    assert client.translate(f" {BIRD}\n\n{COWS} ", "auto", "ss") == f" {bird}\n\n{cows} "
    assert client.detect(BIRD)[0]["language"] == "en"
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["zu", "ss"]},
        {"code": "zu", "name": "Zulu", "targets": []},
        {"code": "ss", "name": "Swati", "targets": []},
    ]
    with pytest.raises(urllib.error.HTTPError) as refused:
        client.translate(BIRD, "en", "fr")
    assert refused.value.code == 400
    assert json.load(refused.value) == {"error": "fr is not supported; targets are zu, ss"}


def test_the_client_of_deepl(running: Running, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    client = deepl.DeepLClient("any key", server_url=running.url)
    bird, cows = ours(translator, BIRD, COWS)
    one = client.translate_text(BIRD, target_lang="ZU")
    assert isinstance(one, deepl.TextResult)
    assert (one.text, one.detected_source_lang, one.billed_characters) == (bird, "EN", len(BIRD))
    several = client.translate_text([BIRD, COWS], source_lang="EN", target_lang="SS", formality="prefer_more")
    assert [result.text for result in several] == [bird, cows]  # type: ignore[union-attr]
    tagged = client.translate_text(f"<p>{BIRD}</p>", target_lang="ZU", tag_handling="html")
    assert tagged.text == f"<p>{bird}</p>"  # type: ignore[union-attr]
    assert [(language.code, language.name) for language in client.get_source_languages()] == [("EN", "English")]
    assert [language.code for language in client.get_target_languages()] == ["ZU", "SS"]
    assert client.get_glossary_languages() == []
    usage = client.get_usage()
    assert usage.character.valid
    assert usage.character.count >= 2 * len(BIRD)
    assert not usage.any_limit_reached
    with pytest.raises(deepl.DeepLException, match="not supported"):
        client.translate_text(BIRD, target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="'formality' is not supported"):
        client.translate_text(BIRD, target_lang="ZU", formality="more")


# Requests as programs send them


def test_weblate_sends_forms(client: TestClient, translator: Translator) -> None:
    """Its backend for LibreTranslate: requests.post(url, data={...}), and the languages before."""
    codes = [language["code"] for language in client.get("/languages").json()]
    assert codes == ["en", "zu"]
    answer = client.post(
        "/translate",
        content="api_key=&q=I+see+a+bird.&source=en&target=zu",
        headers={"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Weblate/5.10"},
    )
    assert answer.status_code == 200
    assert answer.json() == {"translatedText": ours(translator, BIRD)[0]}


def test_weblate_sends_placeholders_to_deepl(client: TestClient, translator: Translator) -> None:
    """Its backend for DeepL: tags stand for what must not change."""
    body = {
        "text": ['<x id="0"></x> I see a bird. <x id="22"></x>', "100 %"],
        **{"source_lang": "EN", "target_lang": "ZU", "formality": "default"},
        **{"tag_handling": "xml", "ignore_tags": ["x"]},
    }
    assert client.get("/v2/languages?type=target").json()[0]["language"] == "ZU"
    assert client.get("/v2/glossary-language-pairs").json() == {"supported_languages": []}
    answer = client.post("/v2/translate", json=body, headers={"Authorization": "DeepL-Auth-Key anything"})
    bird = ours(translator, BIRD)[0]
    texts = [translation["text"] for translation in answer.json()["translations"]]
    assert texts == [f'<x id="0"></x> {bird} <x id="22"></x>', "100 %"]


def test_mastodon_sends_html(client: TestClient, translator: Translator) -> None:
    """A post with a mention, a link and a custom emoji, as its HTML is; several texts a request."""
    post = (
        '<p><span class="h-card" translate="no"><a href="https://a.example/@them" class="u-url mention">@'
        f"<span>them</span></a></span> {BIRD}<br />{COWS} &lt;3</p>"
        '<p><a href="https://b.example/long/path" rel="nofollow" translate="no"><span class="invisible">https://</span>'
        '<span class="ellipsis">b.example/lo</span><span class="invisible">ng/path</span></a> '
        '<span translate="no">:blobcat:</span></p>'
    )
    bird, cows = ours(translator, BIRD, COWS)
    body = {"q": [post, "<3"], "source": "auto", "target": "zu", "format": "html", "api_key": None}
    answer = client.post("/translate", json=body).json()
    # What has no letter stays as it is.
    assert answer["translatedText"] == [post.replace(BIRD, bird).replace(COWS, cows), "<3"]
    assert [found["language"] for found in answer["detectedLanguage"]] == ["en", "en"]


def test_mastodon_sends_forms_to_deepl(client: TestClient, translator: Translator) -> None:
    content = "text=%3Cp%3EI+see+a+bird.%3C%2Fp%3E&text=I+see+a+bird.&source_lang&target_lang=zu&tag_handling=html"
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": "DeepL-Auth-Key k"}
    answer = client.post("/v2/translate", content=content, headers=headers).json()
    bird = ours(translator, BIRD)[0]
    assert [one["text"] for one in answer["translations"]] == [f"<p>{bird}</p>", bird]


# LibreTranslate


def test_alternatives_are_the_next_best(client: TestClient, translator: Translator) -> None:
    body = {"q": BIRD, "source": "en", "target": "zu", "alternatives": 2}
    answer = client.post("/translate", json=body).json()
    texts = translator.translate([BIRD], n_best=3).texts[0]
    assert [answer["translatedText"], *answer["alternatives"]] == texts
    answer = client.post("/translate", json=body | {"q": [BIRD, "42"]}).json()
    assert answer["alternatives"] == [texts[1:], []]


def test_detection_names_served_languages_only(client: TestClient) -> None:
    (english,) = client.post("/detect", data={"q": BIRD}).json()
    (nonsense,) = client.post("/detect", json={"q": "xqzj wfkq zzxv"}).json()
    assert english["language"] == nonsense["language"] == "en"
    assert english["confidence"] > 90 > 10 > nonsense["confidence"]
    assert client.post("/detect", json={"q": "..."}).json() == [{"confidence": 0.0, "language": "en"}]
    marked = {"q": f'<p class="xqzj wfkq"><i title="zzxv">{BIRD}</i>', "source": "auto", "target": "zu"}
    found = [client.post("/translate", json=marked | {"format": form}).json() for form in ("html", "text")]
    assert found[0]["detectedLanguage"] == english  # tags are no language
    assert found[1]["detectedLanguage"]["confidence"] < english["confidence"]


def test_the_likelier_language_is_taken(translator: Translator, new_client: NewClient) -> None:
    """The same model under two names fits alike; what is asked for decides."""
    service = Service([("en", "zu", translator), ("fr", "ss", translator)])
    assert [code for code, _ in service.detect([BIRD])] == ["en", "fr"]
    assert [code for code, _ in service.detect([BIRD], "ss")] == ["fr"]
    assert service.detect([BIRD], "xh") == []


def test_variants_of_a_language_are_understood(translator: Translator) -> None:
    service = Service([("en", "zu", translator), ("en", "pt-BR", translator), ("en", "zh_Hans", translator)])
    for asked in (("EN-GB", "ZU"), ("en_US", "zu-ZA"), ("en", "PT"), ("en", "pt-pt"), ("EN", "zh-hans")):
        service.model_for(*asked)


def test_settings_and_health(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()
    assert (settings["keyRequired"], settings["charLimit"]) == (False, 20_000)
    assert settings["language"]["target"] == {"code": "zu", "name": "Zulu"}
    assert client.get("/health").json() == {"status": "ok"}


# Ours


def run_verb(*arguments: object) -> list[dict[str, Any]]:
    done = CliRunner().invoke(verbs, [*map(str, arguments), "--json"], catch_exceptions=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_v1_says_what_the_command_line_says(client: TestClient, served_directory: Path, tmp_path: Path) -> None:
    sources, targets = [BIRD, "", COWS], ["nibona inyoni.", "a", ""]
    for name, lines in (("source", sources), ("target", targets), ("prefix", ["wu", "", "a"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    given = {"sources": sources, "targets": targets}
    pair = ("--source", tmp_path / "source", "--target", tmp_path / "target")

    def results(path: str, **body: Any) -> Any:
        answer = client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]

    options = ["--search", "dynamic", "--beam", "3", "--n-best", "2", "--stop", "paper", "--max-length", "30"]
    said = run_verb("translate", served_directory, "-i", tmp_path / "source", "--prefix", tmp_path / "prefix", *options)
    asked = {"search": "dynamic", "beam": 3, "n_best": 2, "stop": "paper", "max_length": 30}
    assert results("translate", sources=sources, prefixes=["wu", "", "a"], **asked) == said
    said = run_verb("translate", served_directory, "-i", tmp_path / "source", "--search", "sample", "--seed", "7")
    assert results("translate", sources=sources, search="sample", seed=7) == said
    assert results("score", **given) == run_verb("score", served_directory, *pair)
    said = run_verb("score", served_directory, *pair, "--best-path")
    assert results("score", **given, best_path=True) == said
    said = run_verb("segment", served_directory, *pair, "--n-best", "2", "--posteriors")
    records = results("segment", **given, n_best=2, posteriors=True)
    assert [record for record in records if record["segments"]] == [record for record in said if record["segments"]]
    assert [record["posteriors"] for record in records[1:]] == [[], []]
    said = run_verb("segment", served_directory, *pair[2:], "--method", "posterior", "--threshold", "0.2")
    assert results("segment", targets=targets, method="posterior", threshold=0.2) == said
    with_posteriors = run_verb("segment", served_directory, *pair, "--posteriors")[0]
    assert results("posteriors", **given)[0]["posteriors"] == with_posteriors["posteriors"]


def test_v1_knows_its_models_and_splits(client: TestClient) -> None:
    (model,) = client.get("/v1/models").json()
    assert (model["model"], model["target_name"], model["searches"][0]) == ("en-zu", "Zulu", "marginal")
    answer = client.post("/v1/split", json={"texts": [" One.  Two\n"]}).json()
    assert answer == {"model": "en-zu", "results": [{"sentences": ["One.", "Two"], "gaps": [" ", "  ", "\n"]}]}


def test_v1_has_every_option_of_a_search() -> None:
    defaults = {field.name: field.default for field in fields(SearchOptions)}
    assert {name: TranslateRequest.model_fields[name].default for name in defaults} == defaults


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("translate", {"sources": ["a"], "prefixes": []}, 400, "1 sources and 0 prefixes"),
        ("translate", {"sources": ["a"], "prefixes": ["Ω"]}, 400, "prefix 1: the model has never seen"),
        ("translate", {"sources": ["a"], "beam": 33}, 400, "beam and n_best can be 32 at most"),
        ("translate", {"sources": ["a"], "candidates": 101}, 400, "candidates can be 100 at most"),
        ("translate", {"sources": ["a"], "min_length": 5000}, 400, "can be 2,000 at most"),
        ("translate", {"sources": ["a"], "search": "greedy"}, 400, "has no search"),
        ("translate", {"sources": ["a"], "temperature": 2}, 400, "has no temperature"),
        ("translate", {"sources": ["a"], "model": "en-zz"}, 400, "no such model; did you mean 'en-zu'"),
        ("translate", {"sources": ["a"], "bean": 3}, 422, "bean: Extra inputs"),
        ("translate", {"sources": "a"}, 422, "sources: "),
        ("translate", {}, 422, "sources: Field required"),
        ("translate", {"sources": ["a" * 1001]}, 400, "source 1: has a sentence of 1,001 characters"),
        ("score", {"sources": ["a"], "targets": []}, 422, "1 sources and 0 targets"),
        ("score", {"sources": ["", "a"], "targets": ["a", "Ω"]}, 400, "target 2: the model has never seen"),
        ("segment", {"targets": ["a"], "method": "posterior", "n_best": 2}, 422, "n_best goes with viterbi"),
        ("segment", {"targets": ["a"], "threshold": 0.3}, 422, "threshold goes with posterior"),
        ("posteriors", {"targets": ["a\nb"]}, 400, "target 1: has a line break"),
    ],
)
def test_v1_refuses_in_words(client: TestClient, path: str, body: dict[str, Any], status: int, message: str) -> None:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_several_models_need_a_name(translator: Translator) -> None:
    with TestClient(_app(Service([("en", "zu", translator), ("en", "ss", translator)]))) as client:
        answer = client.post("/v1/translate", json={"sources": [BIRD]})
        assert (answer.status_code, answer.json()) == (400, {"error": "Say which model: en-zu, en-ss"})
        assert client.post("/v1/translate", json={"sources": [BIRD], "model": "en-ss"}).status_code == 200


def _app(service: Service) -> Any:
    from ssmt.serve.app import create_app

    return create_app(service)


# Keys and limits


def test_keys_are_asked_for_and_expire(new_client: NewClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    from ssmt.serve import keys

    good, old = add_key(tmp_path / "keys", "good", None), add_key(tmp_path / "keys", "old", keys.today())
    client = new_client(keys=Keys(tmp_path / "keys"))
    body = {"q": "42", "source": "en", "target": "zu"}
    deepl_body = {"text": ["42"], "target_lang": "ZU"}

    def statuses(key: str | None) -> list[int]:
        return [
            client.post("/translate", json=body | ({} if key is None else {"api_key": key})).status_code,
            client.post("/v2/translate", json=deepl_body, headers=_headers("DeepL-Auth-Key", key)).status_code,
            client.get("/v2/usage", headers=_headers("DeepL-Auth-Key", key)).status_code,
            client.post("/v1/translate", json={"sources": []}, headers=_headers("Bearer", key)).status_code,
        ]

    assert statuses(good) == statuses(old) == [200] * 4
    assert statuses(None) == statuses("") == statuses("wrong") == statuses(good + "x") == [403] * 4
    assert client.post("/translate", json=body).json() == {"error": "This service needs an API key"}
    answer = client.post("/v2/translate", json=deepl_body, headers=_headers("DeepL-Auth-Key", "ключ"))
    assert (answer.status_code, list(answer.json())) == (403, ["message"])
    assert client.get("/languages").status_code == 200  # clients ask for these without a key
    assert client.get("/frontend/settings").json()["keyRequired"] is True

    tomorrow = keys.today() + timedelta(days=1)
    monkeypatch.setattr(keys, "today", lambda: tomorrow)
    assert (statuses(good), statuses(old)) == ([200] * 4, [403] * 4)
    lines = (tmp_path / "keys").read_text(encoding="utf-8").splitlines()
    (tmp_path / "keys").write_text(lines[1] + "\n", encoding="utf-8")  # revoked while it serves
    assert statuses(good) == [403] * 4


def _headers(scheme: str, key: str | None) -> dict[str, bytes]:
    return {} if key is None else {"Authorization": f"{scheme} {key}".encode()}


def test_sizes_are_bounded(new_client: NewClient) -> None:
    client = new_client(limits=Limits(request_bytes=500, request_characters=50, request_texts=2))
    long = {"source": "en", "target": "zu"}
    answer = client.post("/translate", json=long | {"q": "a" * 51})
    assert (answer.status_code, answer.json()) == (400, {"error": "51 characters; a request can have 50"})
    assert client.post("/v1/translate", json={"sources": ["a" * 51]}).status_code == 413
    answer = client.post("/v2/translate", json={"text": ["a", "b", "c"], "target_lang": "ZU"})
    assert (answer.status_code, answer.json()) == (413, {"message": "3 texts; a request can have 2"})
    for content in (b"x" * 501, iter([b"x" * 300, b"x" * 300])):
        answer = client.post("/translate", content=content)
        assert (answer.status_code, answer.json()) == (413, {"error": "A request can have 500 bytes"})


def test_characters_a_minute_are_bounded(new_client: NewClient) -> None:
    client = new_client(limits=Limits(characters_per_minute=100))
    body = {"q": "4" * 150, "source": "en", "target": "zu"}
    assert client.post("/translate", json=body).status_code == 200
    answer = client.post("/translate", json=body)
    assert answer.status_code == 429
    assert 25 <= int(answer.headers["Retry-After"]) <= 31
    assert client.post("/v2/translate", json={"text": ["a"], "target_lang": "ZU"}).status_code == 429
    assert client.get("/v2/usage").json()["character_count"] == 150


def test_what_is_not_done_in_time_is_refused(new_client: NewClient) -> None:
    client = new_client(limits=Limits(deadline=0.2), batching=Batching(window=5.0))
    answer = client.post("/translate", json={"q": BIRD, "source": "en", "target": "zu"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json() == {"error": "Not done after 0.2 seconds; try again later"}


# What surrounds them


def test_metrics_are_prometheus(client: TestClient) -> None:
    client.post("/translate", json={"q": BIRD, "source": "en", "target": "zu"})
    client.post("/translate", json={})
    client.get("/secret/text")
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }
    assert found["ssmt_requests_total", ("path", "/translate"), ("status", "200")] == 1
    assert found["ssmt_requests_total", ("path", "/translate"), ("status", "400")] == 1
    assert found["ssmt_requests_total", ("path", "other"), ("status", "404")] == 1
    assert found["ssmt_characters_total", ("model", "en-zu")] == len(BIRD)
    assert found["ssmt_batch_sentences_sum", ("model", "en-zu")] == 1
    assert found["ssmt_queue_sentences", ("model", "en-zu")] == 0
    assert found["ssmt_request_seconds_count", ("path", "/translate")] == 2
    assert found["ssmt_errors_total",] == 0


def test_other_origins_are_let_in_only_if_asked(new_client: NewClient) -> None:
    origin = {"Origin": "https://page.example"}
    assert "access-control-allow-origin" not in new_client().get("/languages", headers=origin).headers
    allowing = new_client(cors=("https://page.example",))
    assert allowing.get("/languages", headers=origin).headers["access-control-allow-origin"] == "https://page.example"
    other = allowing.get("/languages", headers={"Origin": "https://other.example"}).headers
    assert "access-control-allow-origin" not in other


def test_a_failure_is_an_answer_and_the_log_has_no_text(
    new_client: NewClient, translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client()

    def fail(*arguments: object, **settings: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(translator, "n_best_translations", fail)
    answer = client.post("/translate", json={"q": SECRET, "source": "en", "target": "zu"})
    assert (answer.status_code, answer.json()) == (500, {"error": "An error of the service"})
    answer = client.post("/v2/translate", json={"text": [SECRET], "target_lang": "ZU"})
    assert (answer.status_code, answer.json()) == (500, {"message": "An error of the service"})
    assert "RuntimeError while answering /translate" in caplog.text
    assert SECRET not in caplog.text
    assert "ssmt_errors_total 2.0" in client.get("/metrics").text


def test_pages_come_from_here_alone(client: TestClient) -> None:
    import re

    for path in ("/", "/docs"):
        page = client.get(path)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", page.text)
        for link in re.findall(r"""(?:src|href)=["']([^"'#]+)["']""", page.text):
            answer = client.get(f"/{link}")
            assert answer.status_code == 200, link
            assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/openapi.json").json()["info"]["title"] == "ssmt"
    assert "'unsafe-inline'" not in client.get("/").headers["content-security-policy"]


def test_lines_of_html_do_not_end_sentences(client: TestClient, translator: Translator) -> None:
    """As with DeepL; in text they do, with both."""
    bird = ours(translator, BIRD)[0]
    html = "<p>I see\na bird.</p>"
    body = {"text": [html], "source_lang": "EN", "target_lang": "ZU", "tag_handling": "html"}
    assert client.post("/v2/translate", json=body).json()["translations"][0]["text"] == f"<p>{bird}</p>"
    body = {"q": html, "source": "en", "target": "zu", "format": "html"}
    assert client.post("/translate", json=body).json()["translatedText"] == f"<p>{bird}</p>"
    parts = ours(translator, "I see", "a bird.")
    body = {"q": "I see\na bird.", "source": "en", "target": "zu"}
    assert client.post("/translate", json=body).json()["translatedText"] == "\n".join(parts)


def test_each_text_has_its_own_language(
    translator: Translator, new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of short ones, that of all together."""
    client = TestClient(create_app(Service([("en", "zu", translator), ("xh", "zu", translator)])))
    monkeypatch.setattr(ServedModel, "fit", lambda self, text: 1.0 - (("molo" in text) == (self.source == "en")))
    english, xhosa = 3 * f"{BIRD} ", "molo " * 20
    with client:
        texts = [english.strip(), xhosa.strip(), COWS]
        said = client.post("/v2/translate", json={"text": texts, "target_lang": "ZU"}).json()["translations"]
        assert [one["detected_source_language"] for one in said] == ["EN", "XH", "XH"]
        assert said[0]["text"] == " ".join(ours(translator, BIRD, BIRD, BIRD))
        answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "zu"}).json()
        assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "xh", "xh"]
        assert answer["translatedText"] == [one["text"] for one in said]


def test_the_language_itself_serves_for_its_variants(translator: Translator) -> None:
    service = Service([("en", "pt", translator), ("en", "pt-BR", translator)])
    assert [service.model_for("en", code).target for code in ("PT-PT", "pt-br", "pt")] == ["pt", "pt-BR", "pt"]


def test_prefixes_are_bounded_and_lengths_that_are_asked_for_are_paid(new_client: NewClient) -> None:
    client = new_client(limits=Limits(output=50, characters_per_minute=80))
    body: dict[str, Any] = {"sources": ["I", "I"], "prefixes": ["n" * 51, ""]}
    refused = client.post("/v1/translate", json=body)
    assert (refused.status_code, refused.json()) == (400, {"error": "a prefix can have 50 characters at most"})
    assert client.post("/v1/translate", json={"sources": ["I", "I"], "min_length": 40}).status_code == 200
    assert client.post("/v1/translate", json={"sources": ["I"]}).status_code == 429


def test_long_outputs_that_are_asked_for_fill_a_batch(translator: Translator) -> None:
    async def cost(**options: int) -> float:
        ticket = Ticket(translator, Translate(SearchOptions(**options)), 1)
        return Waiting(ticket, 0, Input("I see.")).cost

    assert asyncio.run(cost()) == 20
    assert asyncio.run(cost(min_length=500)) == asyncio.run(cost(max_length=500)) == 500
    assert asyncio.run(cost(min_length=500, beam=10)) == 1000


def test_answers_about_characters_fit_the_text_that_they_give(client: TestClient) -> None:
    """A letter and its accent that came apart are one character."""
    body = {"targets": ["ne\u0301na"], "allow_unknown": True, "posteriors": True}
    (found,) = client.post("/v1/segment", json=body).json()["results"]
    assert found["translation"] == "".join(found["segments"]) == "n\u00e9na"
    assert len(found["posteriors"]) == 4
    del body["posteriors"]
    (found,) = client.post("/v1/posteriors", json=body).json()["results"]
    assert (found["translation"], len(found["posteriors"])) == ("n\u00e9na", 4)


def test_a_request_that_asks_for_two_things_has_the_time_of_one(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was refused for want of time costs nothing."""
    client = new_client(limits=Limits(deadline=20.0, characters_per_minute=1_000_000))
    given: list[float] = []
    perform = Service.perform

    async def slowly(self: Service, model: Any, operation: Any, inputs: Any, seconds: float) -> Any:
        given.append(seconds)
        if len(given) == 2:
            raise Refusal(503, "Not done")
        await asyncio.sleep(0.2)
        return await perform(self, model, operation, inputs, seconds)

    monkeypatch.setattr(Service, "perform", slowly)
    body = {"targets": ["ni."], "allow_unknown": True, "posteriors": True}
    assert client.post("/v1/segment", json=body).status_code == 503
    assert given[0] <= 20
    assert given[1] <= given[0] - 0.2
    assert client.get("/v2/usage").json()["character_count"] == 0


def test_a_page_that_is_let_in_can_read_refusals(new_client: NewClient) -> None:
    client = new_client(cors=("https://page.example",), limits=Limits(request_bytes=10))
    answer = client.post("/translate", content=b"x" * 11, headers={"Origin": "https://page.example"})
    assert answer.status_code == 413
    assert answer.headers["Access-Control-Allow-Origin"] == "https://page.example"


def test_a_type_of_language_that_deepl_has_not_is_refused_as_there(client: TestClient) -> None:
    assert client.get("/v2/languages?type=both").status_code == 400


def test_a_model_that_cannot_cut_its_source_is_not_served(
    served_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An imported one, without its codes."""

    def encode(self: Subwords, lines: Sequence[str]) -> Any:
        raise UserError("This model was imported without BPE codes")

    monkeypatch.setattr(Subwords, "encode", encode)
    with pytest.raises(UserError, match="without BPE codes"):
        load_service([str(served_directory)])
