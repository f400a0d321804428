"""Codes of languages: what they are called, and which one a client means."""

from __future__ import annotations

from collections.abc import Iterable

# ISO 639-1, and of ISO 639-3 languages that people build models for.
_NAMES = """
aa Afar|ab Abkhazian|af Afrikaans|ak Akan|am Amharic|an Aragonese|ar Arabic|as Assamese|av Avaric|ay Aymara
az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian|bi Bislama|bm Bambara|bn Bengali|bo Tibetan|br Breton|bs Bosnian
ca Catalan|ce Chechen|ch Chamorro|co Corsican|cs Czech|cv Chuvash|cy Welsh|da Danish|de German|dv Dhivehi|dz Dzongkha
ee Ewe|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|ff Fulah|fi Finnish|fj Fijian
fo Faroese|fr French|fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|gv Manx
ha Hausa|he Hebrew|hi Hindi|hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian|hz Herero|ia Interlingua
id Indonesian|ig Igbo|ii Sichuan Yi|ik Inupiaq|is Icelandic|it Italian|iu Inuktitut|ja Japanese|jv Javanese|ka Georgian
kg Kongo|ki Kikuyu|kj Kuanyama|kk Kazakh|kl Greenlandic|km Khmer|kn Kannada|ko Korean|kr Kanuri|ks Kashmiri|ku Kurdish
kv Komi|kw Cornish|ky Kyrgyz|la Latin|lb Luxembourgish|lg Ganda|li Limburgish|ln Lingala|lo Lao|lt Lithuanian
lu Luba-Katanga|lv Latvian|mg Malagasy|mh Marshallese|mi Māori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi
ms Malay|mt Maltese|my Burmese|na Nauru|nb Norwegian Bokmål|nd North Ndebele|ne Nepali|ng Ndonga|nl Dutch
nn Norwegian Nynorsk|no Norwegian|nr South Ndebele|nv Navajo|ny Chichewa|oc Occitan|oj Ojibwa|om Oromo|or Odia
os Ossetian|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|qu Quechua|rm Romansh|rn Rundi|ro Romanian|ru Russian
rw Kinyarwanda|sa Sanskrit|sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|si Sinhala|sk Slovak|sl Slovenian
sm Samoan|sn Shona|so Somali|sq Albanian|sr Serbian|ss Swati|st Southern Sotho|su Sundanese|sv Swedish|sw Swahili
ta Tamil|te Telugu|tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana|to Tonga|tr Turkish|ts Tsonga|tt Tatar
tw Twi|ty Tahitian|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|ve Venda|vi Vietnamese|wa Walloon|wo Wolof|xh Xhosa
yi Yiddish|yo Yoruba|za Zhuang|zh Chinese|zu Zulu|nso Northern Sotho|zul Zulu|xho Xhosa|ssw Swati|eng English
fin Finnish|quy Ayacucho Quechua|quz Cusco Quechua|shi Tachelhit|kab Kabyle|bem Bemba|luo Luo|tum Tumbuka|umb Umbundu
sme Northern Sami|smn Inari Sami|sms Skolt Sami|myv Erzya|mdf Moksha|chr Cherokee|haw Hawaiian|nah Nahuatl|yua Maya
art Artificial
"""
NAMES = {
    code: name
    for code, _, name in (entry.partition(" ") for line in _NAMES.strip().split("\n") for entry in line.split("|"))
}


def name_of(code: str) -> str:
    """What a language is called in English, its script or country in brackets; its code where we do not know."""
    main, *others = code.replace("_", "-").split("-")
    name = NAMES.get(main.lower(), main)
    return f"{name} ({', '.join(others)})" if others else name


def served(asked: str, codes: Iterable[str]) -> str | None:
    """Which of the codes a client means: the same one however it is written, else the language without a country, else
    the only one of that language."""
    codes = list(codes)
    wanted = _comparable(asked)
    if same := [code for code in codes if _comparable(code) == wanted]:
        return same[0]
    language = wanted.partition("-")[0]
    related = [code for code in codes if _comparable(code).partition("-")[0] == language]
    plain = [code for code in related if _comparable(code) == language]
    return plain[0] if plain else related[0] if len(related) == 1 else None


def _comparable(code: str) -> str:
    return code.replace("_", "-").lower()
